"""From evidence to a recommended bound: a chain of small steps, each of which says what it did and why.

The estimate comes first and the limits last, so that no later step can undo a limit. The chain is pure: the same
inputs give the same recommendation, on any machine and at any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from tidemark.models.choice import needed_rank, percent
from tidemark.models.curve import Curve
from tidemark.models.defaults import (
    BOUND_DIGITS,
    CATCH_UP_LAG_GAPS,
    CATCH_UP_PACE_PPM,
    FLOOR_STEP_PPM,
    NARROW_DEAD_BAND_PPM,
    NARROW_STABILISATION_MS,
    UNKNOWN_SHARE_OF_BUDGET_PPM,
)
from tidemark.models.duration import format_about, format_duration
from tidemark.models.plural import plural
from tidemark.models.progress import UNKNOWN_PROGRESS, Progress
from tidemark.models.quantile import min_samples
from tidemark.models.slo import Policy, Slo
from tidemark.models.target import PPM, format_target
from tidemark.models.transition import Situation, state_at
from tidemark.models.windows import Windows

__all__ = ["EvidenceCounts", "Inputs", "Recommendation", "Step", "StepKind", "recommend"]

StepKind = Literal["Asked", "LatencyCap", "StateCap", "Limits"]
"""What programs look for among steps: what the rows ask for, what holds it against a cap, and the policy's limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvidenceCounts:
    """What a recommendation rests on."""

    rows: int
    """(Row, key) pairs with a known need."""
    unknown_rows: int
    """Rows that arrived but whose need is unknown."""
    missing_batches: int
    """Batches that were never reported."""
    batches: int
    """Batches reported."""
    partitions: int
    """Partitions seen."""
    from_us: int | None
    """Wall time of the first batch counted, in microseconds; None without batches."""
    to_us: int | None
    """Wall time of the last batch counted, in microseconds; None without batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """All that a recommendation is made from."""

    curve: Curve
    """Needs and latencies over the horizon."""
    slo: Slo
    """What is asked for."""
    policy: Policy
    """What is allowed."""
    evidence: EvidenceCounts
    """What the curve rests on."""
    in_use_bound_ms: int | None
    """The bound the job runs with, in milliseconds; None when it is not known."""
    progress: Progress = UNKNOWN_PROGRESS
    """How the stream has been getting on: whether its delays are its own. While it is unknown, nothing is narrowed."""
    recent_bounds_ms: tuple[int, ...] = ()
    """What rows asked for (``Recommendation.asked_ms``) at earlier decisions under the same SLO, within the last
    ``NARROW_STABILISATION_MS``, in milliseconds."""
    situation: Situation | None = None
    """The stream after its newest batch, which tells the state under another bound; None when it is not known."""
    windows: Windows | None = None
    """How single windows came out; None when it is not known, or when the SLO asks nothing of them."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the chain."""

    name: str
    """What was done."""
    bound_ms: int | None
    """The bound after the step, in milliseconds; None while there is none."""
    reason: str
    """Why, with the figures."""
    kind: StepKind | None = None
    """What it is to programs, which never go by its name; None when it is nothing to them."""
    crosses_ms: int | None = None
    """The bound asked for before it, in milliseconds, when that is above this step's cap; None when it is not."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """A recommended bound and how it came about."""

    bound_ms: int | None
    """The bound in milliseconds; None: keep the one in use."""
    steps: tuple[Step, ...]
    """The reasons chain, first to last."""

    @property
    def reason(self) -> str:
        """The whole chain as one sentence."""
        return "; ".join(step.reason for step in self.steps)

    @property
    def asked_ms(self) -> int | None:
        """The bound that the rows ask for, before any guard rail or limit, in milliseconds; None without evidence."""
        return next((step.bound_ms for step in self.steps if step.kind == "Asked"), None)

    @property
    def conflict(self) -> bool:
        """Whether the bound that is asked for is above a cap, whichever of the two yields."""
        return any(step.crosses_ms is not None for step in self.steps)


_Link = Callable[[Inputs, int], Step]


def recommend(inputs: Inputs) -> Recommendation:
    """Return the bound to recommend; without enough evidence or when constraints conflict, none."""
    step = _quantile(inputs)
    steps = [step]
    for link in _links(inputs):
        if step.bound_ms is None:
            break
        step = link(inputs, step.bound_ms)
        steps.append(step)
    return Recommendation(step.bound_ms, tuple(steps))


def _links(inputs: Inputs) -> Iterator[_Link]:
    """Return the steps after the first. Those that nobody asked for are left out, since they would do nothing."""
    slo, policy = inputs.slo, inputs.policy
    yield from (_round_up, _unknown_rows, _no_data, _catching_up, _silent_partitions, _narrow_late)
    if slo.objective == "timeslices":
        yield _timeslices
    if slo.worst_window_ppm is not None:
        yield _worst_window
    if policy.margin_ppm:
        yield _margin
    yield _latency_cap
    if slo.state_cap_rows is not None:
        yield _state_cap
    if len(policy.directions) == 1:
        yield _directions
    if policy.max_narrowing_ppm is not None:
        yield _one_step
    yield from (_limits, _dead_band)


def _quantile(inputs: Inputs) -> Step:
    rows, slo = inputs.evidence.rows, inputs.slo
    target = f"{format_target(slo.target_ppm)} of the rows"
    confidence = slo.confidence_ppm / PPM
    rank = needed_rank(rows, slo.target_ppm, confidence)
    need_us = None if rank is None else inputs.curve.needs.value_at_rank(rank)
    if rank is None or need_us is None:
        wanted = min_samples(slo.target_ppm / PPM, confidence)
        return Step(
            "quantile",
            None,
            f"not enough evidence: {rows:,} of the {wanted:,} rows it takes to certify {target} at {confidence:g}",
        )
    # Spark's delay has whole milliseconds and, outside Live, cannot be negative.
    bound_ms = max(math.ceil(need_us / 1_000), 0)
    return Step(
        "quantile",
        bound_ms,
        f"{rank:,} of {rows:,} rows need at most {format_duration(bound_ms * 1_000)}, "
        f"which certifies {target} at a confidence of {confidence:g}",
    )


def _round_up(inputs: Inputs, bound_ms: int) -> Step:  # noqa: ARG001 - one signature for every link
    rounded = _rounded_up(bound_ms)
    reason = f"{format_duration(rounded * 1_000)}, in {BOUND_DIGITS} digits"
    return Step("round up", rounded, reason, kind="Asked")


def _rounded_up(bound_ms: int) -> int:
    grain: int = 10 ** max(len(str(bound_ms)) - BOUND_DIGITS, 0)
    return -(-bound_ms // grain) * grain


def _unknown_rows(inputs: Inputs, bound_ms: int) -> Step:
    evidence, in_use = inputs.evidence, inputs.in_use_bound_ms
    unknown = evidence.unknown_rows
    every = evidence.rows + unknown
    tolerated = UNKNOWN_SHARE_OF_BUDGET_PPM * (PPM - inputs.slo.target_ppm) * every
    if unknown * PPM * PPM <= tolerated and not evidence.missing_batches:
        return Step("unknown rows", bound_ms, f"{plural(unknown, 'row')} of unknown need, too few to matter")
    missing = plural(evidence.missing_batches, "batch", "batches")
    reason = f"{plural(unknown, 'row')} of unknown need and {missing} never reported"
    if in_use is None or bound_ms >= in_use:
        return Step(
            "unknown rows", bound_ms, f"{reason}: they can only ask for more, so nothing is narrowed on them"
        )
    return Step(
        "unknown rows",
        in_use,
        f"{reason}: the bound in use, {format_duration(in_use * 1_000)}, is not narrowed",
    )


def _not_narrowed(name: str, inputs: Inputs, bound_ms: int, why: str) -> Step:
    """Return the step of a guard rail that lets nothing be narrowed, because of ``why``; widening passes."""
    in_use = inputs.in_use_bound_ms
    if in_use is None or bound_ms >= in_use:
        return Step(name, bound_ms, f"{why}: nothing would be narrowed, and widening passes")
    return Step(name, in_use, f"{why}: the bound in use, {format_duration(in_use * 1_000)}, is not narrowed")


def _no_data(inputs: Inputs, bound_ms: int) -> Step:
    silent_us, gap_us = inputs.progress.silent_us, inputs.progress.batch_gap_us
    if silent_us is None or gap_us is None or not inputs.progress.fell_silent:
        return Step("no data", bound_ms, "nothing says that the stream has fallen silent")
    reason = (
        f"no report for {format_about(silent_us)}, where {format_about(gap_us)} between batches is typical"
    )
    return _not_narrowed("no data", inputs, bound_ms, reason)


def _catching_up(inputs: Inputs, bound_ms: int) -> Step:
    name, progress = "catching up", inputs.progress
    pace, lag_us, usual_us = progress.recent_pace_ppm, progress.lag_us, progress.usual_lag_us
    if pace is None or lag_us is None or usual_us is None or progress.batch_gap_us is None:
        return _not_narrowed(name, inputs, bound_ms, "too few batches to tell whether the stream keeps up")
    if pace > CATCH_UP_PACE_PPM:
        reason = (
            f"event time moves at {pace / PPM:.2f} times the clock, so the stream is catching up or replayed"
        )
        return _not_narrowed(name, inputs, bound_ms, reason)
    behind_us = lag_us - usual_us
    if behind_us > CATCH_UP_LAG_GAPS * progress.batch_gap_us:
        reason = f"event time is {format_about(behind_us)} further behind the clock than usual"
        return _not_narrowed(name, inputs, bound_ms, reason)
    return Step(name, bound_ms, f"the stream keeps up: event time moves at {pace / PPM:.2f} times the clock")


def _silent_partitions(inputs: Inputs, bound_ms: int) -> Step:
    name, silent = "silent partitions", inputs.progress.silent_partitions
    if not silent:
        return Step(name, bound_ms, "no partition that used to report is silent")
    verb = "is" if silent == 1 else "are"
    reason = f"{plural(silent, 'partition')} that used to report {verb} silent, and may come late"
    return _not_narrowed(name, inputs, bound_ms, reason)


def _narrow_late(inputs: Inputs, bound_ms: int) -> Step:
    widest = max(inputs.recent_bounds_ms, default=bound_ms)
    span = format_duration(NARROW_STABILISATION_MS * 1_000)
    if widest <= bound_ms:
        return Step("narrow late", bound_ms, f"nothing wider was asked for in the last {span}")
    reason = (
        f"{format_duration(widest * 1_000)} was asked for in the last {span}: it is narrowed no further yet"
    )
    return Step("narrow late", widest, reason)


def _timeslices(inputs: Inputs, bound_ms: int) -> Step:
    """Keep the share of good windows; what rows need is not known by window, so a bound is felt for."""
    name, slo, windows = "timeslices", inputs.slo, inputs.windows
    asked = (
        f"at least {_percent(slo.good_windows_ppm)} of the windows must keep {format_target(slo.target_ppm)}"
    )
    if windows is None or not windows.horizon.closed:
        return _not_narrowed(name, inputs, bound_ms, f"{asked}, and no window has closed yet")
    horizon, since = windows.horizon, windows.since
    if since.closed and since.good_ppm < slo.good_windows_ppm:
        reason = (
            f"{since.good:,} of the {since.closed:,} windows closed under the bound in use did, and {asked}"
        )
        return _felt_for(name, inputs, bound_ms, reason)
    if horizon.good_ppm < slo.good_windows_ppm:
        reason = f"{horizon.good:,} of {horizon.closed:,} windows did, and {asked}"
        return _not_narrowed(name, inputs, bound_ms, reason)
    return Step(name, bound_ms, f"{horizon.good:,} of {horizon.closed:,} windows did: {asked}")


def _worst_window(inputs: Inputs, bound_ms: int) -> Step:
    name, floor_ppm, windows = "worst window", inputs.slo.worst_window_ppm or 0, inputs.windows
    floor = f"the floor is {_percent(floor_ppm)}"
    worst_ppm = None if windows is None else windows.horizon.worst_ppm
    if windows is None or worst_ppm is None:
        return _not_narrowed(name, inputs, bound_ms, f"no window has closed yet, and {floor}")
    since_ppm = windows.since.worst_ppm
    if since_ppm is not None and since_ppm < floor_ppm:
        reason = f"the worst window under the bound in use kept {_percent(since_ppm)}, {floor}"
        return _felt_for(name, inputs, bound_ms, reason)
    reason = f"the worst window kept {_percent(worst_ppm)}, {floor}"
    return (
        _not_narrowed(name, inputs, bound_ms, reason)
        if worst_ppm < floor_ppm
        else Step(name, bound_ms, reason)
    )


def _felt_for(name: str, inputs: Inputs, bound_ms: int, why: str) -> Step:
    """Return a bound one step wider than the one in use, as far as any row needs it."""
    in_use, rows = inputs.in_use_bound_ms, inputs.evidence.rows
    if in_use is None:
        return Step(name, bound_ms, f"{why}: the bound in use is not known, so nothing is widened on it")
    max_us = inputs.curve.needs.value_at_rank(rows) if rows else None
    enough_ms = in_use if max_us is None else max(math.ceil(max_us / 1_000), in_use)
    step_ms = min(in_use + max(in_use * FLOOR_STEP_PPM // PPM, 1), enough_ms)
    wider = max(bound_ms, _rounded_up(step_ms))
    if wider <= in_use:
        return Step(name, wider, f"{why}: no row of known need is beyond the bound in use, which stays")
    return Step(name, wider, f"{why}: it is widened to {format_duration(wider * 1_000)}")


def _margin(inputs: Inputs, bound_ms: int) -> Step:
    margin_ppm = inputs.policy.margin_ppm
    wider = _rounded_up(-(-bound_ms * (PPM + margin_ppm) // PPM))
    return Step("margin", wider, f"{format_duration(wider * 1_000)} with a margin of {_percent(margin_ppm)}")


def _percent(share_ppm: int) -> str:
    return f"{share_ppm / 10_000:g} %"


def _latency_cap(inputs: Inputs, bound_ms: int) -> Step:
    cap_ms = inputs.slo.latency_cap_ms
    if cap_ms is None:
        return _held_against("latency", bound_ms, bound_ms, "no latency cap is set")
    latency = inputs.curve.at(bound_ms * 1_000).latency_wall
    cap = format_duration(cap_ms * 1_000)
    if latency is None:
        reason = f"no latency is known yet to hold against the cap of {cap}"
        return _held_against("latency", bound_ms, bound_ms, reason)
    above = latency.is_above(cap_ms * 1_000)
    if above:
        bound = format_duration(bound_ms * 1_000)
        return _over_the_cap(
            inputs,
            bound_ms,
            f"{bound} has a mean latency of {latency.text(exact=True)}, above the cap of {cap}",
        )
    reason = f"the mean latency is {latency.text(exact=True)}"
    if above is None:
        reason += f", and too many windows are open yet to hold it against the cap of {cap}"
        return _held_against("latency", bound_ms, bound_ms, reason)
    return _held_against("latency", bound_ms, bound_ms, f"{reason}, the cap {cap}")


def _held_against(
    cap: Literal["latency", "state"],
    bound_ms: int | None,
    asked_ms: int,
    message: str,
    *,
    above: bool = False,
) -> Step:
    """Return the step that holds what is asked for against a cap; ``bound_ms`` is what it leaves."""
    kind: StepKind = "LatencyCap" if cap == "latency" else "StateCap"
    return Step(f"{cap} cap", bound_ms, message, kind=kind, crosses_ms=asked_ms if above else None)


def _over_the_cap(inputs: Inputs, bound_ms: int, conflict: str) -> Step:
    left_ms: int | None = bound_ms
    if inputs.slo.on_conflict == "exceed_latency_cap":
        reason = f"{conflict}; the cap yields, as the SLO says"
    elif inputs.slo.on_conflict is None:
        left_ms = None
        reason = f"{conflict}, and the SLO does not say which yields: the bound in use is held"
    else:
        left_ms = _widest_within(inputs.curve, bound_ms, inputs.slo.latency_cap_ms or 0)
        reason = f"{conflict}; completeness yields, and even a bound of 0 is above the cap"
        if left_ms is not None:
            kept = percent(inputs.curve.at(left_ms * 1_000))
            reason = f"{conflict}; completeness yields: {format_duration(left_ms * 1_000)} keeps {kept}"
        left_ms = left_ms or 0
    return _held_against("latency", left_ms, bound_ms, reason, above=True)


def _widest_within(curve: Curve, too_wide_ms: int, cap_ms: int) -> int | None:
    """Return the widest bound below ``too_wide_ms`` within the cap, by bisection: latency grows with the bound."""
    low, high = -1, too_wide_ms
    while high - low > 1:
        middle = (low + high) // 2
        latency = curve.at(middle * 1_000).latency_wall
        within = latency is None or not latency.is_above(cap_ms * 1_000)
        low, high = (middle, high) if within else (low, middle)
    return low if low >= 0 else None


def _state_cap(inputs: Inputs, bound_ms: int) -> Step:
    cap, situation = inputs.slo.state_cap_rows or 0, inputs.situation
    rows = None if situation is None else state_at(situation, bound_ms * 1_000)[0]
    if situation is None or rows is None:
        reason = f"no state is known yet to hold against the cap of {plural(cap, 'row')}"
        return _held_against("state", bound_ms, bound_ms, reason)
    state = f"about {plural(rows, 'row')} of state"
    if rows <= cap:
        return _held_against("state", bound_ms, bound_ms, f"{state}, the cap is {cap:,}")
    conflict = f"{format_duration(bound_ms * 1_000)} would hold {state}, above the cap of {cap:,}"
    left_ms: int | None = bound_ms
    if inputs.slo.on_conflict == "exceed_state_cap":
        reason = f"{conflict}; the cap yields, as the SLO says"
    elif inputs.slo.on_conflict != "miss_target":
        left_ms = None
        reason = f"{conflict}, and the SLO does not say that either yields: the bound in use is held"
    else:
        low, high = -1, bound_ms
        while high - low > 1:
            middle = (low + high) // 2
            within = (state_at(situation, middle * 1_000)[0] or 0) <= cap
            low, high = (middle, high) if within else (low, middle)
        reason = f"{conflict}; completeness yields, and even a bound of 0 is above the cap"
        if low >= 0:
            kept = percent(inputs.curve.at(low * 1_000))
            reason = f"{conflict}; completeness yields: {format_duration(low * 1_000)} keeps {kept}"
        left_ms = max(low, 0)
    return _held_against("state", left_ms, bound_ms, reason, above=True)


def _directions(inputs: Inputs, bound_ms: int) -> Step:
    (only,) = inputs.policy.directions
    in_use = inputs.in_use_bound_ms
    if in_use is None or bound_ms == in_use or (bound_ms > in_use) == (only == "Widen"):
        return Step("directions", bound_ms, f"the policy allows to {only.lower()}")
    reason = f"the policy allows to {only.lower()} only: the bound in use, {format_duration(in_use * 1_000)}, stays"
    return Step("directions", in_use, reason)


def _one_step(inputs: Inputs, bound_ms: int) -> Step:
    name, in_use, max_ppm = "narrowing step", inputs.in_use_bound_ms, inputs.policy.max_narrowing_ppm or PPM
    min_ms = 0 if in_use is None else -(-in_use * (PPM - max_ppm) // PPM)
    if bound_ms >= min_ms:
        return Step(name, bound_ms, f"one rollout narrows by at most {_percent(max_ppm)}")
    reason = f"one rollout narrows by at most {_percent(max_ppm)}: to {format_duration(min_ms * 1_000)}"
    return Step(name, min_ms, reason)


def _limits(inputs: Inputs, bound_ms: int) -> Step:
    least, greatest = inputs.policy.min_bound_ms, inputs.policy.max_bound_ms
    limited = max(bound_ms, least) if greatest is None else min(max(bound_ms, least), greatest)
    if limited == bound_ms:
        return Step("limits", bound_ms, "within the policy's limits", kind="Limits")
    which = f"least bound {least}" if limited > bound_ms else f"greatest bound {greatest}"
    return Step("limits", limited, f"the policy's {which} ms holds", kind="Limits")


def _dead_band(inputs: Inputs, bound_ms: int) -> Step:
    in_use = inputs.in_use_bound_ms
    if in_use is None or bound_ms >= in_use or (in_use - bound_ms) * PPM >= NARROW_DEAD_BAND_PPM * in_use:
        return Step(
            "dead band",
            bound_ms,
            "a change worth making" if bound_ms != in_use else "the bound in use is right",
        )
    greatest = inputs.policy.max_bound_ms
    if greatest is not None and in_use > greatest:
        return Step("dead band", bound_ms, "the bound in use is above the policy's greatest")
    cap_ms, latency = inputs.slo.latency_cap_ms, inputs.curve.at(in_use * 1_000).latency_wall
    if (
        cap_ms is not None
        and latency is not None
        and latency.is_above(cap_ms * 1_000)
        and inputs.slo.on_conflict != "exceed_latency_cap"
    ):
        return Step("dead band", bound_ms, "the bound in use is above the latency cap")
    cap, situation = inputs.slo.state_cap_rows, inputs.situation
    if cap is not None and situation is not None and inputs.slo.on_conflict != "exceed_state_cap":
        rows, _ = state_at(situation, in_use * 1_000)
        if rows is not None and rows > cap:
            return Step("dead band", bound_ms, "the bound in use is above the state cap")
    saved = format_duration((in_use - bound_ms) * 1_000)
    return Step("dead band", in_use, f"narrowing by {saved} is less than a tenth: the bound in use stays")
