"""Reports as a whole query would send them, by Spark's watermark rule, for tests of what receives them."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from tidemark.models.base.operators import Operator, tumbling
from tidemark.models.protocol.granule_counts import GranuleCounts, PartitionCounts
from tidemark.models.protocol.messages import Report

from support.streams import SECOND, Row, report_of

__all__ = [
    "START_US",
    "TEN_SECONDS",
    "dense_report",
    "exponential_batches",
    "query_reports",
    "restarted_reports",
]

START_US = 1_767_225_600_000_000
"""2026-01-01 00:00 UTC: when the first batch of ``query_reports`` is triggered."""

TEN_SECONDS = tumbling("10 seconds")


def dense_report(
    batch: int,
    *,
    partitions: int,
    granules: int,
    operator: Operator = TEN_SECONDS,
    stream: str = "stream",
    interval_s: int = 1,
) -> Report:
    """Return the report of one batch, in which each partition has rows in each of the last ``granules`` seconds."""
    dice = random.Random(batch)
    now = START_US // SECOND + 60 + batch * interval_s
    seconds = tuple(range(now - granules, now))
    parts = tuple(
        PartitionCounts(
            partition=str(number), granules=seconds, counts=tuple(dice.choices(range(1, 200), k=granules))
        )
        for number in range(partitions)
    )
    base_ms = now * 1_000 - 1
    return Report(
        schema_version=1,
        job="job",
        stream=stream,
        query_id=f"query of {stream}",
        run_id="run",
        batch_id=batch + 10,
        started_us=now * SECOND,
        duration_ms=300,
        operator=operator,
        output_mode="append",
        bound_ms=20_000,
        generation=None,
        late_watermark_ms=base_ms - 22_000,
        watermark_ms=base_ms - 21_000,
        late_base_ms=base_ms - 2_000,
        granule_us=SECOND,
        closed="left",
        rows=sum(part.rows for part in parts),
        null_rows=0,
        min_event_time_us=(now - granules) * SECOND,
        max_event_time_us=now * SECOND - 1,
        counts=GranuleCounts.of(parts),
        state_rows=1_000,
        state_bytes=100_000,
        dropped_by_spark=0,
    )


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


def restarted_reports(
    before: Sequence[Report],
    batches: Sequence[Sequence[Row]],
    *,
    bound_ms: int,
    generation: int | None,
    **changes: Any,
) -> list[Report]:
    """Return the reports of the query's next run, from the checkpoint that the last of ``before`` left.

    The watermark comes back from there and the maximum event time does not: W(n) is the greater of the restored one
    and what the batches of this run before n allow.
    """
    last = before[-1]
    reports: list[Report] = []
    base_ms: int | None = None
    late_ms = restored_ms = last.watermark_ms
    for n, rows in enumerate(batches):
        mark_ms = restored_ms if base_ms is None else max(restored_ms, base_ms - bound_ms)
        fields: dict[str, Any] = {
            "batch_id": last.batch_id + 1 + n,
            "run_id": f"generation {generation}",
            "started_us": last.started_us + (n + 1) * SECOND,
            "duration_ms": last.duration_ms,
            "late_base_ms": reports[-2].max_event_time_us // 1_000
            if len(reports) > 1 and reports[-2].max_event_time_us
            else None,
            "watermark_ms": mark_ms,
            "bound_ms": bound_ms,
            "generation": generation,
        }
        reports.append(
            report_of(
                rows,
                last.operator,
                late_watermark_ms=late_ms,
                granule_us=last.granule_us,
                **{**fields, **changes},
            )
        )
        late_ms = mark_ms
        newest = max((time // 1_000 for _, time in rows), default=None)
        if newest is not None:
            base_ms = newest if base_ms is None else max(base_ms, newest)
    return reports


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
