"""Where the bound lies that an SLO asks for, while too little is known to act on it: the numbers of the first hours.

That bound is a quantile of what the rows need, and order statistics bound a quantile whatever the distribution
(H. A. David and H. N. Nagaraja, "Order Statistics", Wiley 2003, section 7.1). For one look at the rows the ranks follow
from the binomial distribution. A status is looked at again and again, so here they are those of
``tidemark.models.base.confidence``, which hold at all looks together, over independent events.

Of a join the same is asked of all its sides together, and there is an estimate without a lower end: which of its rows
are late is counted at the most (``tidemark.models.recommend.joint_bounds``), and a bound below which too many certainly
are does not follow from that.

No rollout and no decision reads this: it is an estimate for people.
"""

from __future__ import annotations

import math
from dataclasses import replace

from tidemark.models.base.confidence import certified_rank
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.target import PPM, format_share
from tidemark.models.evidence.curve import Curve
from tidemark.models.evidence.joint_needs import JointNeeds
from tidemark.models.recommend.choice import not_covered, rounded_down, rounded_up
from tidemark.models.recommend.joint_bounds import estimated_common_ms, rows_needed
from tidemark.models.recommend.promise import ProvisionalBound, Recommended
from tidemark.models.rollout.evidence import EvidenceSpan
from tidemark.models.specs.slo import JoinSlo, Slo

_MINUTE_US = 60_000_000


def _worded(found: ProvisionalBound) -> ProvisionalBound:
    waits = "nothing acts on it before it is certified"
    if found.narrows_from_ms is not None:
        waits = f"narrowing waits for {format_about(found.narrows_from_ms * 1_000)} or a person"
    missing = "from one batch"
    if found.seen_ms:
        missing = not_covered(found.seen_ms * 1_000, found.confidence_ppm / PPM)
    return replace(found, text=f"{_bound(found)}{_interval(found)}; {missing}, and {waits}")


def _bound(found: ProvisionalBound) -> str:
    if found.recommended is not None:
        return f"{found.recommended.text}: the rows seen need {_text(found.bound_ms)}, "
    of = "" if found.join is None else f" of each side of join {found.join}"
    return f"provisionally {_text(found.bound_ms)}{of}: "


def _interval(found: ProvisionalBound) -> str:
    least, most, known_in_ms = found.min_bound_ms, found.max_bound_ms, found.max_known_in_ms
    at = f"at {format_share(found.confidence_ppm)} confidence"
    if least is not None and most is not None:
        return f"at least {_text(least)} and at most {_text(most)}, each {at}"
    until = "" if known_in_ms is None else f" for about {format_about(known_in_ms * 1_000)} more"
    if found.join is not None:
        return f"a join has no lower end, and the upper one is unknown{until}"
    if not least:
        return f"too few rows for either end, and the upper one is unknown{until}"
    return f"at least {_text(least)} {at}, and the upper end is unknown{until}"


def provisional_bound_of(
    curve: Curve, slo: Slo, reported_us: int, span: EvidenceSpan | None, recommended: Recommended | None
) -> ProvisionalBound | None:
    """Return the estimate from what the rows need; None without rows, and once a recommendation may be acted on.

    Args:
        curve: what the rows need.
        slo: what is asked for.
        reported_us: from the first batch counted to the newest, in microseconds.
        span: the evidence for a narrowing; None where none is required.
        recommended: what is recommended already; None while nothing is certified.
    """
    rows = round(curve.needs.weight)
    waits = span is not None and not span.enough
    if not rows or (recommended is not None and not waits):
        return None
    per_event = curve.rows_per_event(slo.target_ppm)
    low, high = quantile_ranks(rows, slo.target_ppm, slo.confidence_ppm, per_event)
    needs = curve.needs
    least_us = None if low is None else needs.floor_at_rank(low)
    estimate_us = needs.value_at_rank(-(-rows * slo.target_ppm // PPM))
    most_us = None if high is None else needs.value_at_rank(high)
    assert estimate_us is not None, "there are as many rows"
    estimate = ProvisionalBound(
        bound_ms=_delay_ms(estimate_us),
        min_bound_ms=None if least_us is None else rounded_down(max(math.floor(least_us / 1_000), 0)),
        max_bound_ms=None if most_us is None else _delay_ms(most_us),
        confidence_ppm=slo.confidence_ppm,
        max_known_in_ms=None
        if most_us is not None
        else _known_in_ms(slo.events_needed, rows / per_event, reported_us, slo.horizons_ms[-1]),
        seen_ms=(reported_us if span is None else span.covered_us) // 1_000,
        narrows_from_ms=None if span is None else round(span.needed_us / 1_000),
        recommended=recommended,
    )
    return _worded(estimate)


def provisional_joint_bound(
    join: str, needs: JointNeeds, slo: JoinSlo, reported_us: int, span: EvidenceSpan | None
) -> ProvisionalBound | None:
    """Return the estimate for each side of a join while too few rows are known to choose bounds; None without rows.

    Args:
        join: its name.
        needs: what the rows of all sides need.
        slo: what is asked of the joined output.
        reported_us: from the first batch counted to the newest, in microseconds.
        span: the evidence for a narrowing; None where none is required.
    """
    bound_ms = estimated_common_ms(needs, slo.target_ppm)
    if bound_ms is None:
        return None
    fewest = min(needs.rows_by_side.tolist())
    needed = rows_needed(len(needs.sides), slo.target_ppm, slo.confidence_ppm)
    estimate = ProvisionalBound(
        bound_ms=rounded_up(bound_ms),
        min_bound_ms=None,
        max_bound_ms=None,
        confidence_ppm=slo.confidence_ppm,
        max_known_in_ms=_known_in_ms(needed, fewest, reported_us, slo.horizon_ms),
        seen_ms=(reported_us if span is None else span.covered_us) // 1_000,
        narrows_from_ms=None if span is None else round(span.needed_us / 1_000),
        join=join,
    )
    return _worded(estimate)


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


def _known_in_ms(needed: int, events: float, reported_us: int, horizon_ms: int) -> int | None:
    """Return in how long there will be enough events for the upper end, in whole minutes."""
    if not reported_us:
        return None
    left_us = reported_us * (needed / events - 1)
    if reported_us + left_us > horizon_ms * 1_000:
        return None
    return max(math.ceil(left_us / _MINUTE_US), 1) * _MINUTE_US // 1_000


def _text(bound_ms: int) -> str:
    return format_duration(bound_ms * 1_000)
