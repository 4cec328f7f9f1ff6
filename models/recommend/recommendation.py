"""From evidence to a recommended bound in small steps, each of which says what it did and why.

The estimate comes first and the limits last, so that no later step can undo a limit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

from tidemark.models.base.defaults import BOUND_DIGITS, NARROW_DEAD_BAND_PPM, REPLAY_PACE_PPM
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.target import PPM, format_share
from tidemark.models.base.text import plural
from tidemark.models.recommend.caps import cap_exceeded, latency_cap, state_cap
from tidemark.models.recommend.choice import counted, lack_of_evidence, needed_rank, not_covered, rounded_up
from tidemark.models.recommend.goals import joint_need, other_sides, timeslices, worst_window
from tidemark.models.recommend.guard_rails import (
    catching_up,
    few_batches,
    narrow_late,
    no_data,
    own_event_time,
    silent_partitions,
    unknown_rows,
)
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.restarts import few_restarts, too_dear
from tidemark.models.recommend.steps import DecisionStep, Recommendation, StepKind
from tidemark.models.specs.slo import HORIZONS_MS

_Link = Callable[[Inputs, int], DecisionStep]


def recommend(inputs: Inputs) -> Recommendation:
    """Return the bound to recommend; none without enough evidence, or when the SLO leaves a conflict open."""
    step = _quantile(inputs) if inputs.join is None else joint_need(inputs.join)
    steps = [step]
    for link in _links(inputs):
        if step.bound_ms is None:
            break
        step = link(inputs, step.bound_ms)
        steps.append(step)
    return Recommendation(step.bound_ms, tuple(steps))


def _links(inputs: Inputs) -> Iterator[_Link]:
    """Return the steps after the first, without those that SLO and policy do not ask for."""
    slo, policy = inputs.slo, inputs.policy
    yield _round_up
    if policy.margin_ppm:
        yield _margin
    # What late rows of one side cost a join's output is not known from them alone.
    if inputs.changes.bound_ms is not None and inputs.join is None:
        yield few_restarts
    yield from (unknown_rows, no_data, catching_up, silent_partitions)
    if inputs.join is not None:
        yield other_sides
    if inputs.curve.bound_alike_us(slo.target_ppm) is not None:
        yield few_batches
    yield narrow_late
    if slo.objective == "timeslices":
        yield timeslices
    if slo.worst_window_ppm is not None:
        yield worst_window
    yield latency_cap
    if slo.state_cap_rows is not None:
        yield state_cap
    if len(policy.directions) == 1:
        yield _directions
    if policy.max_narrowing_ppm is not None:
        yield _narrowing_step
    if inputs.downstream is not None and inputs.downstream.unsafe:
        yield own_event_time
    yield from (_limits, _dead_band)
    if inputs.downstream is not None and inputs.downstream.texts(0):
        yield _downstream


def _quantile(inputs: Inputs) -> DecisionStep:
    rows, slo = inputs.evidence.rows, inputs.slo
    confidence, per_event = slo.confidence_ppm / PPM, inputs.curve.rows_per_event(slo.target_ppm)
    if _replay(inputs) is not None:
        # Its order need not be that of the stream, and holds for all rows of a batch.
        per_event = max(per_event, rows / inputs.evidence.batches)
    rank = needed_rank(rows, slo.target_ppm, confidence, per_event)
    need_us = None if rank is None else inputs.curve.needs.value_at_rank(rank)
    if rank is None or need_us is None:
        return _uncertified(inputs, confidence, per_event)
    # Spark's delay has whole milliseconds and, outside Live, cannot be negative.
    bound_ms = max(math.ceil(need_us / 1_000), 0)
    reason = (
        f"{rank:,} of {counted(rows, per_event)} need at most {_enough(bound_ms)}, which certifies "
        f"{format_share(slo.target_ppm)} of the rows at {format_share(slo.confidence_ppm)} confidence at every look; "
        f"{not_covered(inputs.evidence.observed_us, confidence)}"
    )
    return DecisionStep(StepKind.QUANTILE, bound_ms, reason)


def _uncertified(inputs: Inputs, confidence: float, rows_per_event: float) -> DecisionStep:
    """Go by the rows that were counted; a first bound and the first narrowing take a certificate.

    Rows that share their fate prove little, but they were late all the same, and on time. So here each counts as an
    event; but not those of a replay. Of a change by a restart most of the budget is left (``few_restarts``).
    """
    rows, slo, in_use = inputs.evidence.rows, inputs.slo, inputs.in_use_bound_ms
    reason = lack_of_evidence(rows, rows_per_event, slo.target_ppm, confidence)
    rank = needed_rank(rows, slo.target_ppm, confidence)
    need_us = None if rank is None else inputs.curve.needs.value_at_rank(rank)
    replay = _replay(inputs)
    if replay is not None:
        reason, in_use = f"{reason}; {replay}: nothing is widened by less", None
    is_enough = need_us is not None and in_use is not None and need_us <= in_use * 1_000
    # Without the bound of the newest batch no margin would be left, so nothing is narrowed.
    changed = inputs.changes.bound_ms is not None and inputs.changes.since_us is not None
    if rank is None or need_us is None or in_use is None or (is_enough and not changed):
        way_out = _way_out(inputs, rows_per_event)
        return DecisionStep(StepKind.QUANTILE, None, f"{reason}; counted {way_out}")
    bound_ms = max(math.ceil(need_us / 1_000), 0)
    needed = f"{rank:,} of {rows:,} rows need at most {_enough(bound_ms)}, and {inputs.bound_name} is"
    return DecisionStep(
        StepKind.QUANTILE, bound_ms, f"{needed} {'wide enough' if is_enough else 'narrower'}; {reason}"
    )


def _replay(inputs: Inputs) -> str | None:
    """Return what shows that rows did not come as they are read, over all batches that tell; None when nothing does."""
    replayed, pace = inputs.evidence.replayed_rows, inputs.progress.pace_ppm or 0
    if replayed:
        return f"{plural(replayed, 'row')} read out of order"
    faster = f"event time moved at {pace / PPM:.2f} times the clock, as in a replay"
    return faster if pace > REPLAY_PACE_PPM else None


def _enough(bound_ms: int) -> str:
    """Return a bound for a reason, to the digits that a bound has."""
    return format_duration(rounded_up(bound_ms) * 1_000)


def _way_out(inputs: Inputs, rows_per_event: float) -> str:
    """Return over how long too little evidence was counted, and what gives more of it."""
    evidence, slo = inputs.evidence, inputs.slo
    over = f"over the horizon of {format_duration(inputs.horizon_ms * 1_000)}"
    if 2 * evidence.observed_us < inputs.horizon_ms * 1_000:
        return (
            f"{over}, of which {format_about(evidence.observed_us)} has been reported: more rows are to come"
        )
    events_per_ms = evidence.rows / rows_per_event / inputs.horizon_ms
    longer_ms = next((ms for ms in HORIZONS_MS if events_per_ms * ms >= slo.events_needed), None)
    if longer_ms is None:
        longest = format_duration(HORIZONS_MS[-1] * 1_000)
        return f"{over}, and even {longest} would have too few: lower the target or the confidence"
    if slo.horizon_ms is None:
        return f"{over}, which grows with the reports"
    return f"{over}: lengthen horizon_ms to {format_duration(longer_ms * 1_000)}"


def _round_up(inputs: Inputs, bound_ms: int) -> DecisionStep:  # noqa: ARG001 - one signature for every link
    rounded = rounded_up(bound_ms)
    reason = f"{format_duration(rounded * 1_000)}, rounded up to {BOUND_DIGITS} digits"
    return DecisionStep(StepKind.ROUND_UP, rounded, reason)


def _margin(inputs: Inputs, bound_ms: int) -> DecisionStep:
    margin_ppm = inputs.policy.margin_ppm
    wider = rounded_up(-(-bound_ms * (PPM + margin_ppm) // PPM))
    reason = f"{format_duration(wider * 1_000)} with a margin of {format_share(margin_ppm)}"
    return DecisionStep(StepKind.MARGIN, wider, reason)


def _directions(inputs: Inputs, bound_ms: int) -> DecisionStep:
    (only,) = inputs.policy.directions
    in_use = inputs.in_use_bound_ms
    if in_use is None or bound_ms == in_use or (bound_ms > in_use) == (only == "Widen"):
        return DecisionStep(StepKind.DIRECTIONS, bound_ms, f"the policy allows the bound to {only.lower()}")
    stays = f"{inputs.bound_name}, {format_duration(in_use * 1_000)}, stays"
    reason = f"the policy allows the bound only to {only.lower()}: {stays}"
    return DecisionStep(StepKind.DIRECTIONS, in_use, reason)


def _narrowing_step(inputs: Inputs, bound_ms: int) -> DecisionStep:
    in_use, max_ppm = inputs.in_use_bound_ms, inputs.policy.max_narrowing_ppm or PPM
    min_ms = 0 if in_use is None else -(-in_use * (PPM - max_ppm) // PPM)
    reason, gap_us = f"one rollout narrows by at most {format_share(max_ppm)}", inputs.progress.batch_gap_us
    if bound_ms < min_ms and gap_us is not None and (in_use or 0) * 1_000 <= gap_us:
        # Halving on and on would take a change for each millisecond of a bound that no batch can tell from 0.
        within = f"{inputs.bound_name} is within one gap between batches, {format_about(gap_us)}"
        return DecisionStep(StepKind.NARROWING_STEP, bound_ms, f"{reason}, but {within}: it narrows at once")
    if bound_ms >= min_ms:
        return DecisionStep(StepKind.NARROWING_STEP, bound_ms, reason)
    return DecisionStep(StepKind.NARROWING_STEP, min_ms, f"{reason}: to {format_duration(min_ms * 1_000)}")


def _limits(inputs: Inputs, bound_ms: int) -> DecisionStep:
    min_ms, max_ms = inputs.policy.min_bound_ms, inputs.policy.max_bound_ms
    widest_ms, why = _widest_unasked(inputs) if max_ms is None else (max_ms, "")
    limited = min(max(bound_ms, min_ms), widest_ms)
    limit = format_duration(limited * 1_000)
    if limited == bound_ms:
        reason = "within the policy's limits"
    elif limited > bound_ms:
        reason = f"limited by the policy: the minimum bound is {limit}"
    elif max_ms is not None:
        reason = f"limited by the policy: the maximum bound is {limit}"
    else:
        reason = f"limited to {limit}, {why}: set max_bound_ms to allow more"
    return DecisionStep(StepKind.LIMITS, limited, reason)


def _widest_unasked(inputs: Inputs) -> tuple[int, str]:
    """Return the widest bound that is recommended where no person has set a maximum, and what it is.

    A window that waits for longer than the SLO's own is of no use to it. What a person has chosen may be wider.
    """
    return max(
        (inputs.slo.window_ms, "the SLO's window"),
        (inputs.in_use_bound_ms or 0, "the bound in use"),
        (inputs.policy.min_bound_ms, "the policy's minimum"),
    )


def _dead_band(inputs: Inputs, bound_ms: int) -> DecisionStep:
    kind, in_use, max_ms = StepKind.DEAD_BAND, inputs.in_use_bound_ms, inputs.policy.max_bound_ms
    if bound_ms == in_use:
        return DecisionStep(kind, bound_ms, f"it is {inputs.bound_name} already")
    if in_use is None or bound_ms > in_use:
        return DecisionStep(kind, bound_ms, "a change worth making")
    saves_enough = (in_use - bound_ms) * PPM >= NARROW_DEAD_BAND_PPM * in_use
    too_little = too_dear(inputs, bound_ms) if saves_enough else "less than a tenth"
    if too_little is None:
        return DecisionStep(kind, bound_ms, "a change worth making")
    if max_ms is not None and in_use > max_ms:
        return DecisionStep(kind, bound_ms, f"{inputs.bound_name} is above the policy's maximum")
    cap = cap_exceeded(inputs, in_use)
    if cap is not None:
        return DecisionStep(kind, bound_ms, f"{inputs.bound_name} is above the {cap} cap")
    saved = format_duration((in_use - bound_ms) * 1_000)
    return DecisionStep(kind, in_use, f"narrowing by {saved} is {too_little}: {inputs.bound_name} stays")


def _downstream(inputs: Inputs, bound_ms: int) -> DecisionStep:
    """Say what the bound decides behind the stream's own operator."""
    texts = [] if inputs.downstream is None else inputs.downstream.texts(bound_ms)
    return DecisionStep(StepKind.DOWNSTREAM, bound_ms, "; ".join(texts))
