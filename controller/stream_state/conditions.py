"""Conditions: what somebody should know of a stream, each only while it holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from tidemark.controller.api.schemas import Condition, ConditionType
from tidemark.controller.db.tables import (
    AcknowledgementRow,
    PublishedRow,
    RecommendationRow,
    RolloutRow,
    StreamRow,
)
from tidemark.controller.decide.ceiling import NO_CEILING, Room
from tidemark.controller.decide.stored_steps import steps_of
from tidemark.controller.partitions.store import FutureRows
from tidemark.controller.pins.store import StoredPin
from tidemark.controller.specs.store import Spec
from tidemark.controller.stream_state.live import KeptLive
from tidemark.controller.stream_state.overview_store import Skewed
from tidemark.models.adoption import AppliedState, has_applied
from tidemark.models.duration import format_about, format_duration
from tidemark.models.horizon import HorizonFacts
from tidemark.models.live_defaults import CEILING_ALARM_PPM
from tidemark.models.plural import plural
from tidemark.models.progress import Progress
from tidemark.models.rollout.states import CANDIDATE, UNDER_WAY, State, rollout_text
from tidemark.models.slo import Slo
from tidemark.models.target import PPM
from tidemark.models.wire import Mode

__all__ = ["ALERTS", "WORST_FIRST", "Seen", "conditions_of"]

NAMES_SHOWN = 10
"""How many partitions a condition names; the list of partitions has all of them."""


WORST_FIRST: tuple[ConditionType, ...] = (
    "OperatorContradicted",
    "LiveWithoutCeiling",
    "SkewBeyondCeiling",
    "CeilingNear",
    "ConstraintsConflict",
    "TargetMissed",
    "RolledBack",
    "NoRecentReport",
    "CoverageGap",
    "RowsNotCounted",
    "NeedsUnknown",
    "FutureRows",
    "PartitionSkewed",
    "PartitionsSilent",
    "BoundNotAcknowledged",
    "RolloutHeld",
    "Paused",
    "Pinned",
    "NotEnoughEvidence",
    "NoReportYet",
    "NoSlo",
    "Rolling",
)
"""Kinds of conditions: first those that lose rows or leave a job unsteered, then doubts, last what is but told."""


ALERTS = frozenset(WORST_FIRST[: WORST_FIRST.index("RolloutHeld")])
"""Those that somebody should do something about; the others only tell what is going on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What conditions are judged by. None is unknown, or not there."""

    stream: StreamRow
    """The stream."""
    slo: Spec[Slo] | None
    """Its SLO."""
    mode: Mode
    """Its mode."""
    facts: HorizonFacts | None
    """What was reported over the horizon."""
    progress: Progress
    """How it has been getting on."""
    recommendation: RecommendationRow | None
    """The newest recommendation."""
    published: PublishedRow | None
    """What the job is told."""
    applied: AcknowledgementRow | None
    """What the job last acknowledged."""
    pin: StoredPin | None
    """The pin in force."""
    rollout: RolloutRow | None
    """The newest rollout."""
    missed: RolloutRow | None
    """The rollout that missed its target after it was verified."""
    paused: bool
    """Whether the policy is paused."""
    paused_why: str | None
    """Why; None when the policy was set so."""
    contradiction: str | None
    """How the query's plan contradicts the declared operator."""
    live: KeptLive | None
    """What the fast policy did in the newest batch."""
    room: Room | None
    """What its ceiling has to leave room for."""
    future: FutureRows
    """Rows that were dated ahead of the clock."""
    skewed: Sequence[Skewed]
    """Partitions that are skewed, the most costly first."""


def conditions_of(seen: Seen) -> list[Condition]:
    """Return the conditions that hold."""
    return [
        *_expected(seen.stream),
        *_pinned(seen),
        *_specified(seen.slo),
        *_contradicted(seen.contradiction),
        *_observed(seen.facts),
        *_silent(seen),
        *_ahead(seen.future),
        *_skewed(seen.skewed),
        *_decided(seen.recommendation),
        *_rolled(seen),
        *_paused(seen),
        *_missed(seen.missed),
        *_rolling(seen.rollout),
        *_ceiling(seen),
    ]


def _expected(stream: StreamRow) -> Iterator[Condition]:
    if stream.registered_us is None:
        yield Condition(type="NoReportYet", detail="no report has come; the stream is expected")


def _pinned(seen: Seen) -> Iterator[Condition]:
    if seen.pin is not None:
        held = "its own bound" if seen.pin.to == "Off" else "its ceiling alone"
        found = [f"the job is held to {held} {seen.pin.why}", *_not_taken_up(seen)]
        yield Condition(type="Pinned", detail="; ".join(found))


def _specified(slo: Spec[Slo] | None) -> Iterator[Condition]:
    if slo is None:
        yield Condition(type="NoSlo", detail="no SLO is set, so nothing is recommended")


def _contradicted(contradiction: str | None) -> Iterator[Condition]:
    if contradiction is not None:
        detail = f"{contradiction}: no row is judged; the driver's log has the call to write"
        yield Condition(type="OperatorContradicted", detail=detail)


def _observed(known: HorizonFacts | None) -> Iterator[Condition]:
    if known is None:
        return
    if known.missing_batches:
        batches, were = plural(known.missing_batches, "batch", "batches"), _were(known.missing_batches)
        detail = f"{batches} {were} never reported: completeness is unknown there"
        yield Condition(type="CoverageGap", detail=detail)
    if known.uncounted_rows:
        rows, were = plural(known.uncounted_rows, "row"), _were(known.uncounted_rows)
        detail = f"{rows} {were} not counted by granule, so what became of them is unknown"
        yield Condition(type="RowsNotCounted", detail=detail)
    if known.unknown_rows > known.uncounted_rows:
        rows = plural(known.unknown_rows, "row")
        detail = f"the need of {rows} is not known: no base was known for what reported them"
        yield Condition(type="NeedsUnknown", detail=detail)


def _silent(seen: Seen) -> Iterator[Condition]:
    if not seen.paused:
        for found in _no_report(seen.progress):
            detail = (
                f"{found}: the recommendation is held and nothing is narrowed; is the job running? "
                "If it ended on purpose, pause the stream"
            )
            yield Condition(type="NoRecentReport", detail=detail)
    silent = seen.progress.silent_partitions
    if silent:
        are, their = ("is", "its") if silent == 1 else ("are", "their")
        detail = (
            f"{plural(silent, 'partition')} that used to report {are} silent; nothing is narrowed, because {their} "
            "rows may come late; the stream's list of partitions says which"
        )
        yield Condition(type="PartitionsSilent", detail=detail)


def _no_report(progress: Progress) -> Iterator[str]:
    """Return for how long no report has come, when that is longer than usual."""
    silent_us, gap_us = progress.silent_us, progress.batch_gap_us
    if silent_us is not None and gap_us is not None and progress.fell_silent:
        yield f"no report for {format_about(silent_us)}, where {format_about(gap_us)} between batches is typical"


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def _ahead(future: FutureRows) -> Iterator[Condition]:
    if future.rows:
        detail = (
            f"{plural(future.rows, 'row')} {_were(future.rows)} dated ahead of the clock and set back to it, "
            f"in {_named(future.partitions)}: are the clocks of their senders right?"
        )
        yield Condition(type="FutureRows", detail=detail)


def _skewed(skewed: Sequence[Skewed]) -> Iterator[Condition]:
    if skewed:
        more, are = len(skewed) - 1, "is" if len(skewed) == 2 else "are"
        others = f"; {plural(more, 'more partition')} {are} skewed" if more else ""
        yield Condition(type="PartitionSkewed", detail=skewed[0].text + others)


def _named(partitions: Sequence[str]) -> str:
    if not partitions:
        return "partitions that are not known any more"
    found = ", ".join(map(repr, partitions[:NAMES_SHOWN]))
    more = len(partitions) - NAMES_SHOWN
    which = "partition" if len(partitions) == 1 else "partitions"
    return f"{which} {found}" + (f" and {more:,} more" if more > 0 else "")


def _decided(recommendation: RecommendationRow | None) -> Iterator[Condition]:
    if recommendation is None:
        return
    steps = steps_of(recommendation)
    if recommendation.conflict:
        # The first releases did not store which step found the conflict.
        found = [step for step in steps if step.conflict is not None] or steps
        yield Condition(type="ConstraintsConflict", detail=found[-1].reason)
    elif recommendation.bound_ms is None:
        yield Condition(type="NotEnoughEvidence", detail=steps[-1].reason)


def _rolled(seen: Seen) -> Iterator[Condition]:
    # What somebody decided is not news: it is told with the pin or the pause.
    if seen.pin is None and not seen.paused:
        for found in _not_taken_up(seen):
            yield Condition(type="BoundNotAcknowledged", detail=found)


def _not_taken_up(seen: Seen) -> Iterator[str]:
    """Return what is published and not acknowledged, if anything is."""
    published, applied = seen.published, seen.applied
    if published is None or _taken_up(published, seen):
        return
    what = "mode Live" if published.mode == "Live" else format_duration((published.bound_ms or 0) * 1_000)
    if applied is None:
        has = "the job has acknowledged none"
    elif applied.generation is None:
        has = f"the job last acknowledged its own bound, {format_duration(applied.bound_ms * 1_000)}"
    else:
        has = f"the job last acknowledged generation {applied.generation}, {format_duration(applied.bound_ms * 1_000)}"
    yield f"generation {published.generation}, {what}, is published; {has}"


def _taken_up(published: PublishedRow, seen: Seen) -> bool:
    applied, last_contact_us = seen.applied, None if seen.live is None else seen.live.last_contact_us
    said = (
        AppliedState(last_contact_us=last_contact_us)
        if applied is None
        else AppliedState(applied.generation, applied.bound_ms, cast("Mode", applied.mode), last_contact_us)
    )
    return has_applied(
        said,
        generation=published.generation,
        mode=cast("Mode", published.mode),
        bound_ms=published.bound_ms,
        published_us=published.published_us,
    )


def _paused(seen: Seen) -> Iterator[Condition]:
    if seen.paused:
        found = [
            f"nothing new is rolled: {seen.paused_why or 'the policy is set to paused'}",
            *_no_report(seen.progress),
            *(_not_taken_up(seen) if seen.pin is None else ()),
        ]
        yield Condition(type="Paused", detail="; ".join(found))


def _missed(missed: RolloutRow | None) -> Iterator[Condition]:
    if missed is not None:
        yield Condition(type="TargetMissed", detail=f"rollout {missed.id}: {missed.reason}")


def _rolling(rollout: RolloutRow | None) -> Iterator[Condition]:
    if rollout is None:
        return
    reason = f"rollout {rollout_text(rollout.id, cast('State', rollout.state), rollout.reason)}"
    if rollout.state in UNDER_WAY:
        yield Condition(type="Rolling", detail=reason)
    elif rollout.state in CANDIDATE:
        yield Condition(type="RolloutHeld", detail=reason)
    elif rollout.state == "RolledBack" and rollout.missed_us is None:
        yield Condition(type="RolledBack", detail=reason)


def _ceiling(seen: Seen) -> Iterator[Condition]:
    live, room = seen.live, seen.room
    if live is not None and live.ceiling_used_ppm >= CEILING_ALARM_PPM:
        share = live.ceiling_used_ppm / PPM
        ceiling = format_duration(live.ceiling_ms * 1_000)
        detail = (
            f"the watermark trails the stream by {share:.0%} of the ceiling, {ceiling}: "
            "beyond it the ceiling closes windows that live control holds open"
        )
        yield Condition(type="CeilingNear", detail=detail)
    if seen.mode != "Live" or room is None:
        return
    if room.ceiling_ms is None:
        detail = f"{NO_CEILING}, so the job cannot be steered live and keeps its own bound"
        yield Condition(type="LiveWithoutCeiling", detail=detail)
    elif room.too_low:
        ceiling = format_duration(room.ceiling_ms * 1_000)
        detail = f"the ceiling, {ceiling}, is below {room.needed}; the slowest rows are lost to it"
        yield Condition(type="SkewBeyondCeiling", detail=detail)
