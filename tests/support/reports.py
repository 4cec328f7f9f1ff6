"""Reports as a whole query would send them, by Spark's watermark rule, for tests of what receives them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tidemark.models.operators import Operator, tumbling
from tidemark.models.wire import Report

from support.streams import SECOND, Row, report_of

__all__ = ["START_US", "exponential_batches", "query_reports"]

START_US = 1_767_225_600_000_000
"""2026-01-01 00:00 UTC: when the first batch of ``query_reports`` is triggered."""

TEN_SECONDS = tumbling("10 seconds")


def query_reports(
    batches: Sequence[Sequence[Row]],
    operator: Operator = TEN_SECONDS,
    *,
    bound_ms: int = 5_000,
    granule_us: int = SECOND,
    interval_us: int = SECOND,
    **changes: Any,
) -> list[Report]:
    """Return the reports of one run of a query from batch 0, one a batch, triggered every ``interval_us``.

    Batch n has the watermark of the batches before it less the bound, and judges by that of batch n-1.
    """
    maxima = [max((time // 1_000 for _, time in rows), default=None) for rows in batches]
    bases = [max((m for m in maxima[:n] if m is not None), default=None) for n in range(len(batches))]
    marks = [0 if base is None else max(base - bound_ms, 0) for base in bases]
    return [
        report_of(
            rows,
            operator,
            granule_us=granule_us,
            late_watermark_ms=marks[n - 1] if n else 0,
            **{
                "batch_id": n,
                "started_us": START_US + n * interval_us,
                "duration_ms": 100,
                "watermark_ms": marks[n],
                "late_base_ms": bases[n - 1] if n else None,
                "bound_ms": bound_ms,
                **changes,
            },
        )
        for n, rows in enumerate(batches)
    ]


def exponential_batches(
    batches: int,
    rows: int,
    mean_delay_s: float = 2.0,
    *,
    partitions: int = 4,
    slow: int | None = None,
    seed: int = 7,
) -> list[list[Row]]:
    """Return batches of ``rows`` rows a second whose delays are exponential; partition ``slow`` is 30 s later still."""
    rng = random.Random(seed)
    result: list[list[Row]] = []
    for n in range(batches):
        arrived: list[Row] = []
        for index in range(rows):
            partition = index % partitions
            delay_s = rng.expovariate(1 / mean_delay_s) + (30 if partition == slow else 0)
            arrived.append((str(partition), START_US + n * SECOND - round(delay_s * SECOND)))
        result.append(arrived)
    return result
