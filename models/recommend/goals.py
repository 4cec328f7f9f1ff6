"""Goals for single windows: a share of good windows, and a floor for the worst.

Needs are not known by window, so no bound can be computed that reaches such a goal. While the goal is missed under the
bound in use, the bound is widened step by step.
"""

from __future__ import annotations

import math

from tidemark.models.base.defaults import FLOOR_STEP_PPM
from tidemark.models.base.duration import format_duration
from tidemark.models.base.target import PPM, format_share, format_target
from tidemark.models.base.text import plural
from tidemark.models.recommend.choice import rounded_up
from tidemark.models.recommend.guard_rails import not_narrowed
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.joint_bounds import JoinSide
from tidemark.models.recommend.steps import DecisionStep, StepKind


def timeslices(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Reach the share of good windows."""
    kind, slo, windows = StepKind.TIMESLICES, inputs.slo, inputs.windows
    goal = f"at least {format_share(slo.good_windows_ppm)} of the windows must reach {format_target(slo.target_ppm)}"
    if windows is None or not windows.horizon.closed:
        return not_narrowed(kind, inputs, bound_ms, f"{goal}, and no window has closed yet")
    horizon, since = windows.horizon, windows.since
    if since.closed and since.good_ppm < slo.good_windows_ppm:
        reason = (
            f"{since.good:,} of the {since.closed:,} windows closed under {inputs.bound_name} did, and {goal}"
        )
        return _widened(kind, inputs, bound_ms, reason)
    reason = f"{horizon.good:,} of {horizon.closed:,} windows did"
    if horizon.good_ppm < slo.good_windows_ppm:
        return not_narrowed(kind, inputs, bound_ms, f"{reason}, and {goal}")
    return DecisionStep(kind, bound_ms, f"{reason}: {goal}")


def worst_window(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Lift the worst window to the floor."""
    kind, floor_ppm, windows = StepKind.WORST_WINDOW, inputs.slo.worst_window_ppm or 0, inputs.windows
    floor = f"the floor is {format_share(floor_ppm)}"
    worst_ppm = None if windows is None else windows.horizon.worst_ppm
    if windows is None or worst_ppm is None:
        return not_narrowed(kind, inputs, bound_ms, f"no window has closed yet, and {floor}")
    since_ppm = windows.since.worst_ppm
    if since_ppm is not None and since_ppm < floor_ppm:
        reason = f"the worst window under {inputs.bound_name} admitted {format_share(since_ppm)}, {floor}"
        return _widened(kind, inputs, bound_ms, reason)
    reason = f"the worst window admitted {format_share(worst_ppm)}, {floor}"
    if worst_ppm < floor_ppm:
        return not_narrowed(kind, inputs, bound_ms, reason)
    return DecisionStep(kind, bound_ms, reason)


def _widened(kind: StepKind, inputs: Inputs, bound_ms: int, why: str) -> DecisionStep:
    """Return a bound one step wider than the one in use, but no wider than any row needs."""
    in_use, rows = inputs.in_use_bound_ms, inputs.evidence.rows
    if in_use is None:
        return DecisionStep(
            kind, bound_ms, f"{why}: {inputs.bound_name} is not known, so it cannot be widened from there"
        )
    max_us = inputs.curve.needs.value_at_rank(rows) if rows else None
    enough_ms = in_use if max_us is None else max(math.ceil(max_us / 1_000), in_use)
    step_ms = min(in_use + max(in_use * FLOOR_STEP_PPM // PPM, 1), enough_ms)
    wider = max(bound_ms, rounded_up(step_ms))
    if wider <= in_use:
        return DecisionStep(
            kind, wider, f"{why}: no row of known need exceeds {inputs.bound_name}, which stays"
        )
    return DecisionStep(kind, wider, f"{why}: it is widened to {format_duration(wider * 1_000)}")


def joint_need(join: JoinSide) -> DecisionStep:
    """Return the bound that was chosen for this side; none without enough evidence on all sides."""
    if join.bounds is None:
        reason = f"the output of join {join.join} decides, and {join.why_no_bound}: the bound in use is held"
        return DecisionStep(StepKind.JOIN, None, reason)
    bound_ms, stream = join.bounds.bounds_ms[join.side], join.slo.streams[join.side]
    reason = (
        f"the joined output of {join.join} needs {format_duration(bound_ms * 1_000)} of {stream} for "
        f"{format_share(join.slo.target_ppm)} of its pairs at {format_share(join.slo.confidence_ppm)} confidence: "
        f"{join.bounds.reason(join.side)}"
    )
    return DecisionStep(StepKind.JOIN, bound_ms, reason)


def other_sides(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Forbid narrowing while a batch of another side is missing, or another side has less than its chosen bound."""
    kind, join = StepKind.OTHER_SIDES, inputs.join
    assert join is not None, "only a side of a join has this step"
    assert join.bounds is not None, "the steps end without bounds"
    if join.missing_batches:
        missing = plural(join.missing_batches, "batch", "batches")
        return not_narrowed(kind, inputs, bound_ms, f"{missing} of the join not reported by all sides")
    other = join.narrower
    if other is None:
        reason = "every side reported every batch, and no other side has less than the join needs of it"
        return DecisionStep(kind, bound_ms, reason)
    has, needs = (
        format_duration((ms or 0) * 1_000) for ms in (join.least_ms[other], join.bounds.bounds_ms[other])
    )
    reason = f"{join.slo.streams[other]} has {has}, and the join needs {needs} of it"
    return not_narrowed(kind, inputs, bound_ms, reason)
