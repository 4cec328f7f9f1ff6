"""A stream whose driver is killed and starts again, as its fast policy sees it: late rows, and how long windows wait.

As in Spark, the driver answers while the next batch is planned. The batch after that emits under the answer, and late
rows are those under the watermark of the batch before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tidemark.models.base.operators import TimeWindow
from tidemark.models.live.defaults import HISTORY_BATCHES
from tidemark.models.live.fast import FastPolicy, Order
from tidemark.models.live.history import learned_from
from tidemark.models.live.learned import Learned, unpacked
from tidemark.models.live.policy import Setup
from tidemark.models.protocol.messages import Report

from support.fast_streams import CEILING_US, TEN_SECONDS, newest_granules
from support.streams import SECOND, report_of
from support.synthetic import Trace

__all__ = ["Kept", "Outcome", "restarted"]

GRANULE_US = SECOND

Kept = Literal["nothing", "learned", "reports"]
"""What outlives a driver: what its policy has learned, in the checkpoint; or the reports alone, at the controller."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the rows and windows from the restart on."""

    rows: int
    """Rows read."""
    late: int
    """Of these, late."""
    wait_s: float
    """Mean time from a window's end to its emission, in seconds; open windows wait until the end."""
    windows: int
    """Windows with rows."""
    overall: float
    """Share of the rows that were admitted, from the first run's beginning on."""

    @property
    def completeness(self) -> float:
        """Share of the rows that were admitted."""
        return 1 - self.late / self.rows


def restarted(
    trace: Trace,
    order: Order,
    *,
    killed_s: int,
    down_s: int,
    keep: Kept,
    operator: TimeWindow = TEN_SECONDS,
    rows_a_batch: int | None = None,
) -> Outcome:
    """Run a stream through a restart.

    Args:
        trace: the rows.
        order: what the stream has to do.
        killed_s: when the driver is killed, in seconds from the first row's arrival.
        down_s: for how long it is away, in seconds; rows wait in the source meanwhile.
        keep: what the next driver goes on with.
        operator: the window.
        rows_a_batch: how many rows a batch reads at most; None for all there are. The source does not tell its backlog.
    """
    begin_us = int(trace.arrival_time_us[0]) // SECOND * SECOND
    killed_us, again_us = begin_us + killed_s * SECOND, begin_us + (killed_s + down_s) * SECOND
    end_us = int(trace.arrival_time_us[-1]) + SECOND
    run = _Run(trace, order, operator, rows_a_batch)
    run.until(begin_us, killed_us)
    kept, bases_us = run.kept(keep), run.policy.partitions.bases_us
    run.policy = FastPolicy(operator, CEILING_US)
    if kept is not None:
        run.policy.resume(unpacked(kept.packed()))
    run.policy.restore(bases_us, run.offered_us, again_us)
    run.fresh_us = again_us
    before = run.late, run.read
    run.until(again_us, end_us)
    ends = operator.keys(trace.event_time_us[before[1] : run.read])[1]
    windows = np.unique(ends)
    windows = windows[(windows > killed_us) & (windows < end_us)]
    waits = [(run.emitted_us.get(int(window), end_us) - int(window)) / SECOND for window in windows]
    return Outcome(
        rows=run.read - before[1],
        late=run.late - before[0],
        wait_s=float(np.mean(waits)),
        windows=len(windows),
        overall=1 - run.late / run.read,
    )


class _Run:
    def __init__(self, trace: Trace, order: Order, operator: TimeWindow, rows_a_batch: int | None) -> None:
        self.trace, self.order, self.operator = trace, order, operator
        self.rows_a_batch = rows_a_batch
        self.policy = FastPolicy(operator, CEILING_US)
        self.reports: list[Report] = []
        self.read = self.late = 0
        self.offered_us = self.next_us = self.in_force_us = 0
        self.fresh_us: int | None = None
        self.emitted_us: dict[int, int] = {}
        self._open: set[int] = set()

    def kept(self, keep: Kept) -> Learned | None:
        if keep != "reports":
            return self.policy.learned() if keep == "learned" else None
        assert self.order.target_ppm is not None
        setup = Setup(operator=self.operator, trigger_us=SECOND, target_ppm=self.order.target_ppm)
        return learned_from(self.reports[-HISTORY_BATCHES:], setup, CEILING_US)

    def until(self, first_us: int, end_us: int) -> None:
        for now_us in range(first_us, end_us, SECOND):
            self._batch(now_us)

    def _batch(self, now_us: int) -> None:
        late_us, self.in_force_us, self.next_us = self.in_force_us, self.next_us, self.offered_us
        end = int(np.searchsorted(self.trace.arrival_time_us, now_us))
        if self.rows_a_batch is not None:
            end = min(end, self.read + self.rows_a_batch)
        event_us, partition = self.trace.event_time_us[self.read : end], self.trace.partition[self.read : end]
        keys = self.operator.keys(event_us)[1]
        self.late += int((keys <= late_us).sum())
        self._open.update(keys[keys > late_us].tolist())
        self.read = end
        rows = [(str(part), time) for part, time in zip(partition.tolist(), event_us.tolist(), strict=True)]
        report = report_of(
            rows,
            self.operator,
            late_watermark_ms=0,
            granule_us=GRANULE_US,
            started_us=now_us,
            watermark_ms=self.in_force_us // 1_000,
            max_event_time_us=max((time for _, time in rows), default=None),
        )
        representative = self.fresh_us is None or now_us > self.fresh_us + 2 * SECOND
        self.reports.append(replace(report, batch_id=len(self.reports)))
        newest = newest_granules(rows, self.operator, GRANULE_US)
        self.policy.observe(report, newest, {}, SECOND, self.order, representative=representative)
        for window in [each for each in self._open if each <= self.in_force_us]:
            self.emitted_us[window] = now_us + SECOND
            self._open.discard(window)
        wanted = self.policy.decide(now_us + SECOND, self.order, in_force_us=now_us + 2 * SECOND).watermark_us
        self.offered_us = max(self.offered_us, wanted or 0)
