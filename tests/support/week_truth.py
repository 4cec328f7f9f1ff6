"""What really became of the rows of a simulated week: from the rows and the watermarks alone, by none of our code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Operator, SessionWindow, TimeWindow

from support.synthetic import Rows, Trace
from support.week_job import Batch, WeekJob
from support.week_streams import START_US, STEP_S, draw

__all__ = ["Spent", "Truth", "admitted_by"]

Int64s = NDArray[np.int64]
PPM = 1_000_000
_MINUTE_MS, _HOUR_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000


def keys_of(operator: Operator, times_us: Int64s) -> Int64s:
    """Return what Spark compares with the watermark, for each row the same number of keys, shape (keys, rows)."""
    match operator:
        case TimeWindow():
            opened = times_us // operator.slide_us * operator.slide_us
            windows = range(1, operator.size_us // operator.slide_us + 1)
            return np.stack([opened + each * operator.slide_us for each in windows])
        case SessionWindow():
            return times_us[np.newaxis] + operator.gap_us
        case _:
            return times_us[np.newaxis]


@dataclass(frozen=True, slots=True)
class Spent:
    """What counted for a budget, and was bad."""

    counted: int
    bad: int
    share_ppm: int
    """Share that has to be good."""
    missing: int
    """Batches without a report."""

    @property
    def missed(self) -> bool:
        """Whether the SLO was missed."""
        return self.bad > self.counted * (PPM - self.share_ppm) // PPM


class Truth:
    """The truth of one stream up to now."""

    def __init__(self, job: WeekJob) -> None:
        self._job = job
        self._batches = job.batches
        sizes = [batch.last - batch.first for batch in job.batches]
        of_row = np.repeat(np.arange(len(sizes)), sizes)
        keys_us = keys_of(job.made.operator, job.made.trace.event_time_us[: len(of_row)])
        late_us = np.array([batch.late_ms for batch in job.batches], np.int64) * 1_000
        self._late = keys_us <= late_us[of_row]
        self._keys_us, self._of_row = keys_us, of_row
        self._reported = np.array([batch.reported for batch in job.batches], bool)[of_row]

    @property
    def late(self) -> int:
        """Late rows, or (row, window) pairs, in all."""
        return int(self._late.sum())

    @property
    def windows(self) -> dict[int, tuple[int, int]]:
        """Rows and late rows by key, of batches with a report; keys that are no windows by the end of their minute."""
        keys_us = self._keys_us[:, self._reported].ravel()
        if self._job.made.operator.kind != "window":
            keys_us = -(-keys_us // 60_000_000) * 60_000_000
        found, position = np.unique(keys_us, return_inverse=True)
        rows = np.bincount(position)
        late = np.bincount(position, self._late[:, self._reported].ravel())
        return {
            key: (int(all_of), int(late_of))
            for key, all_of, late_of in zip(found.tolist(), rows, late, strict=True)
        }

    @property
    def newest(self) -> Batch:
        """The newest batch with a report."""
        return max(
            (each for each in self._batches if each.reported), key=lambda each: (each.seen_us, each.number)
        )

    def spent(self) -> Spent:
        """Return what counts for the budget: back from the newest batch, from the edge of a minute or an hour on."""
        slo = self._job.made.slo
        edge_us = (_MINUTE_MS if slo["window_ms"] <= 2 * _DAY_MS else _HOUR_MS) * 1_000
        from_us = (self.newest.seen_us - slo["window_ms"] * 1_000) // edge_us * edge_us
        within = [each for each in self._batches if each.seen_us >= from_us and each.reported]
        numbers = [each.number for each in within]
        missing = max(numbers) - min(numbers) + 1 - len(numbers)
        if slo["objective"] == "timeslices":
            until_us = self.newest.mark_ms * 1_000
            closed = [
                late * PPM <= (PPM - slo["target_ppm"]) * rows
                for end_us, (rows, late) in self.windows.items()
                if until_us - slo["window_ms"] * 1_000 < end_us <= until_us
            ]
            return Spent(len(closed), len(closed) - sum(closed), 990_000, missing)
        inside = np.zeros(len(self._batches), bool)
        inside[[each.number for each in within]] = True
        late = self._late[:, inside[self._of_row]]
        return Spent(late.size, int(late.sum()), slo["target_ppm"], missing)


def admitted_by(kind: Callable[..., Rows], operator: Operator, lasting_s: float) -> Callable[[int], float]:
    """Return the share of a kind's rows that a bound in milliseconds admits, over many streams of the kind.

    Its delays are the same all the time, so that this is the share that a certificate is about.
    """
    needs_us = np.sort(
        np.concatenate([_needs_us(draw(kind, 10_000 + n, lasting_s), operator) for n in range(20)])
    )
    return lambda bound_ms: float(np.searchsorted(needs_us, bound_ms * 1_000) / len(needs_us))


def _needs_us(trace: Trace, operator: Operator) -> Int64s:
    """Return which bound each row needs, but those of the first two batches, of which none is late."""
    of_row = (trace.arrival_time_us - START_US) // (STEP_S * 1_000_000)
    newest_us = np.full(int(of_row.max()) + 1, np.iinfo(np.int64).min)
    np.maximum.at(newest_us, of_row, trace.event_time_us)
    base_us = np.maximum.accumulate(newest_us)
    judged = of_row >= 2
    keys_us = keys_of(operator, trace.event_time_us[judged])
    needs_us: Int64s = (base_us[of_row[judged] - 2] - keys_us).ravel()
    return needs_us
