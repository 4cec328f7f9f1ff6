"""Guard rails: steps that forbid a narrowing while the evidence is incomplete or may not be typical."""

from __future__ import annotations

import math

from tidemark.models.base.defaults import (
    CATCH_UP_LAG_GAPS,
    CATCH_UP_PACE_PPM,
    NARROW_STABILISATION_MS,
    UNKNOWN_SHARE_OF_BUDGET_PPM,
)
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.target import PPM
from tidemark.models.base.text import plural
from tidemark.models.protocol.downstream import UNSAFE
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.steps import DecisionStep, StepKind


def not_narrowed(kind: StepKind, inputs: Inputs, bound_ms: int, why: str) -> DecisionStep:
    """Return the step of a guard rail that forbids narrowing, because of ``why``; a widening passes."""
    in_use = inputs.in_use_bound_ms
    if in_use is None or bound_ms >= in_use:
        return DecisionStep(kind, bound_ms, f"{why}: nothing would be narrowed, and widening is allowed")
    return DecisionStep(
        kind, in_use, f"{why}: {inputs.bound_name}, {format_duration(in_use * 1_000)}, is not narrowed"
    )


def unknown_rows(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Forbid narrowing while too many needs are unknown: they may all be greater."""
    evidence, unknown = inputs.evidence, inputs.evidence.unknown_rows
    tolerated = UNKNOWN_SHARE_OF_BUDGET_PPM * (PPM - inputs.slo.target_ppm) * (evidence.rows + unknown)
    if unknown * PPM * PPM <= tolerated and not evidence.missing_batches:
        reason = "the need of every row is known"
        if unknown:
            reason = f"{plural(unknown, 'row')} of unknown need, too few to matter"
        return DecisionStep(StepKind.UNKNOWN_ROWS, bound_ms, reason)
    why = [f"{plural(unknown, 'row')} of unknown need"] if unknown else []
    if evidence.missing_batches:
        why.append(f"{plural(evidence.missing_batches, 'batch', 'batches')} never reported")
    return not_narrowed(StepKind.UNKNOWN_ROWS, inputs, bound_ms, " and ".join(why))


def no_data(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Forbid narrowing while reports are overdue."""
    silent_us, gap_us = inputs.progress.silent_us, inputs.progress.batch_gap_us
    if silent_us is None or gap_us is None or not inputs.progress.fell_silent:
        return DecisionStep(StepKind.NO_DATA, bound_ms, "no sign that the stream has fallen silent")
    # The step is stored and shown later, when the silence is longer or over.
    silent = f"no report for {format_about(silent_us)} when this was decided"
    reason = f"{silent}, where {format_about(gap_us)} between batches is typical"
    return not_narrowed(StepKind.NO_DATA, inputs, bound_ms, reason)


def catching_up(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Forbid narrowing while the stream works off a backlog, is replayed or lags behind."""
    kind, progress = StepKind.CATCHING_UP, inputs.progress
    pace, lag_us, usual_us = progress.recent_pace_ppm, progress.lag_us, progress.usual_lag_us
    if pace is None or lag_us is None or usual_us is None or progress.batch_gap_us is None:
        return not_narrowed(kind, inputs, bound_ms, "too few batches to tell whether the stream keeps up")
    if pace > CATCH_UP_PACE_PPM:
        reason = (
            f"event time moves at {pace / PPM:.2f} times the clock, so the stream is catching up or replayed"
        )
        return not_narrowed(kind, inputs, bound_ms, reason)
    behind_us = lag_us - usual_us
    if behind_us > CATCH_UP_LAG_GAPS * progress.batch_gap_us:
        reason = f"event time is {format_about(behind_us)} further behind the clock than usual"
        return not_narrowed(kind, inputs, bound_ms, reason)
    reason = f"the stream keeps up: event time moves at {pace / PPM:.2f} times the clock"
    return DecisionStep(kind, bound_ms, reason)


def silent_partitions(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Forbid narrowing while a partition is silent: its rows may arrive late."""
    kind, silent = StepKind.SILENT_PARTITIONS, inputs.progress.silent_partitions
    if not silent:
        return DecisionStep(kind, bound_ms, "no partition that used to report is silent")
    verb = "is" if silent == 1 else "are"
    reason = f"{plural(silent, 'partition')} that used to report {verb} silent, and may come late"
    return not_narrowed(kind, inputs, bound_ms, reason)


def few_batches(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Narrow to no less than batches that count alike need, where a few of them hold nearly all rows."""
    kind, alike_us = StepKind.FEW_BATCHES, inputs.curve.bound_alike_us(inputs.slo.target_ppm)
    in_use, why = inputs.in_use_bound_ms, "a few batches hold nearly all rows"
    least_ms = bound_ms if in_use is None or alike_us is None else math.ceil(min(alike_us / 1_000, in_use))
    if bound_ms >= least_ms:
        return DecisionStep(kind, bound_ms, f"{why}, and the others need no more")
    reason = (
        f"{why}, and if all count alike, {format_duration(least_ms * 1_000)} is needed: not narrowed further"
    )
    return DecisionStep(kind, least_ms, reason)


def narrow_late(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Narrow to no less than the widest bound that was required recently."""
    widest = max(inputs.recent_bounds_ms, default=bound_ms)
    if inputs.in_use_bound_ms is not None:
        # What was required may be wider than what is in use, where it was not worth a restart.
        widest = min(widest, inputs.in_use_bound_ms)
    span = format_duration(NARROW_STABILISATION_MS * 1_000)
    if widest <= bound_ms:
        return DecisionStep(StepKind.NARROW_LATE, bound_ms, f"nothing wider was required in the last {span}")
    reason = f"{format_duration(widest * 1_000)} was required in the last {span}: not narrowed further yet"
    return DecisionStep(StepKind.NARROW_LATE, widest, reason)


def own_event_time(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Forbid narrowing where it may end the query (``specs.findings``)."""
    return not_narrowed(StepKind.OWN_EVENT_TIME, inputs, bound_ms, UNSAFE)
