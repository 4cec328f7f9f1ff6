"""Totals of the stream by span: what is too little in each cohort to be beyond chance may be beyond it in ten.

Delays that grow by less than a silence, of a stream with few rows or with rows in packs, show here first.
"""

from __future__ import annotations

import numpy as np

from tidemark.models.live_defaults import MISSING_DEVIATIONS, UNEVENNESS_HALF_LIFE, UNEVENNESS_PRIOR_SPANS
from tidemark.models.operators import Int64s
from tidemark.models.policies.ages import Float64s
from tidemark.models.policies.learned import Arrays
from tidemark.models.policies.unevenness import Unevenness

_ALL = np.ones(1, bool)


class SpanTotals:
    """Finds spans of which the stream is short.

    Args:
        granule_us: width of a cohort in microseconds.
        cohorts: cohorts in a span.
    """

    def __init__(self, granule_us: int, cohorts: int) -> None:
        self._span_us = granule_us * cohorts
        self._cohorts = cohorts
        self._unevenness = Unevenness(UNEVENNESS_HALF_LIFE, UNEVENNESS_PRIOR_SPANS, cohorts)
        # The span whose cohorts are being closed.
        self._span: int | None = None
        self._closed = 0
        self._rows = 0
        self._expected = 0.0

    def learned(self) -> Arrays:
        """Return how uneven spans are."""
        return self._unevenness.learned()

    def resume(self, learned: Arrays) -> None:
        """Go on with what an earlier run learned.

        Raises:
            ValueError: when it is not of this form.
        """
        self._unevenness.resume(learned)

    def raise_missing(self, missing: Float64s, start_us: Int64s, totals: Int64s, expected: Float64s) -> None:
        """Raise what cohorts are missing to what their span is short of, where that is more by more than chance.

        Args:
            missing: rows that each cohort is missing, changed in place, shape (cohorts,).
            start_us: starts of the open cohorts, ascending, shape (cohorts,).
            totals: rows of each that have come, shape (cohorts,).
            expected: rows of each that are expected to have come by now, shape (cohorts,).
        """
        span = start_us // self._span_us
        first = np.flatnonzero(np.diff(span, prepend=span[0] - 1))
        short = np.add.reduceat(expected - totals, first)
        chance = MISSING_DEVIATIONS * np.sqrt(self._unevenness.ratio * np.add.reduceat(expected, first))
        found = short - np.add.reduceat(missing, first) > chance
        if not found.any():
            return
        # Each cohort has its part of what the span is short of; those that have more than expected have none.
        part = np.maximum(expected - totals, 0)
        scale = np.where(found, short / np.maximum(np.add.reduceat(part, first), 1e-9), 0)
        np.maximum(missing, part * np.repeat(scale, np.diff(first, append=len(span))), out=missing)

    def close(self, start_us: Int64s, totals: Int64s, expected: float) -> None:
        """Learn from cohorts that are closed, and seen whole, how uneven spans are.

        Args:
            start_us: starts of the cohorts, ascending, later than those closed before, shape (cohorts,).
            totals: rows of each, shape (cohorts,).
            expected: rows that were expected of each.
        """
        for span, rows in zip((start_us // self._span_us).tolist(), totals.tolist(), strict=True):
            if span != self._span:
                if self._closed == self._cohorts:
                    self._unevenness.add(np.array([[self._rows]]), np.array([self._expected]), _ALL)
                self._span, self._closed, self._rows, self._expected = span, 0, 0, 0.0
            self._closed += 1
            self._rows += rows
            self._expected += expected
