"""Where the bound lies that an SLO asks for, while too little is known to act on it: the numbers of the first hour.

That bound is a quantile of what the rows need, and order statistics bound a quantile whatever the distribution
(H. A. David and H. N. Nagaraja, "Order Statistics", Wiley 2003, section 7.1). For one look at the rows the ranks follow
from the binomial distribution. A status is looked at again and again, so here they are those of
``tidemark.models.base.confidence``, which hold at all looks together, over independent events.

No rollout and no decision reads this: it is an estimate for people.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidemark.models.base.confidence import certified_rank
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.target import PPM, format_share
from tidemark.models.evidence.curve import Curve
from tidemark.models.recommend.choice import rounded_down, rounded_up
from tidemark.models.rollout.evidence import EvidenceSpan
from tidemark.models.specs.slo import Slo

_MINUTE_US = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvisionalBound:
    """An estimate of the bound that an SLO asks for, with its interval. Bounds are in milliseconds, to three digits."""

    bound_ms: int
    """The bound that the rows seen so far need."""
    min_bound_ms: int | None
    """Lower end of the interval; None while there are too few rows for it."""
    max_bound_ms: int | None
    """Upper end: what is certified, and recommended but for limits; None while there are too few rows for it."""
    confidence_ppm: int
    """Probability that an end is right at all looks together, in parts per million; both are with what two such
    probabilities leave."""
    max_known_in_us: int | None
    """In how long the upper end will be known if events go on to come as they did, in microseconds; None when it is
    known, or when the longest horizon would still have too few."""
    seen_us: int
    """How long the stream was observed, in microseconds."""
    narrows_from_us: int | None
    """How long it has to be before a first narrowing; None where nothing asks for that."""

    @property
    def text(self) -> str:
        """The same in one clause."""
        waits = "nothing acts on it before it is certified"
        if self.narrows_from_us is not None:
            waits = f"a first narrowing waits for {format_about(self.narrows_from_us)}"
        seen = "one batch" if not self.seen_us else f"{format_about(self.seen_us)} of evidence"
        return f"provisionally {_text(self.bound_ms)}: {self._interval}; from {seen}, and {waits}"

    @property
    def _interval(self) -> str:
        least, most, known_in = self.min_bound_ms, self.max_bound_ms, self.max_known_in_us
        at = f"at {format_share(self.confidence_ppm)} confidence"
        if least is not None and most is not None:
            return f"at least {_text(least)} and at most {_text(most)}, each {at}"
        until = "" if known_in is None else f" for about {format_about(known_in)} more"
        if not least:
            return f"too few rows for either end, and the upper one is unknown{until}"
        return f"at least {_text(least)} {at}, and the upper end is unknown{until}"


def provisional_bound_of(
    curve: Curve, slo: Slo, reported_us: int, span: EvidenceSpan | None, *, certified: bool
) -> ProvisionalBound | None:
    """Return the estimate from what the rows need; None without rows, and once a recommendation may be acted on.

    Args:
        curve: what the rows need.
        slo: what is asked for.
        reported_us: from the first batch counted to the newest, in microseconds.
        span: the evidence for a first narrowing; None where none is required.
        certified: whether a bound is recommended already, which is narrower than the one in use.
    """
    rows = round(curve.needs.weight)
    if not rows or (certified and (span is None or span.covered_us >= span.needed_us)):
        return None
    per_event = curve.rows_per_event(slo.target_ppm)
    low, high = quantile_ranks(rows, slo.target_ppm, slo.confidence_ppm, per_event)
    needs = curve.needs
    least_us = None if low is None else needs.floor_at_rank(low)
    estimate_us = needs.value_at_rank(-(-rows * slo.target_ppm // PPM))
    most_us = None if high is None else needs.value_at_rank(high)
    assert estimate_us is not None, "there are as many rows"
    return ProvisionalBound(
        bound_ms=_delay_ms(estimate_us),
        min_bound_ms=None if least_us is None else rounded_down(max(math.floor(least_us / 1_000), 0)),
        max_bound_ms=None if most_us is None else _delay_ms(most_us),
        confidence_ppm=slo.confidence_ppm,
        max_known_in_us=None if most_us is not None else _known_in_us(slo, rows / per_event, reported_us),
        seen_us=reported_us if span is None else span.covered_us,
        narrows_from_us=None if span is None else span.needed_us,
    )


def quantile_ranks(
    rows: int, share_ppm: int, confidence_ppm: int, rows_per_event: float = 1.0
) -> tuple[int | None, int | None]:
    """Return the ranks of the rows between whose values a quantile of all rows lies; 1 is the smallest.

    Each is right with the given confidence, at all looks together; None when the rows do not suffice for it.
    """
    share, confidence = share_ppm / PPM, confidence_ppm / PPM
    # The quantile is above a value once it is certain that more than the rest of all rows are.
    above = certified_rank(rows, (PPM - share_ppm) / PPM, confidence, rows_per_event)
    return None if above is None else rows - above + 1, certified_rank(
        rows, share, confidence, rows_per_event
    )


def _delay_ms(need_us: float) -> int:
    """Return a bound that admits a need: Spark's delay has whole milliseconds, and is not negative."""
    return rounded_up(max(math.ceil(need_us / 1_000), 0))


def _known_in_us(slo: Slo, events: float, reported_us: int) -> int | None:
    """Return in how long there will be enough events for the upper end, in whole minutes."""
    if not reported_us:
        return None
    left_us = reported_us * (slo.events_needed / events - 1)
    if reported_us + left_us > slo.horizons_ms[-1] * 1_000:
        return None
    return max(math.ceil(left_us / _MINUTE_US), 1) * _MINUTE_US


def _text(bound_ms: int) -> str:
    return format_duration(bound_ms * 1_000)
