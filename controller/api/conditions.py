"""Conditions: what somebody should know of a stream, each only while it holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from tidemark.controller.api.schemas import Condition, ConditionType
from tidemark.controller.ceiling import NO_CEILING, Room
from tidemark.controller.decision import CAPS, steps_of
from tidemark.controller.store.live import KeptLive
from tidemark.controller.store.overviews import Skewed
from tidemark.controller.store.partitions import FutureRows
from tidemark.controller.store.pins import StandingPin
from tidemark.controller.store.specs import Spec
from tidemark.controller.store.tables import (
    AcknowledgementRow,
    PublishedRow,
    RecommendationRow,
    RolloutRow,
    StreamRow,
)
from tidemark.models.adoption import Said, has_taken_up
from tidemark.models.defaults import CEILING_ALARM_PPM
from tidemark.models.duration import format_about, format_duration
from tidemark.models.horizon import Facts
from tidemark.models.progress import Progress
from tidemark.models.rollout.states import CANDIDATE, UNDER_WAY
from tidemark.models.slo import Slo
from tidemark.models.target import PPM
from tidemark.models.wire import Mode

__all__ = ["ALERTS", "WORST_FIRST", "Seen", "conditions_of"]

NAMES_TOLD = 10
"""How many partitions a condition names; /partitions has all of them."""


WORST_FIRST: tuple[ConditionType, ...] = (
    "LiveWithoutCeiling",
    "SkewBeyondCeiling",
    "CeilingNear",
    "ConstraintsConflict",
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
    facts: Facts | None
    """What was reported over the horizon."""
    progress: Progress
    """How it has been getting on."""
    recommendation: RecommendationRow | None
    """The newest recommendation."""
    published: PublishedRow | None
    """What the job is told."""
    applied: AcknowledgementRow | None
    """What the job last acknowledged."""
    pin: StandingPin | None
    """The pin in force."""
    rollout: RolloutRow | None
    """The newest rollout."""
    paused: bool
    """Whether the policy is paused."""
    paused_why: str | None
    """Why; None when the policy was set so."""
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
        *_pinned(seen.pin),
        *_specified(seen.slo),
        *_observed(seen.facts),
        *_silent(seen.progress),
        *_ahead(seen.future),
        *_skewed(seen.skewed),
        *_decided(seen.recommendation),
        *_rolled(seen),
        *_paused(seen),
        *_rolling(seen.rollout),
        *_ceiling(seen),
    ]


def _expected(stream: StreamRow) -> Iterator[Condition]:
    if stream.registered_us is None:
        yield Condition(type="NoReportYet", detail="no report has come; the stream is expected")


def _pinned(pin: StandingPin | None) -> Iterator[Condition]:
    if pin is not None:
        held = "its own bound" if pin.to == "Off" else "its ceiling alone"
        yield Condition(type="Pinned", detail=f"the job is held to {held} {pin.why}")


def _specified(slo: Spec[Slo] | None) -> Iterator[Condition]:
    if slo is None:
        yield Condition(type="NoSlo", detail="no SLO is set, so nothing is recommended")


def _observed(known: Facts | None) -> Iterator[Condition]:
    if known is None:
        return
    if known.missing_batches:
        detail = f"{known.missing_batches:,} batches were never reported: completeness is unknown there"
        yield Condition(type="CoverageGap", detail=detail)
    if known.uncounted_rows:
        detail = f"{known.uncounted_rows:,} rows were not counted by granule: their fate is unknown"
        yield Condition(type="RowsNotCounted", detail=detail)
    if known.unknown_rows > known.uncounted_rows:
        detail = f"the need of {known.unknown_rows:,} rows is not known: no base was known for their batches"
        yield Condition(type="NeedsUnknown", detail=detail)


def _silent(progress: Progress) -> Iterator[Condition]:
    silent_us, gap_us = progress.silent_us, progress.batch_gap_us
    if silent_us is not None and gap_us is not None and progress.fell_silent:
        detail = (
            f"no report for {format_about(silent_us)}, where {format_about(gap_us)} between batches is typical: "
            "the recommendation is held and nothing is narrowed; is the job running?"
        )
        yield Condition(type="NoRecentReport", detail=detail)
    if progress.silent_partitions:
        detail = (
            f"partitions that used to report and are silent: {progress.silent_partitions:,}; nothing is narrowed, "
            "because what they hold back may come late; the stream's list of partitions says which"
        )
        yield Condition(type="PartitionsSilent", detail=detail)


def _ahead(future: FutureRows) -> Iterator[Condition]:
    if future.rows:
        detail = (
            f"{future.rows:,} rows were dated ahead of the clock and set back to it, "
            f"in {_named(future.partitions)}: are the clocks of their senders right?"
        )
        yield Condition(type="FutureRows", detail=detail)


def _skewed(skewed: Sequence[Skewed]) -> Iterator[Condition]:
    if skewed:
        others = f"; {len(skewed) - 1:,} more partitions are skewed" if len(skewed) > 1 else ""
        yield Condition(type="PartitionSkewed", detail=skewed[0].text + others)


def _named(partitions: Sequence[str]) -> str:
    if not partitions:
        return "partitions that are not known any more"
    told = ", ".join(map(repr, partitions[:NAMES_TOLD]))
    more = len(partitions) - NAMES_TOLD
    which = "partition" if len(partitions) == 1 else "partitions"
    return f"{which} {told}" + (f" and {more:,} more" if more > 0 else "")


def _decided(recommendation: RecommendationRow | None) -> Iterator[Condition]:
    if recommendation is None:
        return
    name, bound_ms, reason = steps_of(recommendation)[0]
    if name == "quantile" and bound_ms is None:
        yield Condition(type="NotEnoughEvidence", detail=reason)
    if recommendation.conflict:
        # The cap that does not fit is the last one that was looked at.
        detail = next(reason for name, _, reason in reversed(steps_of(recommendation)) if name in CAPS)
        yield Condition(type="ConstraintsConflict", detail=detail)


def _rolled(seen: Seen) -> Iterator[Condition]:
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
    yield Condition(
        type="BoundNotAcknowledged", detail=f"generation {published.generation}, {what}, is published; {has}"
    )


def _taken_up(published: PublishedRow, seen: Seen) -> bool:
    applied, heard_us = seen.applied, None if seen.live is None else seen.live.heard_us
    said = (
        Said(heard_us=heard_us)
        if applied is None
        else Said(applied.generation, applied.bound_ms, cast("Mode", applied.mode), heard_us)
    )
    return has_taken_up(
        said,
        generation=published.generation,
        mode=cast("Mode", published.mode),
        bound_ms=published.bound_ms,
        published_us=published.published_us,
    )


def _paused(seen: Seen) -> Iterator[Condition]:
    if seen.paused:
        yield Condition(
            type="Paused", detail=f"nothing new is rolled: {seen.paused_why or 'the policy is set to paused'}"
        )


def _rolling(rollout: RolloutRow | None) -> Iterator[Condition]:
    if rollout is None:
        return
    told = f"rollout {rollout.id} is {rollout.state}: {rollout.reason}"
    if rollout.state in UNDER_WAY:
        yield Condition(type="Rolling", detail=told)
    elif rollout.state in CANDIDATE:
        yield Condition(type="RolloutHeld", detail=told)
    elif rollout.state == "RolledBack":
        yield Condition(type="RolledBack", detail=told)


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
