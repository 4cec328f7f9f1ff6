"""What a policy observes of a report: in the driver and the controller the same as in the backtest."""

from __future__ import annotations

from collections import deque

import numpy as np

from tidemark.models.granules import SPARK_TICK_US, granule_first_us, granule_last_us
from tidemark.models.needs import needs_us
from tidemark.models.operators import Int64s
from tidemark.models.policies.policy import NO_BASE_US, Observation
from tidemark.models.wire import Report

_NATIVE_DELAY = 2
"""Without Live the late filter of batch n, W(n-1), covers the rows of batches up to n-2."""


class PartitionBases:
    """The partitions of one stream, numbered in order of appearance, and how far each has come.

    Args:
        delay: by how many batches the newest base that a batch's late filter can use precedes the batch.
    """

    def __init__(self, delay: int = _NATIVE_DELAY) -> None:
        self._numbers: dict[str, int] = {}
        self._base_us: Int64s = np.empty(0, np.int64)
        self._known = deque([self._base_us] * delay, delay)

    @property
    def names(self) -> tuple[str, ...]:
        """The partitions in order of their numbers."""
        return tuple(self._numbers)

    @property
    def base_us(self) -> Int64s:
        """Maximum event time of each partition, to the granule, shape (partitions,)."""
        return self._base_us.copy()

    def take(self, report: Report) -> tuple[list[int], Int64s]:
        """Take a batch; batches come in order.

        Returns:
            ``(number, late_us)``: the number of each of the report's partitions, and for every partition the base that
            the batch's late filter can have used, ``NO_BASE_US`` where there was none, shape (partitions,).
        """
        number = [self._numbers.setdefault(part.partition, len(self._numbers)) for part in report.partitions]
        base = _extended(self._base_us, len(self._numbers))
        for index, part in zip(number, report.partitions, strict=True):
            if part.granules:
                newest = np.array(part.granules[-1:], np.int64)
                last_us = int(granule_last_us(newest, report.granule_us, report.closed)[0])
                if report.max_event_time_us is not None:
                    last_us = min(last_us, report.max_event_time_us)
                base[index] = max(int(base[index]), last_us)
        late = _extended(self._known[0], len(self._numbers))
        self._known.append(base)
        self._base_us = base
        return number, late


def observation_of(report: Report, bases: PartitionBases, late_base_ms: int | None) -> Observation:
    """Return what a policy observes of ``report``, as of its trigger.

    A partition's base, and with it the needs against it, is known to the granule. Rows without an event time, and rows
    that were not counted by granule, are left out.

    Args:
        report: the report; those of a stream are given in order, each once.
        bases: the stream's partitions so far; it takes the report.
        late_base_ms: the stream's base that the batch's late filter used, in milliseconds; None when there was none.
            Then the needs are against ``NO_BASE_US``.
    """
    number, late_us = bases.take(report)
    if not report.partitions:
        return Observation(report.started_us)
    partitions, events, keys, counts = [], [], [], []
    for index, part in zip(number, report.partitions, strict=True):
        first = granule_first_us(np.asarray(part.granules, np.int64), report.granule_us, report.closed)
        row, key = report.operator.keys(first)
        partitions.append(np.full(len(row), index, np.int64))
        events.append(first[row])
        keys.append(key)
        counts.append(np.asarray(part.counts, np.int64)[row])
    partition, key = np.concatenate(partitions), np.concatenate(keys)
    base_us = NO_BASE_US if late_base_ms is None else late_base_ms * SPARK_TICK_US
    own_base_us = late_us[partition] // SPARK_TICK_US * SPARK_TICK_US
    return Observation(
        now_us=report.started_us,
        partition=partition,
        key_us=key,
        event_us=np.concatenate(events),
        count=np.concatenate(counts),
        need_us=needs_us(key, base_us, SPARK_TICK_US),
        own_need_us=needs_us(key, own_base_us, SPARK_TICK_US),
        base_us=bases.base_us,
    )


def _extended(base_us: Int64s, partitions: int) -> Int64s:
    return np.append(base_us, np.full(partitions - len(base_us), NO_BASE_US, np.int64))
