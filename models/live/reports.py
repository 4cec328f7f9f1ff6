"""What a policy observes of a report: in the driver and the controller the same as in the backtest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidemark.models.base.granules import SPARK_TICK_US, granule_first_us, granule_last_us
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.key_counts import cells_of
from tidemark.models.evidence.misdated import separate_misdated
from tidemark.models.evidence.needs import needs_us
from tidemark.models.live.policy import NO_BASE_US, Observation
from tidemark.models.protocol.messages import Report


class PartitionBases:
    """The partitions of one stream, numbered in order of appearance, and how far each has come.

    Args:
        names: partitions that have appeared before, in order of their numbers.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        self._numbers = {name: number for number, name in enumerate(names)}
        self._base_us: Int64s = np.empty(0, np.int64)

    @property
    def names(self) -> tuple[str, ...]:
        """The partitions in order of their numbers."""
        return tuple(self._numbers)

    @property
    def base_us(self) -> Int64s:
        """Maximum event time of each partition, to the granule, shape (partitions,)."""
        return self._base_us.copy()

    def take(self, report: Report) -> Int64s:
        """Take a batch; batches come in order. Return the number of each of the report's partitions, shape (n,)."""
        names = report.counts.partitions
        number = np.array([self._numbers.setdefault(name, len(self._numbers)) for name in names], np.int64)
        new = len(self._numbers) - len(self._base_us)
        base = np.append(self._base_us, np.full(new, NO_BASE_US, np.int64))
        newest = np.array([(place, last) for place, _, last in report.counts.edges()], np.int64).reshape(
            -1, 2
        )
        last_us = granule_last_us(newest[:, 1], report.granule_us, report.closed)
        if report.max_event_time_us is not None:
            last_us = np.minimum(last_us, report.max_event_time_us)
        which = number[newest[:, 0]]
        base[which] = np.maximum(base[which], last_us)
        self._base_us = base
        return number


def observation_of(report: Report, bases: PartitionBases, late_base_ms: int | None) -> Observation:
    """Return what a policy observes of ``report``, as of its trigger.

    A partition's base is known to the granule. Rows without an event time, misdated
    rows, and rows that were not counted by granule, are left out.

    Args:
        report: the report; those of a stream are given in order, each once.
        bases: the stream's partitions so far; it takes the report.
        late_base_ms: the stream's base that the batch's late filter used, in milliseconds; None when there was none.
            Then the needs are against ``NO_BASE_US``.
    """
    number = bases.take(report)
    separated = separate_misdated(report, late_base_ms)
    cells = cells_of(report) if separated is None else separated[0]
    if not cells.partitions:
        return Observation(report.started_us)
    first_us = granule_first_us(cells.granules, report.granule_us, report.closed)
    row, key = report.operator.keys(first_us)
    partition = number[cells.parts[row]]
    base_us = NO_BASE_US if late_base_ms is None else late_base_ms * SPARK_TICK_US
    return Observation(
        now_us=report.started_us,
        partition=partition,
        key_us=key,
        event_us=first_us[row],
        count=cells.counts[row],
        need_us=needs_us(key, base_us, SPARK_TICK_US),
        base_us=bases.base_us,
    )
