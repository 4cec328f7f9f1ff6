"""Counts a trace as ``Arrivals``, part by part, so that its rows need not fit into memory at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidemark.models.backtest.arrivals import (
    MINUTE_US,
    Arrivals,
    Int32s,
    Maxima,
    count_distinct,
    numbered,
    sum_distinct,
    sums,
)
from tidemark.models.base.granules import granule_first_us, granule_index
from tidemark.models.base.operators import Int64s, TimeWindow
from tidemark.models.live.policy import NO_BASE_US, Setup

_SCORED_PERCENT = 98
"""Windows that end after this percentile of the event times are not scored: the trace ends before they are complete."""

_MAX_STORED = 1_000_000
"""Highest event times stored one by one: the 98th percentile is exact up to 50 times as many rows."""


_Columns = tuple[NDArray[Any], ...]
"""Slot, partition, event time, key, minute and count, as ``Arrivals`` has them."""


class ArrivalsBuilder:
    """Counts a trace part by part, so that its rows need not fit into memory at once."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._first_us: int | None = None
        self._last_us = 0
        self._partitions = 0
        self._counts: list[_Columns] = []
        self._maxima: list[tuple[Int64s, Int32s, Int64s]] = []
        self._slot_rows: list[tuple[Int64s, Int64s]] = []
        self._percentile = _Percentile(setup.trigger_us)

    def add(
        self, event_time_us: Int64s, arrival_time_us: Int64s, partition: NDArray[np.integer], partitions: int
    ) -> None:
        """Count rows that arrived after those before.

        Raises:
            ValueError: when arrivals are not in order of their time.
        """
        if not len(arrival_time_us):
            return
        if self._first_us is None:
            self._first_us = self._last_us = int(arrival_time_us[0])
        if arrival_time_us[0] < self._last_us or (np.diff(arrival_time_us) < 0).any():
            raise ValueError("arrivals must come in order of their time")
        self._last_us = int(arrival_time_us[-1])
        self._partitions = max(self._partitions, partitions)
        self._percentile.add(event_time_us)
        slot = (arrival_time_us - self._first_us) // self._setup.trigger_us
        slots, start = np.unique(slot, return_index=True)
        rows = np.diff(start, append=len(slot))
        where = np.repeat(np.arange(len(slots)), rows)
        self._slot_rows.append((slots, rows))
        self._add_maxima(slots, where, partition, event_time_us)
        self._add_counts(slots, where, partition, event_time_us)

    def build(self) -> Arrivals:
        """Return the counts.

        Raises:
            ValueError: when there was no row.
        """
        if self._first_us is None:
            raise ValueError("there is no arrival")
        slot, partition, event_us, key_us, minute, count = self._joined_counts()
        occupied, rows = self._joined_slots()
        operator = self._setup.operator
        grid_us = operator.slide_us if isinstance(operator, TimeWindow) else 1
        keys, key_index = numbered(key_us, grid_us)
        minutes, minute_index = numbered(minute, 1)
        return Arrivals(
            slot=slot,
            partition=partition,
            event_us=event_us,
            key_us=key_us,
            minute=minute,
            count=count,
            key_index=key_index.astype(np.int32),
            minute_index=minute_index.astype(np.int32),
            keys_us=keys,
            pairs_by_key=sums(key_index, count, len(keys)),
            minutes=minutes,
            pairs_by_minute=sums(minute_index, count, len(minutes)),
            occupied=occupied,
            occupied_rows=rows,
            maxima=self._joined_maxima(occupied),
            first_us=self._first_us,
            last_us=self._last_us,
            slots=int(occupied[-1]) + 1,
            partitions=self._partitions,
            rows=int(rows.sum()),
            pairs=int(count.sum()),
            scored_until_us=self._percentile.value_us(),
        )

    def _add_maxima(
        self, slots: Int64s, where: Int64s, partition: NDArray[np.integer], event_time_us: Int64s
    ) -> None:
        cell = where * self._partitions + partition
        cells = len(slots) * self._partitions
        if cells > 4 * len(cell) + 1_000_000:
            cells_seen, cell = np.unique(cell, return_inverse=True)
            maxima = np.full(len(cells_seen), NO_BASE_US, np.int64)
            np.maximum.at(maxima, cell, event_time_us)
        else:
            dense = np.full(cells, NO_BASE_US, np.int64)
            np.maximum.at(dense, cell, event_time_us)
            cells_seen = np.flatnonzero(dense > NO_BASE_US)
            maxima = dense[cells_seen]
        index, part = np.divmod(cells_seen, self._partitions)
        self._maxima.append((slots[index], part.astype(np.int32), maxima))

    def _add_counts(
        self, slots: Int64s, where: Int64s, partition: NDArray[np.integer], event_time_us: Int64s
    ) -> None:
        operator, granule_us = self._setup.operator, self._setup.granule_us
        cell = where * self._partitions + partition
        if isinstance(operator, TimeWindow):
            (cell, granule, minute), count = count_distinct(
                cell, granule_index(event_time_us, granule_us, operator.closed), event_time_us // MINUTE_US
            )
            event = granule_first_us(granule, granule_us, operator.closed)
            # The windows follow from the granule, so they are computed once per granule, not per row.
            row, key = operator.keys(event)
            if operator.max_keys > 1:
                # By granule and window; the minutes stay in order. This sorts a few runs, one per window.
                place = np.cumsum(
                    (np.diff(cell, prepend=cell[0]) != 0) | (np.diff(event, prepend=event[0]) != 0)
                )
                latest = key[: len(event)]
                place = place[row] * operator.max_keys - (latest[row] - key) // operator.slide_us
                order = np.argsort(place, kind="stable")
                row, key = row[order], key[order]
                cell, event, minute, count = cell[row], event[row], minute[row], count[row]
        else:
            (cell, time), count = count_distinct(cell, event_time_us)
            event = granule_first_us(
                granule_index(time, granule_us, operator.closed), granule_us, operator.closed
            )
            key, minute = time + operator.span_us, time // MINUTE_US
        index, part = np.divmod(cell, self._partitions)
        self._counts.append((slots[index], part.astype(np.int32), event, key, minute, count))

    def _joined_counts(self) -> _Columns:
        """Join the parts; a slot that spans several of them is counted again over those."""
        joined = tuple(map(np.concatenate, zip(*self._counts, strict=True)))
        shared = [
            after[0][0]
            for before, after in zip(self._slot_rows, self._slot_rows[1:], strict=False)
            if before[0][-1] == after[0][0]
        ]
        if not shared:
            return joined
        again = np.isin(joined[0], shared)
        *columns, count = (column[again] for column in joined)
        summed, count = sum_distinct(tuple(columns), count)
        whole = [
            np.concatenate([column[~again], new.astype(column.dtype)])
            for column, new in zip(joined, (*summed, count), strict=True)
        ]
        order = np.argsort(whole[0], kind="stable")
        return tuple(column[order] for column in whole)

    def _joined_slots(self) -> tuple[Int64s, Int64s]:
        (slots,), rows = sum_distinct(
            (np.concatenate([slots for slots, _ in self._slot_rows]),),
            np.concatenate([rows for _, rows in self._slot_rows]),
        )
        return slots, rows

    def _joined_maxima(self, occupied: Int64s) -> Maxima:
        slot, partition, event_time = (
            np.concatenate([part[column] for part in self._maxima]) for column in range(3)
        )
        order = np.lexsort((event_time, partition, slot))
        slot, partition, event_time = slot[order], partition[order], event_time[order]
        last = np.append((np.diff(slot) != 0) | (np.diff(partition) != 0), True)
        return Maxima(
            np.searchsorted(occupied, slot[last]), partition[last].astype(np.int32), event_time[last]
        )


class _Percentile:
    """The 98th percentile of event times that come in parts.

    It holds the highest million one by one, and counts by trigger of all. The percentile is among the highest million
    while there are at most 50 million rows; beyond that, it is the end of its trigger.
    """

    def __init__(self, grid_us: int, max_stored: int = _MAX_STORED) -> None:
        self._grid_us = grid_us
        self._max_stored = max_stored
        self._rows = 0
        self._highest: list[Int64s] = []
        self._stored = 0
        self._cells: list[tuple[Int64s, Int64s]] = []

    def add(self, values: Int64s) -> None:
        self._rows += len(values)
        self._highest.append(values)
        self._stored += len(values)
        if self._stored > 2 * self._max_stored:
            highest = np.partition(np.concatenate(self._highest), -self._max_stored)[-self._max_stored :]
            self._highest, self._stored = [highest], len(highest)
        self._cells.append(np.unique(values // self._grid_us, return_counts=True))

    def value_us(self) -> int:
        below, parts = divmod(_SCORED_PERCENT * (self._rows - 1), 100)
        highest = np.sort(np.concatenate(self._highest))
        if len(highest) < self._rows:
            highest = highest[-self._max_stored :]  # values that were dropped may be higher than the rest
        at = below - (self._rows - len(highest))
        if at >= 0:
            value = int(highest[at])
            return value + (parts * (int(highest[at + 1]) - value) // 100 if parts else 0)
        (cell,), count = sum_distinct(
            (np.concatenate([cell for cell, _ in self._cells]),),
            np.concatenate([count for _, count in self._cells]),
        )
        above = below + (parts > 0)
        return int(cell[np.searchsorted(np.cumsum(count), above, side="right")] + 1) * self._grid_us - 1
