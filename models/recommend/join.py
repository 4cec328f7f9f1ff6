"""A stream whose output is joined: what the SLO on the joined output requires, in place of the stream's own need."""

from __future__ import annotations

from tidemark.models.duration import format_duration
from tidemark.models.join_side import JoinSide
from tidemark.models.plural import plural
from tidemark.models.recommend.guard_rails import not_narrowed
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.steps import DecisionStep, StepKind
from tidemark.models.target import format_share


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
    assert join.bounds is not None, "the chain ends without bounds"
    if join.missing_batches:
        missing = plural(join.missing_batches, "batch", "batches")
        return not_narrowed(kind, inputs, bound_ms, f"{missing} of the join not reported by all sides")
    other = join.narrower
    if other is None:
        reason = "every side reported every batch, and no other side has less than the join needs of it"
        return DecisionStep(kind, bound_ms, reason)
    has, needs = (
        format_duration((each or 0) * 1_000) for each in (join.least_ms[other], join.bounds.bounds_ms[other])
    )
    reason = f"{join.slo.streams[other]} has {has}, and the join needs {needs} of it"
    return not_narrowed(kind, inputs, bound_ms, reason)
