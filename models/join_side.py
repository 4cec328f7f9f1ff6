"""What the SLO on the output of a join asks of one of its sides."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor

from tidemark.models.joint_bounds import JointBounds, JointChoice, rows_needed
from tidemark.models.joint_needs import JointNeeds
from tidemark.models.slo import JoinSlo
from tidemark.models.target import PPM, format_share


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinSide:
    """One side of a join, and the bounds chosen for all of them."""

    join: str
    """Name of the join."""
    slo: JoinSlo
    """The SLO on its output."""
    side: int
    """Position of this side in ``slo.streams``."""
    needs: JointNeeds
    """The needs of all sides over the horizon."""
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

    Args:
        sides: for each side the rows that were judged, how many were late for sure and how many may have been.
    """
    known = list(sides)
    if not known or not all(rows for rows, _, _ in known):
        return None
    least = max(Fraction(late_min, rows) for rows, late_min, _ in known)
    most = sum((Fraction(late_max, rows) for rows, _, late_max in known), Fraction())
    return floor(least * PPM), min(ceil(most * PPM), PPM)
