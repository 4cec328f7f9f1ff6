"""Short cohorts: which share of the rows that cohorts were short of has come later.

A stream that brings fewer rows than usual may hold some back, or there may be fewer: its newest cohorts do not show
which. What became of earlier short cohorts does. One that had only fewer rows gets few later, in proportion to those
that it had; one whose rows were late gets what it was short of besides.
"""

from __future__ import annotations

import numpy as np

from tidemark.models.figures import format_number
from tidemark.models.live_defaults import (
    SHORT_COUNTS_AFTER_SPANS,
    SHORT_FOLLOWED_SPANS,
    SHORT_HALF_LIFE,
    SHORT_PRIOR_SPANS,
)
from tidemark.models.operators import Int64s
from tidemark.models.policies.ages import Float64s
from tidemark.models.policies.learned import Arrays, checked


class ShortCohorts:
    """Follows cohorts that were found short, for some time and also when they are closed meanwhile.

    Args:
        granule_us: width of a cohort in microseconds.
        cohorts: cohorts in a span.
    """

    def __init__(self, granule_us: int, cohorts: int) -> None:
        span_us = cohorts * granule_us
        self._counts_after_us = round(SHORT_COUNTS_AFTER_SPANS * span_us)
        self._followed_us = round(SHORT_FOLLOWED_SPANS * span_us)
        self._decay = 0.5 ** (1 / (SHORT_HALF_LIFE * cohorts))
        self._share = self._cohorts = SHORT_PRIOR_SPANS * cohorts
        """Shares that came, summed over the cohorts that are no longer followed, and how many these are."""
        self.share_to_come = 1.0
        """The share of what a cohort is short of that is expected to come."""
        self._newest_us = -(2**62)
        self.start_us: Int64s = np.empty(0, np.int64)
        """Starts of the cohorts that are followed, ascending, shape (followed,)."""
        self._since_us: Int64s = np.empty(0, np.int64)
        """Since when each is followed, shape (followed,)."""
        self._rows: Float64s = np.empty(0)
        """Rows of each when it was found short, shape (followed,); below also."""
        self._delivered: Float64s = np.empty(0)
        """Share of its rows that a cohort of that age has usually delivered."""
        self._short: Float64s = np.empty(0)
        self._came: Float64s = np.empty(0)
        """Rows that have come since."""

    def add(self, start_us: Int64s, count: Int64s) -> None:
        """Count rows by the start of their cohort, shape (counts,) each."""
        if not len(self.start_us):
            return
        at = np.minimum(np.searchsorted(self.start_us, start_us), len(self.start_us) - 1)
        followed = self.start_us[at] == start_us
        self._came += np.bincount(at[followed], count[followed], len(self._came))

    def follow(
        self, now_us: int, start_us: Int64s, rows: Int64s, delivered: Float64s, short: Float64s
    ) -> None:
        """Follow those of the cohorts that are newer than all that were followed before.

        Args:
            now_us: wall time in microseconds.
            start_us: starts of the cohorts, ascending, shape (cohorts,).
            rows: rows of each that have come, shape (cohorts,).
            delivered: share of its rows that each has usually delivered by now, shape (cohorts,).
            short: rows that each is short of, above 0, shape (cohorts,).
        """
        new = start_us > self._newest_us
        if not new.any():
            return
        start_us = start_us[new]
        self._newest_us = int(start_us[-1])
        self.start_us = np.append(self.start_us, start_us)
        self._since_us = np.append(self._since_us, np.full(len(start_us), now_us))
        self._rows = np.append(self._rows, rows[new])
        self._delivered = np.append(self._delivered, delivered[new])
        self._short = np.append(self._short, short[new])
        self._came = np.append(self._came, np.zeros(len(start_us)))

    def judge(self, now_us: int, delivered: Float64s, withheld_us: Int64s) -> None:
        """Learn what has come of the cohorts that have been followed for some time.

        Args:
            now_us: wall time in microseconds.
            delivered: share of its rows that each followed cohort has usually delivered by now, shape (followed,).
            withheld_us: starts of cohorts that are no longer followed: silent partitions withhold rows of them.
        """
        followed_us = now_us - self._since_us
        counts = (followed_us >= self._counts_after_us) & ~np.isin(self.start_us, withheld_us)
        fewer = self._rows * (delivered / np.maximum(self._delivered, 1e-9) - 1)
        share = np.clip((self._came - fewer) / self._short, 0, 1)
        done = counts & (followed_us >= self._followed_us)
        decay = self._decay ** int(done.sum())
        self._share = self._share * decay + float(share[done].sum())
        self._cohorts = self._cohorts * decay + int(done.sum())
        counts &= ~done
        self.share_to_come = (self._share + float(share[counts].sum())) / (self._cohorts + int(counts.sum()))
        left = ~done & ~np.isin(self.start_us, withheld_us)
        if not left.all():
            self.start_us, self._since_us = self.start_us[left], self._since_us[left]
            self._rows, self._delivered = self._rows[left], self._delivered[left]
            self._short, self._came = self._short[left], self._came[left]

    def learned(self) -> Arrays:
        """Return the sums."""
        return {"share": np.array(self._share), "cohorts": np.array(self._cohorts)}

    def resume(self, learned: Arrays) -> None:
        """Go on with sums.

        Raises:
            ValueError: when they are not of this form.
        """
        checked(learned, {"share": (), "cohorts": ()})
        share, cohorts = float(learned["share"]), float(learned["cohorts"])
        if not 0 <= share <= cohorts or not cohorts:
            raise ValueError(f"short cohorts: {format_number(share)} of {format_number(cohorts)} is no share")
        self._share, self._cohorts = share, cohorts
        self.share_to_come = share / cohorts
