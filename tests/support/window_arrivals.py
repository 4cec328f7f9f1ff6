"""Windows of a trace as a controller would know them after each batch: rows by age, partitions, and the truth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tidemark.models.base.operators import Int64s
from tidemark.models.completeness.ages import SLOTS, slot_of
from tidemark.models.completeness.arrivals import WindowArrivals
from tidemark.models.completeness.silent import PartitionProgress
from tidemark.models.evidence.misdated import MAX_AHEAD_US
from tidemark.models.evidence.progress import PartitionTimes

from support.synthetic import Trace


@dataclass
class Windows:
    """Windows of a trace, batch by batch."""

    trace: Trace
    window_us: int
    trigger_us: int
    seen_us: int = 0
    """Trigger time of the newest batch."""
    base_us: int = -(2**62)
    ends_us: Int64s = field(init=False)
    """End of each window, from the first row's to the last row's that is not from the future."""
    final: Int64s = field(init=False)
    """Rows that each has in the end."""

    def __post_init__(self) -> None:
        event_us, arrival_us, partition = self.trace
        right = event_us <= arrival_us + MAX_AHEAD_US
        # Some clocks are behind all the time, which a controller learns (``Clocks``).
        self._right = right if right.mean() > 1 / 2 else np.ones(len(event_us), bool)
        place = event_us // self.window_us
        self._first = int(place.min())
        self._count = int(place[self._right].max()) - self._first + 1
        self.ends_us = (np.arange(self._count) + self._first + 1) * self.window_us
        self._place = np.where(self._right, place - self._first, -1)
        self.final = np.bincount(self._place[self._right], minlength=self._count)
        batch = (arrival_us - arrival_us[0]) // self.trigger_us
        self._edges = np.r_[0, np.flatnonzero(np.diff(batch)) + 1, len(batch)]
        self._seen_us = arrival_us[0] + (batch[self._edges[:-1]] + 1) * self.trigger_us
        self._rows = np.zeros((self._count, SLOTS), np.int64)
        count = int(partition.max()) + 1
        self._times = np.zeros((4, count), np.int64)
        """First batch, newest batch, batches and rows of each partition."""
        self._newest_us = np.full((2, count), -(2**62))
        """Newest event time of each, and how far behind it was."""

    def batches(self) -> Iterator[int]:
        """Yield after each batch its number."""
        event_us, _, partition = self.trace
        for number, (low, high) in enumerate(zip(self._edges[:-1], self._edges[1:], strict=True)):
            inside = slice(low, high)
            right = self._right[inside]
            event, parts, place = (
                event_us[inside][right],
                partition[inside][right],
                self._place[inside][right],
            )
            self.seen_us = int(self._seen_us[number])
            if len(event):
                self.base_us = max(self.base_us, int(event.max()))
                slot = slot_of(self.base_us - self.ends_us[place], self.window_us)
                np.add.at(self._rows, (place, slot), 1)
                self._add_partitions(parts, event)
            yield number

    def _add_partitions(self, parts: Int64s, event_us: Int64s) -> None:
        present, rows = np.unique(parts, return_counts=True)
        times = self._times
        times[0, present] = np.where(times[2, present] > 0, times[0, present], self.seen_us)
        times[1, present] = self.seen_us
        times[2, present] += 1
        times[3, present] += rows
        np.maximum.at(self._newest_us[0], parts, event_us)
        self._newest_us[1, present] = self.base_us - self._newest_us[0, present]

    def rows_of(self, place: int) -> int:
        """Return the rows of a window so far."""
        return int(self._rows[place].sum())

    def arrivals(self, place: int) -> WindowArrivals:
        """Return the windows up to the newest one, or up to one that is newer."""
        newest = int(np.searchsorted(self.ends_us, self.base_us))
        return WindowArrivals(
            span_us=self.window_us,
            step_us=self.window_us,
            first_end_us=int(self.ends_us[0]),
            base_us=self.base_us,
            gap_us=self.trigger_us,
            rows=self._rows[: max(place, newest) + 1],
        )

    def partitions(self) -> list[PartitionProgress]:
        """Return how far the partitions have come."""
        times, newest = self._times, self._newest_us
        every = times[3].sum()
        return [
            PartitionProgress(
                partition=str(number),
                share=float(times[3, number] / every),
                newest_us=int(newest[0, number]),
                behind_us=int(newest[1, number]),
                times=PartitionTimes(int(times[0, number]), int(times[1, number]), int(times[2, number])),
            )
            for number in np.flatnonzero(times[2])
        ]
