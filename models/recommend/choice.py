"""The choice of a bound: the smallest that meets the completeness target, unless the latency cap forbids it.

Completeness and latency both grow with the bound: the target is met from some bound up, the cap up to some bound. Where
the two ranges do not overlap, no bound fits, and the choice says which constraint fails where.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from tidemark.models.base.confidence import certified_rank, min_events, rarest_covered_us
from tidemark.models.base.defaults import BOUND_DIGITS
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.target import PPM, format_share
from tidemark.models.base.text import plural
from tidemark.models.evidence.curve import CurvePoint, MeanLatency

Constraint = Literal["completeness", "evidence", "latency"]
Latency = Literal["base", "wall"]


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a bound does not fit."""

    bound_us: int
    constraint: Constraint
    detail: str
    """The figures, as a sentence."""


@dataclass(frozen=True, slots=True)
class BoundChoice:
    """The chosen point, or why there is none."""

    point: CurvePoint | None
    """The point of the chosen bound; None when no bound fits."""
    rejections: tuple[Rejection, ...]
    """Why the other bounds do not fit; without bounds that fit but are wider than needed."""
    reason: str
    """The choice in one sentence."""

    @property
    def failing(self) -> tuple[Constraint, ...]:
        """Constraints that keep every bound from fitting, in alphabetical order; empty when one fits."""
        return () if self.point else tuple(sorted({rejection.constraint for rejection in self.rejections}))


def needed_rank(
    rows: int, target_ppm: int, confidence: float | None, rows_per_event: float = 1.0
) -> int | None:
    """Return how many of ``rows`` must be admitted to meet the target; None when the rows cannot certify it.

    Without ``confidence`` the target is judged on these rows alone; with it, on what they predict for rows to come.
    """
    if confidence is None:
        return math.ceil(Fraction(target_ppm * rows, PPM))
    return certified_rank(rows, target_ppm / PPM, confidence, rows_per_event)


def lack_of_evidence(rows: int, rows_per_event: float, target_ppm: int, confidence: float) -> str:
    """Return, as a clause, how many rows there are and how many it takes to certify the target."""
    needed = counted(rows_that_certify(target_ppm, confidence, rows_per_event), rows_per_event)
    at = f"{format_share(target_ppm)} at {format_share(round(confidence * PPM))} confidence at every look"
    return f"not enough evidence: {counted(rows, rows_per_event)}; {needed} are needed to certify {at}"


def rows_that_certify(target_ppm: int, confidence: float, rows_per_event: float) -> int:
    """Return how many rows, none of them late, certify the target where so many of them share their fate."""
    return math.ceil(min_events(target_ppm / PPM, confidence) * rows_per_event)


def not_covered(observed_us: int, confidence: float) -> str:
    """Return, as a clause, what a certificate from so much evidence, in microseconds, does not cover."""
    rarest, observed = (format_about(us) for us in (rarest_covered_us(observed_us, confidence), observed_us))
    return f"what comes seldomer than every {rarest} is not covered by {observed} of evidence"


def counted(rows: int, rows_per_event: float) -> str:
    """Return how many rows there are, and as how many independent events they count where those are fewer."""
    counted_rows, events = plural(rows, "row"), int(round(rows / rows_per_event, 6))
    return counted_rows if events >= rows else f"{counted_rows} (as {plural(events, 'independent event')})"


def choose_bound(
    points: Sequence[CurvePoint],
    target_ppm: int,
    latency_cap_us: int | None = None,
    *,
    latency: Latency = "base",
    confidence: float | None = None,
    rows_per_event: float = 1.0,
) -> BoundChoice:
    """Return the point with the smallest bound that meets the target and the cap.

    Args:
        points: candidate bounds on one curve, in any order.
        target_ppm: the completeness target in parts per million.
        latency_cap_us: maximum mean latency, in microseconds; None for no cap.
        latency: which latency the cap is on.
        confidence: when given, the target must be certified with it.
        rows_per_event: how many rows share their fate.
    """
    rejections: list[Rejection] = []
    fitting: list[CurvePoint] = []
    for point in sorted(points, key=lambda point: point.bound_us):
        against = [
            rejection
            for rejection in (
                _completeness(point, target_ppm, confidence, rows_per_event),
                _latency(point, latency_cap_us, latency),
            )
            if rejection is not None
        ]
        rejections += against
        if not against:
            fitting.append(point)
    if not fitting:
        return BoundChoice(None, tuple(rejections), _no_fit(rejections))
    best = fitting[0]
    value = _of(best, latency)
    reason = f"{format_duration(best.bound_us)} is the smallest bound that admits {percent(best)} of the rows"
    at = "" if latency_cap_us is None or value is None else f" at a latency of {value.text(exact=True)}"
    return BoundChoice(best, tuple(rejections), reason + at)


def percent(point: CurvePoint) -> str:
    """Return the completeness of a point in percent with two decimals; 100.00 only when nothing was late."""
    return percent_of(point.rows - point.late, point.rows)


def percent_of(admitted: int, rows: int) -> str:
    """Return a share of rows in percent with two decimals; 100.00 only when all were admitted."""
    if not rows:
        return "unknown"
    text = f"{100 * (admitted / rows):.2f}"
    return "99.99 %" if admitted < rows and text == "100.00" else f"{text} %"


def _of(point: CurvePoint, latency: Latency) -> MeanLatency | None:
    if latency == "wall":
        return point.latency_wall
    base_us = point.latency_base_us
    if base_us is not None:
        return MeanLatency(base_us, censored=False)
    # While no window is emitted, the base has yet to pass the bound.
    return None if point.latency_wall is None else MeanLatency(point.bound_us, censored=True)


def _completeness(
    point: CurvePoint, target_ppm: int, confidence: float | None, rows_per_event: float
) -> Rejection | None:
    rank = needed_rank(point.rows, target_ppm, confidence, rows_per_event)
    target = format_share(target_ppm)
    if not point.rows or rank is None:
        detail = (
            "not enough evidence: there is no row"
            if confidence is None
            else lack_of_evidence(point.rows, rows_per_event, target_ppm, confidence)
        )
        return Rejection(point.bound_us, "evidence", detail)
    if point.rows - point.late >= rank:
        return None
    detail = (
        f"bound {format_duration(point.bound_us)} admits {percent(point)} of the rows, the target is {target}"
    )
    return Rejection(point.bound_us, "completeness", detail)


def _latency(point: CurvePoint, cap_us: int | None, latency: Latency) -> Rejection | None:
    value = _of(point, latency)
    if cap_us is None or value is None or value.is_above(cap_us) is False:
        return None
    detail = (
        f"bound {format_duration(point.bound_us)} has a mean latency of {value.text(exact=True)}, "
        f"the cap is {format_duration(cap_us)}"
    )
    return Rejection(point.bound_us, "latency", detail)


def _no_fit(rejections: Sequence[Rejection]) -> str:
    if not rejections:
        return "there is no candidate bound"
    lack = next((rejection for rejection in rejections if rejection.constraint == "evidence"), None)
    if lack is not None:
        return lack.detail
    short = [rejection for rejection in rejections if rejection.constraint == "completeness"]
    slow = [rejection for rejection in rejections if rejection.constraint == "latency"]
    parts = ([short[-1].detail] if short else []) + ([slow[0].detail] if slow else [])
    return "no bound fits: " + "; ".join(parts)


def rounded_up(bound_ms: int) -> int:
    """Return a bound rounded up to ``BOUND_DIGITS`` digits, in milliseconds."""
    grain = _grain(bound_ms)
    return -(-bound_ms // grain) * grain


def rounded_down(bound_ms: int) -> int:
    """Return a bound rounded down to ``BOUND_DIGITS`` digits, in milliseconds."""
    grain = _grain(bound_ms)
    return bound_ms // grain * grain


def _grain(bound_ms: int) -> int:
    grain: int = 10 ** max(len(str(bound_ms)) - BOUND_DIGITS, 0)
    return grain
