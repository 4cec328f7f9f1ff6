"""Conditions: what somebody should know about a stream, each only while it holds. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import cast

from tidemark.controller.base.db.tables import RolloutRow
from tidemark.controller.reports.ran_again import is_ran_again
from tidemark.controller.view.state.answers import Condition, condition, place_of
from tidemark.controller.view.state.condition_types import ConditionType
from tidemark.controller.view.state.recent_reports import RecentQuery, at_once
from tidemark.controller.view.state.row_conditions import conditions_of_rows
from tidemark.controller.view.state.state import NO_CEILING, HorizonState, StreamState
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.target import PPM
from tidemark.models.base.text import plural
from tidemark.models.evidence.partition_counts import SkewCost
from tidemark.models.evidence.progress import UNKNOWN_PROGRESS, Progress
from tidemark.models.protocol.late_policy import why_not_followed
from tidemark.models.protocol.messages import LOSES_NONE, RunEnd
from tidemark.models.rollout.gate import when
from tidemark.models.rollout.states import CANDIDATE, UNDER_WAY, rollout_text
from tidemark.models.specs.run_end import NEVER_MOVED, last_windows


def conditions_of(state: StreamState, horizon: HorizonState | None, now_us: int) -> list[Condition]:
    """Return the conditions that hold for a stream, the worst first.

    Args:
        horizon: what its reports add up to over the horizon; None without reports.
    """
    progress = UNKNOWN_PROGRESS if horizon is None else horizon.progress
    conditions = [
        *_expected(state),
        *_recommended(state),
        *_pinned(state),
        *_paused(state, progress),
        *_frozen(state, now_us),
        *_silent(state, progress),
        *_not_adopted(state),
        *_rollouts(state),
        *_ceiling(state, horizon),
        *_lost(state),
        *_late_policy(state),
        *_last_windows(state),
        *_state_grows(state),
        *_conf_left_out(state),
        *_adoption(state),
    ]
    if horizon is not None:
        conditions += [
            *conditions_of_rows(state, horizon),
            *_skewed(horizon.skewed),
        ]
        conditions += [*_several_queries(horizon.queries), *_stands_still(state, horizon.queries)]
        if horizon.join_miss is not None:
            conditions.append(condition("JoinMissesTarget", horizon.join_miss.text))
    return sorted(conditions, key=place_of)


def _expected(state: StreamState) -> Iterator[Condition]:
    if state.row.registered_us is None:
        yield condition("NoReportYet", "no report has come; the stream is expected")
    if state.slo is None:
        yield condition("NoSlo", "no SLO is set, so nothing is recommended")
    contradiction = None if state.newest is None else state.newest.driver.contradiction
    if contradiction is not None:
        harmless = contradiction.startswith(LOSES_NONE)
        kind: ConditionType = "NoRowIsLate" if harmless else "OperatorContradicted"
        yield condition(kind, f"{contradiction}: no row is judged")


def _recommended(state: StreamState) -> Iterator[Condition]:
    if state.recommendation is None:
        return
    conflicts = [step for step in state.steps if step.conflict is not None]
    if conflicts:
        yield condition("ConstraintsConflict", conflicts[-1].reason)
    elif state.recommendation.bound_ms is None:
        yield condition("NotEnoughEvidence", state.steps[-1].reason)


def _pinned(state: StreamState) -> Iterator[Condition]:
    if state.pin is not None:
        to = "its own bound" if state.pin.to == "Off" else "its ceiling alone"
        reasons = [f"the job is held to {to} {state.pin.why}", *_unacknowledged(state)]
        yield condition("Pinned", "; ".join(reasons))


def _silent(state: StreamState, progress: Progress) -> Iterator[Condition]:
    if not state.paused:
        for silence in _no_report(progress):
            detail = (
                f"{silence}: the recommendation is held and nothing is narrowed; is the job running? "
                "If it ended on purpose, pause the stream"
            )
            yield condition("NoRecentReport", detail)
    silent = progress.silent_partitions
    if silent:
        are, their = ("is", "its") if silent == 1 else ("are", "their")
        detail = (
            f"{plural(silent, 'partition')} that used to report {are} silent; nothing is narrowed, because {their} "
            "rows may come late; the stream's list of partitions says which"
        )
        yield condition("PartitionsSilent", detail)


def _no_report(progress: Progress) -> Iterator[str]:
    """Return for how long no report has come, when that is longer than usual."""
    silent_us, gap_us = progress.silent_us, progress.batch_gap_us
    if silent_us is not None and gap_us is not None and progress.fell_silent:
        yield f"no report for {format_about(silent_us)}, where {format_about(gap_us)} between batches is typical"


def _several_queries(queries: Sequence[RecentQuery]) -> Iterator[Condition]:
    several = [query for query in at_once(queries) if not is_ran_again(query.query_id)]
    if len(several) > 1:
        by_query = ", ".join(f"{plural(query.rows, 'row')} by {query.query_id}" for query in several)
        detail = (
            f"{len(several)} queries report it at once, and each row counts once for each of them; of late {by_query}: "
            "give each query a stream of its own"
        )
        yield condition("SeveralQueries", detail)


def _stands_still(state: StreamState, queries: Sequence[RecentQuery]) -> Iterator[Condition]:
    newest = None if state.newest is None else state.newest.report
    if (
        newest is not None
        and _run_end(state) in {"Once", "AvailableNow"}
        and newest.batch_id
        and newest.watermark_ms == 0
    ):
        # Runs are hours apart: the batches of a quarter of an hour show nothing.
        detail = (
            f"the watermark has never moved in {newest.batch_id + 1} batches: {NEVER_MOVED}; no window closes"
        )
        yield condition("WatermarkStandsStill", detail)
        return
    for query in queries:
        if newest is None or query.query_id != newest.query_id or not query.stands_still:
            continue
        never = newest.watermark_ms == 0
        # In Live it may be held on purpose, up to the ceiling, and the reason is in the status.
        if state.mode == "Live" and not never:
            continue
        stood = "has never moved" if never else "has not moved"
        detail = (
            f"the watermark {stood} over the last {query.busy} batches with rows, each of which should have moved it: "
            "no window closes. Another input of the query has no rows, or a second withWatermark stands behind an "
            "aggregate, which waits for it"
        )
        yield condition("WatermarkStandsStill", detail)


def _skewed(skewed: Sequence[SkewCost]) -> Iterator[Condition]:
    if skewed:
        more, are = len(skewed) - 1, "is" if len(skewed) == 2 else "are"
        others = f"; {plural(more, 'more partition')} {are} skewed" if more else ""
        yield condition("PartitionSkewed", skewed[0].text + others)


def _lost(state: StreamState) -> Iterator[Condition]:
    if state.lost is not None and state.lost.bias is not None:
        yield condition("LossIsBiased", state.lost.bias)


def _late_policy(state: StreamState) -> Iterator[Condition]:
    # Before its first acknowledgement nothing is known of a job.
    why = None if state.applied is None else why_not_followed(state.policy.value.late, state.late)
    if why is not None:
        yield condition("LatePolicyNotFollowed", why)


def _adoption(state: StreamState) -> Iterator[Condition]:
    # With an SLO of its own somebody has decided.
    if state.former is not None and state.slo is None:
        names = " ".join(map(shlex.quote, (state.row.job, state.row.stream, state.former)))
        detail = (
            f"it began anew, and stream {state.former!r}, which read the same, has been silent since: if it is the "
            f"same query, `tidemark adopt {names} --reason '...'` gives it that SLO, policy, approvals and history"
        )
        yield condition("AdoptionAsked", detail)


def _conf_left_out(state: StreamState) -> Iterator[Condition]:
    if state.applied is not None and state.applied.conf_left_out is not None:
        yield condition("ConfLeftOut", state.applied.conf_left_out)


def _last_windows(state: StreamState) -> Iterator[Condition]:
    mode = "append" if state.newest is None else state.newest.report.output_mode
    finding = last_windows(_run_end(state), mode)
    if finding is not None:
        yield condition("LastWindowsOpen", finding.text)


def _state_grows(state: StreamState) -> Iterator[Condition]:
    downstream = state.row.downstream
    if downstream is not None and downstream.state_grows and downstream.state_unforeseen is not None:
        yield condition("StateGrows", downstream.state_unforeseen)


def _run_end(state: StreamState) -> RunEnd | None:
    return None if state.applied is None else cast("RunEnd | None", state.applied.run_end)


def _not_adopted(state: StreamState) -> Iterator[Condition]:
    # A person who pins or pauses a stream expects this: the pin or the pause says it.
    if state.pin is None and not state.paused:
        for detail in _unacknowledged(state):
            waits = state.mode == "OnRestart"
            yield condition("WaitsForStart" if waits else "BoundNotAcknowledged", detail)


def _unacknowledged(state: StreamState) -> Iterator[str]:
    """Return what is published and not acknowledged, if anything is."""
    published, applied = state.published, state.applied
    if published is None or state.adopted is not False:
        return
    what = "mode Live" if published.mode == "Live" else _bound(published.bound_ms or 0)
    if applied is None:
        has = "the job has acknowledged none"
    elif applied.generation is None:
        has = f"the job last acknowledged its own bound, {_bound(applied.bound_ms)}"
    else:
        has = f"the job last acknowledged generation {applied.generation}, {_bound(applied.bound_ms)}"
    yield f"generation {published.generation}, {what}, is published; {has}"


def _paused(state: StreamState, progress: Progress) -> Iterator[Condition]:
    if state.paused:
        reasons = [
            f"nothing new is rolled: {state.paused_why or 'the policy is set to paused'}",
            *_no_report(progress),
            *(_unacknowledged(state) if state.pin is None else ()),
        ]
        yield condition("Paused", "; ".join(reasons))


def _frozen(state: StreamState, now_us: int) -> Iterator[Condition]:
    until_us = state.frozen_until_us(now_us)
    if until_us is not None:
        detail = f"a freeze window of the policy holds: nothing is narrowed until {when(until_us)}"
        yield condition("NarrowingFrozen", detail)


def _rollouts(state: StreamState) -> Iterator[Condition]:
    if state.missed is not None:
        missed = state.missed
        at = "" if missed.missed_us is None else f" ({when(missed.missed_us)})"
        yield condition("TargetMissed", f"rollout {missed.id}: {missed.reason}{at}")
    if state.rollout is not None:
        yield from _rollout(state.rollout)


def _rollout(rollout: RolloutRow) -> Iterator[Condition]:
    detail = f"rollout {rollout_text(rollout.id, rollout.state, rollout.reason)}"
    if rollout.state in UNDER_WAY:
        yield condition("Rolling", detail)
    elif rollout.state in CANDIDATE:
        yield condition("RolloutHeld", detail)
    elif rollout.state == "RolledBack" and rollout.missed_us is None:
        yield condition("RolledBack", f"{detail} ({when(rollout.changed_us)})")


def _ceiling(state: StreamState, horizon: HorizonState | None) -> Iterator[Condition]:
    live, room = state.live, state.room(None if horizon is None else horizon.skew)
    if live is not None and live.failure is not None:
        yield condition("LiveFailed", live.failure)
    if live is not None and live.near_ceiling:
        detail = (
            f"the watermark trails the stream by {live.ceiling_used_ppm / PPM:.0%} of the ceiling, "
            f"{_bound(live.ceiling_ms)}: beyond it the ceiling closes windows that live control holds open"
        )
        yield condition("CeilingNear", detail)
    if state.mode != "Live" or room is None:
        return
    if room.ceiling_ms is None:
        detail = f"{NO_CEILING}; it keeps its own bound, and its log says why"
        yield condition("LiveWithoutCeiling", detail)
    elif room.too_low:
        detail = (
            f"the ceiling, {_bound(room.ceiling_ms)}, is below {room.needed}; the slowest rows are lost to it"
        )
        yield condition("SkewBeyondCeiling", detail)


def _bound(bound_ms: int) -> str:
    return format_duration(bound_ms * 1_000)
