"""From evidence to a recommended bound: a chain of small steps, each of which says what it did and why.

The estimate comes first and the limits last, so that no later step can undo a limit. The chain is pure: the same
inputs give the same recommendation, on any machine and at any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from tidemark.models.choice import needed_rank, percent
from tidemark.models.curve import Curve
from tidemark.models.defaults import (
    BOUND_DIGITS,
    CATCH_UP_LAG_GAPS,
    CATCH_UP_PACE_PPM,
    NARROW_DEAD_BAND_PPM,
    NARROW_STABILISATION_MS,
    NO_DATA_GAPS,
    UNKNOWN_SHARE_OF_BUDGET_PPM,
)
from tidemark.models.duration import format_about, format_duration
from tidemark.models.progress import UNKNOWN_PROGRESS, Progress
from tidemark.models.quantile import least_samples
from tidemark.models.slo import Policy, Slo
from tidemark.models.target import PPM, format_target

__all__ = ["Evidence", "Inputs", "Recommendation", "Step", "recommend"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
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
    evidence: Evidence
    """What the curve rests on."""
    in_use_ms: int | None
    """The bound the job runs with, in milliseconds; None when it is not known."""
    progress: Progress = UNKNOWN_PROGRESS
    """How the stream has been getting on: whether its delays are its own. While it is unknown, nothing is narrowed."""
    recent_bounds_ms: tuple[int, ...] = ()
    """What rows asked for (``Recommendation.asked_ms``) at earlier decisions under the same SLO, within the last
    ``NARROW_STABILISATION_MS``, in milliseconds."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the chain."""

    name: str
    """What was done."""
    bound_ms: int | None
    """The bound after the step, in milliseconds; None while there is none."""
    reason: str
    """Why, with the figures."""


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
        return next((step.bound_ms for step in self.steps if step.name == _ASKED), None)


_ASKED = "round up"
"""Name of the step whose bound is what the rows ask for."""

_Link = Callable[[Inputs, int], Step]


def recommend(inputs: Inputs) -> Recommendation:
    """Return the bound to recommend; without enough evidence or when constraints conflict, none."""
    step = _quantile(inputs)
    steps = [step]
    for link in (
        _round_up,
        _unknown_rows,
        _no_data,
        _catching_up,
        _silent_partitions,
        _narrow_late,
        _latency_cap,
        _limits,
        _dead_band,
    ):
        if step.bound_ms is None:
            break
        step = link(inputs, step.bound_ms)
        steps.append(step)
    return Recommendation(step.bound_ms, tuple(steps))


def _quantile(inputs: Inputs) -> Step:
    rows, slo = inputs.evidence.rows, inputs.slo
    target = f"{format_target(slo.target_ppm)} of the rows"
    confidence = slo.confidence_ppm / PPM
    rank = needed_rank(rows, slo.target_ppm, confidence)
    need_us = None if rank is None else inputs.curve.needs.value_at_rank(rank)
    if rank is None or need_us is None:
        wanted = least_samples(slo.target_ppm / PPM, confidence)
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
    grain = 10 ** max(len(str(bound_ms)) - BOUND_DIGITS, 0)
    rounded = -(-bound_ms // grain) * grain
    return Step(_ASKED, rounded, f"{format_duration(rounded * 1_000)}, in {BOUND_DIGITS} digits")


def _unknown_rows(inputs: Inputs, bound_ms: int) -> Step:
    evidence, in_use = inputs.evidence, inputs.in_use_ms
    unknown = evidence.unknown_rows
    every = evidence.rows + unknown
    tolerated = UNKNOWN_SHARE_OF_BUDGET_PPM * (PPM - inputs.slo.target_ppm) * every
    if unknown * PPM * PPM <= tolerated and not evidence.missing_batches:
        return Step("unknown rows", bound_ms, f"{unknown:,} rows of unknown need, too few to matter")
    told = f"{unknown:,} rows of unknown need and {evidence.missing_batches:,} batches never reported"
    if in_use is None or bound_ms >= in_use:
        return Step(
            "unknown rows", bound_ms, f"{told}: they can only ask for more, so nothing is narrowed on them"
        )
    return Step(
        "unknown rows",
        in_use,
        f"{told}: the bound in use, {format_duration(in_use * 1_000)}, is not narrowed",
    )


def _not_narrowed(name: str, inputs: Inputs, bound_ms: int, why: str) -> Step:
    """Return the step of a guard rail that lets nothing be narrowed, because of ``why``; widening passes."""
    in_use = inputs.in_use_ms
    if in_use is None or bound_ms >= in_use:
        return Step(name, bound_ms, f"{why}: nothing would be narrowed, and widening passes")
    return Step(name, in_use, f"{why}: the bound in use, {format_duration(in_use * 1_000)}, is not narrowed")


def _no_data(inputs: Inputs, bound_ms: int) -> Step:
    silent_us, gap_us = inputs.progress.silent_us, inputs.progress.batch_gap_us
    if silent_us is None or gap_us is None or silent_us <= NO_DATA_GAPS * gap_us:
        return Step("no data", bound_ms, "nothing says that the stream has fallen silent")
    told = f"no report for {format_about(silent_us)}, where {format_about(gap_us)} between batches is typical"
    return _not_narrowed("no data", inputs, bound_ms, told)


def _catching_up(inputs: Inputs, bound_ms: int) -> Step:
    name, progress = "catching up", inputs.progress
    pace, lag_us, usual_us = progress.recent_pace_ppm, progress.lag_us, progress.usual_lag_us
    if pace is None or lag_us is None or usual_us is None or progress.batch_gap_us is None:
        return _not_narrowed(name, inputs, bound_ms, "too few batches to tell whether the stream keeps up")
    if pace > CATCH_UP_PACE_PPM:
        told = (
            f"event time moves at {pace / PPM:.2f} times the clock, so the stream is catching up or replayed"
        )
        return _not_narrowed(name, inputs, bound_ms, told)
    behind_us = lag_us - usual_us
    if behind_us > CATCH_UP_LAG_GAPS * progress.batch_gap_us:
        told = f"event time is {format_about(behind_us)} further behind the clock than usual"
        return _not_narrowed(name, inputs, bound_ms, told)
    return Step(name, bound_ms, f"the stream keeps up: event time moves at {pace / PPM:.2f} times the clock")


def _silent_partitions(inputs: Inputs, bound_ms: int) -> Step:
    name, silent = "silent partitions", inputs.progress.silent_partitions
    if not silent:
        return Step(name, bound_ms, "no partition that used to report is silent")
    return _not_narrowed(
        name, inputs, bound_ms, f"{silent:,} partitions that used to report are silent and may come late"
    )


def _narrow_late(inputs: Inputs, bound_ms: int) -> Step:
    widest = max(inputs.recent_bounds_ms, default=bound_ms)
    span = format_duration(NARROW_STABILISATION_MS * 1_000)
    if widest <= bound_ms:
        return Step("narrow late", bound_ms, f"nothing wider was asked for in the last {span}")
    told = (
        f"{format_duration(widest * 1_000)} was asked for in the last {span}: it is narrowed no further yet"
    )
    return Step("narrow late", widest, told)


def _latency_cap(inputs: Inputs, bound_ms: int) -> Step:
    cap_ms, curve = inputs.slo.latency_cap_ms, inputs.curve
    if cap_ms is None:
        return Step("latency cap", bound_ms, "no latency cap is set")
    wall_us = curve.at(bound_ms * 1_000).latency_wall_us
    cap = format_duration(cap_ms * 1_000)
    if wall_us is None:
        return Step("latency cap", bound_ms, f"no latency is known yet to hold against the cap of {cap}")
    bound, latency = format_duration(bound_ms * 1_000), format_duration(round(wall_us))
    if wall_us <= cap_ms * 1_000:
        return Step("latency cap", bound_ms, f"the mean latency is {latency}, the cap {cap}")
    return _over_the_cap(inputs, bound_ms, f"{bound} has a mean latency of {latency}, above the cap of {cap}")


def _over_the_cap(inputs: Inputs, bound_ms: int, conflict: str) -> Step:
    if inputs.slo.yields == "latency":
        return Step("latency cap", bound_ms, f"{conflict}; the cap yields, as the SLO says")
    if inputs.slo.yields is None:
        held = "and the SLO does not say which yields: the bound in use is held"
        return Step("latency cap", None, f"{conflict}, {held}")
    capped = _widest_within(inputs.curve, bound_ms, inputs.slo.latency_cap_ms or 0)
    if capped is None:
        told = f"{conflict}; completeness yields, and even a bound of 0 is above the cap"
        return Step("latency cap", 0, told)
    kept = percent(inputs.curve.at(capped * 1_000))
    told = f"{conflict}; completeness yields: {format_duration(capped * 1_000)} keeps {kept}"
    return Step("latency cap", capped, told)


def _widest_within(curve: Curve, too_wide_ms: int, cap_ms: int) -> int | None:
    """Return the widest bound below ``too_wide_ms`` within the cap, by bisection: latency grows with the bound."""
    low, high = -1, too_wide_ms
    while high - low > 1:
        middle = (low + high) // 2
        within = (curve.at(middle * 1_000).latency_wall_us or 0) <= cap_ms * 1_000
        low, high = (middle, high) if within else (low, middle)
    return low if low >= 0 else None


def _limits(inputs: Inputs, bound_ms: int) -> Step:
    least, greatest = inputs.policy.least_bound_ms, inputs.policy.greatest_bound_ms
    limited = max(bound_ms, least) if greatest is None else min(max(bound_ms, least), greatest)
    if limited == bound_ms:
        return Step("limits", bound_ms, "within the policy's limits")
    which = f"least bound {least}" if limited > bound_ms else f"greatest bound {greatest}"
    return Step("limits", limited, f"the policy's {which} ms holds")


def _dead_band(inputs: Inputs, bound_ms: int) -> Step:
    in_use = inputs.in_use_ms
    if in_use is None or bound_ms >= in_use or (in_use - bound_ms) * PPM >= NARROW_DEAD_BAND_PPM * in_use:
        return Step(
            "dead band",
            bound_ms,
            "a change worth making" if bound_ms != in_use else "the bound in use is right",
        )
    greatest = inputs.policy.greatest_bound_ms
    if greatest is not None and in_use > greatest:
        return Step("dead band", bound_ms, "the bound in use is above the policy's greatest")
    cap_ms, wall_us = inputs.slo.latency_cap_ms, inputs.curve.at(in_use * 1_000).latency_wall_us
    if (
        cap_ms is not None
        and wall_us is not None
        and wall_us > cap_ms * 1_000
        and inputs.slo.yields != "latency"
    ):
        return Step("dead band", bound_ms, "the bound in use is above the latency cap")
    saved = format_duration((in_use - bound_ms) * 1_000)
    return Step("dead band", in_use, f"narrowing by {saved} is less than a tenth: the bound in use stays")
