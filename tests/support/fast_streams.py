"""Streams as the driver shows them to the fast policy, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidemark.models.base.granules import granule_index
from tidemark.models.base.operators import Operator, SessionWindow, row_level, session, tumbling
from tidemark.models.live.fast import FastPolicy, Order, WatermarkTarget

from support.streams import SECOND, Row, report_of

__all__ = [
    "CEILING_US",
    "NOW_US",
    "OPERATORS",
    "READ_TO_THE_END",
    "TEN_SECONDS",
    "FastStream",
    "floored",
    "newest_granules",
]

NOW_US = 1_767_225_600 * SECOND
CEILING_US = 7_200 * SECOND
TEN_SECONDS = tumbling("10 s")
OPERATORS: tuple[Operator, ...] = (TEN_SECONDS, session("7 s"), row_level())
READ_TO_THE_END: Mapping[str, int] = {}


def _granule(time_us: int, operator: Operator, granule_us: int) -> int:
    (index,) = granule_index(np.array([time_us], np.int64), granule_us, operator.closed).tolist()
    return int(index)


def newest_granules(rows: Iterable[Row], operator: Operator, granule_us: int) -> dict[str, int]:
    """Return the newest granule of each partition."""
    newest: dict[str, int] = {}
    for name, time_us in rows:
        index = _granule(time_us, operator, granule_us)
        newest[name] = max(index, newest.get(name, index))
    return newest


@dataclass
class FastStream:
    """A stream as the driver sees it: each batch is a report and the newest granule of each partition."""

    operator: Operator
    granule_us: int = 1_000
    trigger_us: int = SECOND
    idle_timeout_us: int | None = None
    now_us: int = NOW_US

    def __post_init__(self) -> None:
        self.policy = FastPolicy(self.operator, CEILING_US, self.idle_timeout_us)
        self.batches = 0

    def batch(
        self,
        rows: Iterable[Row],
        order: Order,
        backlog: Mapping[str, int] | None = READ_TO_THE_END,
        *,
        after_us: int = SECOND,
        ahead: Iterable[str] = (),
        watermark_ms: int = 0,
    ) -> None:
        """Show a batch; ``ahead`` names the partitions of future-dated rows, which the quarantine set back."""
        rows, clock_us = list(rows), self.now_us
        report = report_of(
            [*rows, *((name, clock_us) for name in ahead)],
            self.operator,
            late_watermark_ms=0,
            granule_us=self.granule_us,
            started_us=clock_us,
            batch_id=self.batches,
            watermark_ms=watermark_ms,
            min_event_time_us=min((time for _, time in rows), default=None),
            max_event_time_us=max((time for _, time in rows), default=None),
        )
        future = list(ahead)
        counts = replace(
            report.counts, future_rows=tuple(future.count(name) for name in report.counts.partitions)
        )
        newest = newest_granules(rows, self.operator, self.granule_us)
        self.policy.observe(replace(report, counts=counts), newest, backlog, self.trigger_us, order)
        self.batches += 1
        self.now_us += after_us

    def decide(self, order: Order) -> WatermarkTarget:
        return self.policy.decide(self.now_us, order, in_force_us=self.now_us + self.trigger_us)


def floored(watermark_us: int, operator: Operator, granule_us: int) -> int:
    """Return a watermark on the edge before it where the ledger is exact, in microseconds."""
    if operator == TEN_SECONDS:
        return watermark_us // 1_000 * 1_000
    reach_us = operator.gap_us if isinstance(operator, SessionWindow) else 0
    return (watermark_us - reach_us) // granule_us * granule_us + reach_us
