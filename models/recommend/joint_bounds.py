"""Bounds for the sides of a join, chosen together for one SLO on the joined output.

A pair comes out iff both of its rows are admitted. If a side's rows have equally many partners, the share of the pairs
that is lost is at most the sum of the sides' shares of late rows, however these depend on each other. So the SLO holds
if that sum is at most its error budget, each share being certified.

First one bound is chosen for all sides, then each side's is lowered as far as the SLO still holds: while the lead
alternates, a side may wait for little because another one waits. The one bound is at least the lowest under which the
SLO holds. From that one itself little can be lowered where every late row counts; from a wider one, one side can often
be lowered so far that the watermark trails less. What counts is how far it trails the base of the group (the minimum of
the sides' bases), because the state follows that. Where nothing is gained, all sides keep the lowest common bound: it
holds however the sides lead.

All of this is for the policy ``min``. Under ``max`` the fastest side alone moves the watermark.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

import numpy as np

from tidemark.models.base.confidence import certified_share, min_events
from tidemark.models.base.duration import format_duration
from tidemark.models.base.target import PPM, format_share
from tidemark.models.evidence.joint_needs import JointNeeds
from tidemark.models.specs.slo import JoinSlo

_WIDER_PPM = 100_000
"""Step from one common bound to the next, as a share of it. Chosen: a tenth is what a narrowing must be worth, too."""

_STEPS = 24
"""How many wider common bounds are tried: up to ten times the lowest."""

_WORTH_PPM = 50_000
"""Share of the watermark's lag that bounds must save beside the lowest common one, in parts per million.

Chosen: less may be chance, and then the state would not be less but more.
"""


@dataclass(frozen=True, slots=True)
class JointBounds:
    """Bounds for the sides of a join."""

    bounds_ms: tuple[int, ...]
    common_ms: int
    """The lowest bound that meets the SLO when all sides have it, in milliseconds."""

    def reason(self, side: int) -> str:
        """Return why a side has its bound, as a clause."""
        bound_ms, common = self.bounds_ms[side], format_duration(self.common_ms * 1_000)
        if bound_ms == self.common_ms:
            return f"{common} is the lowest bound that meets the SLO when all have it"
        if bound_ms < self.common_ms:
            return (
                f"lower than the lowest common bound, {common}: the others' bounds admit enough of the rows"
            )
        return f"wider than the lowest common bound, {common}, so that the others can be lowered by more"


@dataclass(frozen=True, slots=True)
class JointChoice:
    """Bounds, and when they were chosen."""

    bounds: JointBounds
    at_us: int
    """Trigger time of the newest batch that they were chosen by, in microseconds."""


def choose_joint_bounds(needs: JointNeeds, target_ppm: int, confidence_ppm: int) -> JointBounds | None:
    """Return the bounds that meet an SLO on the joined output with the least lag of the watermark that was found.

    None when not even the greatest need as one common bound certifies the target: there are too few rows of a side.
    """
    slo = _Slo(needs, target_ppm, confidence_ppm)
    sides, candidates = len(needs.sides), _common_candidates(needs)
    at = bisect_left(candidates, True, key=lambda bound_ms: slo.holds([bound_ms] * sides))
    if at == len(candidates):
        return None
    common_ms = candidates[at]
    common = (common_ms,) * sides
    lowered = [slo.lowered(bound_ms) for bound_ms in _common_bounds(common_ms, candidates[-1])]
    best = min(lowered, key=needs.watermark_lag_ms)
    return JointBounds(best if _saves(needs, best, common) else common, common_ms)


def estimated_common_ms(needs: JointNeeds, target_ppm: int) -> int | None:
    """Return the lowest bound under which the rows seen meet the SLO when all sides have it; None without rows of each.

    Nothing certifies it: it is where the common bound that will be chosen is to be expected.
    """
    sides, rows = len(needs.sides), needs.rows_by_side.tolist()
    if not all(rows):
        return None

    def holds(bound_ms: int) -> bool:
        admitted = needs.admitted([bound_ms] * sides).tolist()
        late = (Fraction(every - some, every) for some, every in zip(admitted, rows, strict=True))
        return sum(late) <= Fraction(PPM - target_ppm, PPM)

    candidates = _common_candidates(needs)
    return candidates[bisect_left(candidates, True, key=holds)]


def _common_candidates(needs: JointNeeds) -> list[int]:
    """Return the common bounds at which another row is admitted, ascending; the last one admits all."""
    candidates: list[int] = np.unique(np.maximum(needs.needs_ms.min(axis=1), 0)).tolist()
    return candidates


def bounds_to_use(
    needs: JointNeeds, chosen: JointBounds | None, target_ppm: int, confidence_ppm: int, *, choose_anew: bool
) -> JointBounds | None:
    """Return bounds as ``choose_joint_bounds`` does, but those that were chosen before while they still do.

    While they meet the SLO they stay unless ``choose_anew``, and then too unless other bounds save enough of the
    watermark's lag: two choices that are nearly alike must not take turns.

    Args:
        needs: the needs of all sides over the horizon.
        chosen: the bounds chosen before; None without any.
        target_ppm: share of the pairs to come out, in parts per million.
        confidence_ppm: confidence with which it is certified, in parts per million.
        choose_anew: whether to choose anew although they still meet the SLO.
    """
    if chosen is None or not _Slo(needs, target_ppm, confidence_ppm).holds(chosen.bounds_ms):
        return choose_joint_bounds(needs, target_ppm, confidence_ppm)
    anew = choose_joint_bounds(needs, target_ppm, confidence_ppm) if choose_anew else None
    return chosen if anew is None or not _saves(needs, anew.bounds_ms, chosen.bounds_ms) else anew


def _saves(needs: JointNeeds, bounds_ms: Sequence[int], beside_ms: Sequence[int]) -> bool:
    """Return whether bounds save enough of the watermark's lag beside others."""
    return needs.watermark_lag_ms(bounds_ms) < (1 - _WORTH_PPM / PPM) * needs.watermark_lag_ms(beside_ms)


def _common_bounds(lowest_ms: int, greatest_ms: int) -> Iterator[int]:
    """Yield the common bounds to begin with, ascending."""
    bound_ms = lowest_ms
    for _ in range(_STEPS + 1):
        yield bound_ms
        bound_ms += -(-bound_ms * _WIDER_PPM // PPM)
        if bound_ms > greatest_ms or not bound_ms:
            return


def rows_needed(sides: int, target_ppm: int, confidence_ppm: int) -> int:
    """Return how many rows of each side it takes at least to certify an SLO, if all have equally many."""
    return min_events(1 - (1 - target_ppm / PPM) / sides, _confidence_of_each(sides, confidence_ppm))


def _confidence_of_each(sides: int, confidence_ppm: int) -> float:
    """Return the confidence that each side needs: it may be wrong with its part of the doubt (Bonferroni)."""
    return 1 - (PPM - confidence_ppm) / PPM / sides


class _Slo:
    """The SLO as a condition on bounds."""

    def __init__(self, needs: JointNeeds, target_ppm: int, confidence_ppm: int) -> None:
        self._needs = needs
        self._rows = needs.rows_by_side.tolist()
        # No bound is below 0: whatever needs less is never late, and need not be looked at again.
        open_ = (needs.needs_ms > 0).all(axis=1)
        self._open = JointNeeds(needs.sides, needs.needs_ms[open_], needs.rows[open_])
        self._never_late = needs.rows_by_side - self._open.rows_by_side
        self._budget = (PPM - target_ppm) / PPM
        self._confidence = _confidence_of_each(len(self._rows), confidence_ppm)

    def holds(self, bounds_ms: Sequence[int]) -> bool:
        """Return whether it is certified under these bounds; wider ones never change a yes."""
        admitted = (self._never_late + self._open.admitted(bounds_ms)).tolist()
        late = (
            1 - certified_share(some, rows, self._confidence)
            for some, rows in zip(admitted, self._rows, strict=True)
        )
        return sum(late) <= self._budget

    def lowered(self, common_ms: int) -> tuple[int, ...]:
        """Return the bounds that are left of a common one, under which it holds, when each is lowered in turn.

        What one side no longer waits for another one must: so each is the first once, and the least lag is taken.
        """
        sides = len(self._rows)
        orders = [[*range(first, sides), *range(first)] for first in range(sides)]
        bounds = [self._lowered_in(order, [common_ms] * sides) for order in orders]
        return min(bounds, key=self._needs.watermark_lag_ms)

    def _lowered_in(self, order: Sequence[int], bounds_ms: list[int]) -> tuple[int, ...]:
        for side in order:
            before, after = bounds_ms[:side], bounds_ms[side + 1 :]
            # The last one admits what the side's bound does, under which it holds.
            needs_ms = np.minimum(self._open.needs_ms[:, side], bounds_ms[side])
            candidates = np.unique(np.append(needs_ms, 0)).tolist()
            at = bisect_left(
                candidates,
                True,
                key=lambda bound_ms: self.holds([*before, bound_ms, *after]),
            )
            bounds_ms = [*before, candidates[at], *after]
        return tuple(bounds_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSide:
    """One side of a join, and the bounds chosen for all of them."""

    join: str
    slo: JoinSlo
    side: int
    """Position of this side in ``slo.streams``."""
    needs: JointNeeds
    choice: JointChoice | None
    """The bounds chosen for all sides; None without enough evidence."""
    unknown: str | None = None
    """Why the evidence says nothing now; None when it does."""
    missing_batches: int = 0
    """Batches within the evidence that not every side reported."""
    least_ms: tuple[int | None, ...] = ()
    """The least bound that each side has, or may soon have without another decision, in milliseconds; None: unknown."""

    @property
    def bounds(self) -> JointBounds | None:
        """The bounds chosen for all sides; None without enough evidence."""
        return None if self.choice is None else self.choice.bounds

    @property
    def why_no_bound(self) -> str:
        """Why no bounds were chosen."""
        if self.unknown is not None:
            return self.unknown
        needed = rows_needed(len(self.slo.streams), self.slo.target_ppm, self.slo.confidence_ppm)
        rows = ", ".join(
            f"{rows:,} of {stream}"
            for stream, rows in zip(self.slo.streams, self.needs.rows_by_side.tolist(), strict=True)
        )
        return (
            f"not enough evidence: rows {rows}, and at least {needed:,} of each to certify "
            f"{format_share(self.slo.target_ppm)}"
        )

    @property
    def narrower(self) -> int | None:
        """Another side that has less than its chosen bound, on which this side's rests; None without one."""
        if self.bounds is None:
            return None
        pairs = enumerate(zip(self.least_ms, self.bounds.bounds_ms, strict=True))
        return next(
            (
                number
                for number, (least_ms, bound_ms) in pairs
                if number != self.side and least_ms is not None and least_ms < bound_ms
            ),
            None,
        )

    def late_under(self, bound_ms: int) -> int:
        """Return how many of this side's rows are late, at most, under a bound of it and the others' chosen bounds."""
        assert self.bounds is not None, "no bounds are chosen"
        bounds_ms = list(self.bounds.bounds_ms)
        bounds_ms[self.side] = bound_ms
        return self.needs.late(self.side, bounds_ms)


def lost_ppm(sides: Iterable[tuple[int, int, int]]) -> tuple[int, int] | None:
    """Return between which shares of the joined pairs are lost, in parts per million; None while one side is unknown.

    If the rows of a side have equally many partners, a pair is lost at least where the side that loses most loses it,
    and at most the sides' shares add up.
    """
    known_sides = list(sides)
    if not known_sides or not all(rows for rows, _, _ in known_sides):
        return None
    least = max(Fraction(late_min, rows) for rows, late_min, _ in known_sides)
    most = sum((Fraction(late_max, rows) for rows, _, late_max in known_sides), Fraction())
    return floor(least * PPM), min(ceil(most * PPM), PPM)
