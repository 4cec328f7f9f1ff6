"""Missing rows: rows that should have arrived by now and have not, by cohort of event time.

A stall or a burst of delay shows in rows that are absent, before the first late row comes: of n rows a cohort, a
partition has delivered a known share by each age. A cohort that is short of its forecast by more than
chance and its partition's own unevenness allow is missing rows, and they are counted here. Forecasts forget, so that
a stream that ends or slows down is not waited for long.
"""

from __future__ import annotations

import numpy as np

from tidemark.models.live_defaults import (
    FORECAST_HALF_LIFE,
    FUTURE_COHORTS,
    MAX_COHORTS,
    MISSING_DEVIATIONS,
    PROFILE_HALF_LIFE,
    UNEVENNESS_CEILING,
    UNEVENNESS_COHORTS,
)
from tidemark.models.operators import Int64s
from tidemark.models.policies.ages import BUCKETS, WIDE, Float64s, bucket_of

_STREAM = 0
"""Row and column of the whole stream; partition p is p + 1."""


class Missing:
    """Forecasts and counts of cohorts that are still open.

    Args:
        granule_us: width of a cohort in microseconds.
        trigger_us: the trigger in microseconds.
        span_triggers: the stream's own unit of time, in triggers.
    """

    def __init__(self, granule_us: int, trigger_us: int, span_triggers: float) -> None:
        self._granule_us = granule_us
        self._trigger_us = trigger_us
        self._decay = 0.5 ** (1 / (FORECAST_HALF_LIFE * span_triggers))
        self._profile_decay = 0.5 ** (1 / (PROFILE_HALF_LIFE * span_triggers))
        self._cohorts_per_trigger = trigger_us / granule_us
        self._profile = np.zeros((1, BUCKETS), np.float32)
        self._rows = np.zeros(1)
        self._cohorts = 0.0
        self._unevenness = np.ones(1)
        self.start_us: Int64s = np.empty(0, np.int64)
        """Starts of the open cohorts, ascending without a gap, shape (cohorts,)."""
        self._counts = np.zeros((0, 1))
        self._done_us = -(2**62)
        self._whole_from_us: int | None = None

    def advance(self, triggers: int) -> None:
        """Let ``triggers`` pass."""
        decay = self._decay**triggers
        self._profile *= np.float32(self._profile_decay**triggers)
        self._rows *= decay
        self._cohorts = self._cohorts * decay + (1 - decay) / (1 - self._decay) * self._cohorts_per_trigger

    def add(self, now_us: int, partition: Int64s, start_us: Int64s, count: Int64s) -> None:
        """Count rows, each once.

        Args:
            now_us: wall time of their batch.
            partition: partition of each count, shape (counts,).
            start_us: start of the cohort of each count, shape (counts,).
            count: rows, shape (counts,).
        """
        self._know_partitions(int(partition.max()) + 1)
        if self._whole_from_us is None:
            # Cohorts already under way when the stream was first seen are incomplete.
            begun = start_us[start_us <= now_us]
            self._whole_from_us = (int(begun.max()) if len(begun) else now_us) + self._granule_us
        self._learn(now_us, partition, start_us, count)
        open_ = (start_us > self._done_us) & (start_us <= now_us + FUTURE_COHORTS * self._granule_us)
        if not open_.any():
            return
        self._open_cohorts(int(start_us[open_].min()), int(start_us[open_].max()))
        at = (start_us[open_] - self.start_us[0]) // self._granule_us
        inside = at >= 0
        at, rows = at[inside], count[open_][inside]
        np.add.at(self._counts, (at, partition[open_][inside] + 1), rows)
        np.add.at(self._counts, (at, np.full(len(at), _STREAM)), rows)

    def _learn(self, now_us: int, partition: Int64s, start_us: Int64s, count: Int64s) -> None:
        """Learn the usual rows from cohorts that were seen whole: an earlier backlog does not show the pace."""
        whole = start_us >= (self._whole_from_us or 0)
        partition, rows = partition[whole], count[whole]
        bucket = bucket_of((now_us - start_us[whole]) / self._trigger_us)
        np.add.at(self._profile, (partition + 1, bucket), rows)
        self._profile[_STREAM] += np.bincount(bucket, weights=rows, minlength=BUCKETS).astype(np.float32)
        self._rows += np.bincount(partition + 1, weights=rows, minlength=len(self._rows))
        self._rows[_STREAM] += rows.sum()

    def shortfall(self, now_us: int) -> Float64s:
        """Return how many rows each open cohort is missing, 0 within what chance allows, shape (cohorts,).

        Cohorts without any row are open too, up to the wall clock: when all partitions are silent, their rows are
        missing.
        """
        if not len(self.start_us):
            return np.empty(0)
        newest_us = now_us - (now_us - int(self.start_us[0])) % self._granule_us
        self._open_cohorts(int(self.start_us[0]), newest_us)
        delivered = np.cumsum(self._profile, axis=1, dtype=np.float64)
        share = delivered / np.maximum(delivered[:, -1:], 1e-9)
        at = bucket_of((now_us - self.start_us) / self._trigger_us)
        # Inside a wide bucket, rows that belong to it may still come.
        by_now = np.where(WIDE[at], share[:, np.maximum(at - 1, 0)], share[:, at]).T
        expected = by_now * self._forecast()
        short = expected - self._counts
        allowed = MISSING_DEVIATIONS * np.sqrt(np.maximum(self._unevenness, 1) * expected)
        whole = self.start_us >= (self._whole_from_us or 0)
        short = np.where((short > allowed) & whole[:, None], short, 0)
        # A stall of one partition shows in that partition first, a burst over all of them in the sum.
        missing: Float64s = np.maximum(short[:, _STREAM], short[:, 1:].sum(axis=1))
        return missing

    def close(self, until_us: int) -> None:
        """Forget the cohorts that start before ``until_us``, and learn from them how uneven cohorts are."""
        closed = int(np.searchsorted(self.start_us, until_us, side="left"))
        if not closed:
            return
        forecast = self._forecast()
        deviation = (self._counts[:closed] - forecast) ** 2 / np.maximum(forecast, 1)
        observed = np.minimum(deviation, UNEVENNESS_CEILING).mean(axis=0)
        decay = 0.5 ** (closed / UNEVENNESS_COHORTS)
        self._unevenness = self._unevenness * decay + observed * (1 - decay)
        self._done_us = max(self._done_us, int(self.start_us[closed - 1]))
        self.start_us, self._counts = self.start_us[closed:], self._counts[closed:]

    def _forecast(self) -> Float64s:
        forecast: Float64s = self._rows / max(self._cohorts, 1e-9)
        return forecast

    def _know_partitions(self, partitions: int) -> None:
        new = partitions + 1 - len(self._unevenness)
        if new > 0:
            self._profile = np.vstack([self._profile, np.zeros((new, BUCKETS), np.float32)])
            self._rows = np.concatenate([self._rows, np.zeros(new)])
            self._unevenness = np.concatenate([self._unevenness, np.ones(new)])
            self._counts = np.hstack([self._counts, np.zeros((len(self._counts), new))])

    def _open_cohorts(self, first_us: int, last_us: int) -> None:
        granule = self._granule_us
        if not len(self.start_us):
            first_us = max(first_us, last_us - (MAX_COHORTS - 1) * granule)
            self.start_us = np.arange(first_us, last_us + 1, granule)
            self._counts = np.zeros((len(self.start_us), len(self._unevenness)))
            return
        oldest_us = last_us - (MAX_COHORTS - 1) * granule
        before = np.arange(max(first_us, oldest_us), self.start_us[0], granule)
        after = np.arange(int(self.start_us[-1]) + granule, last_us + 1, granule)
        if not len(before) and not len(after):
            return
        width = len(self._unevenness)
        self.start_us = np.concatenate([before, self.start_us, after])
        self._counts = np.vstack(
            [np.zeros((len(before), width)), self._counts, np.zeros((len(after), width))]
        )
        surplus = len(self.start_us) - MAX_COHORTS
        if surplus > 0:
            self._done_us = max(self._done_us, int(self.start_us[surplus - 1]))
            self.start_us, self._counts = self.start_us[surplus:], self._counts[surplus:]
