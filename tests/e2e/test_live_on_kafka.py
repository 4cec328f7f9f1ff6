"""Live on real Kafka: bursts and a joint stall, paced arrivals, a processing-time trigger, a real controller.

What the job did is put beside ``tidemark backtest --mode live`` on the very same arrivals: the rows of each batch, as
the tap saw them, at the wall time at which the batch was triggered.
"""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from pyspark.sql import functions as F

from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.catalogue import make_policy
from tidemark.models.backtest.run import BacktestRun, run
from tidemark.models.base.granules import granule_first_us
from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.ledger import judge
from tidemark.models.live.policy import Setup
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs import adaptive_watermark, flush
from tidemark.spark_jobs.demo.controller_process import ControllerProcess
from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker
from tidemark.spark_jobs.demo.kafka_feed import replay_into_topic

from support.kafka import new_topic
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.synthetic import fifo

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

Float64s = NDArray[np.float64]
Kind = Callable[[Float64s, NDArray[np.int64], np.random.Generator], Float64s]
SECOND = 1_000_000
TRIGGERS_US = (3 * SECOND, 12 * SECOND)
"""The second one for a machine that is too busy for the first."""
WINDOW = tumbling("15 seconds")
PARTITIONS = 8
SECONDS = 170
"""Length of the trace. Where its windows end decides how long the stall is held: up to 53 s after its end."""
TARGET_PPM = 990_000


def _bursts(event_s: Float64s, partition: NDArray[np.int64], rng: np.random.Generator) -> Float64s:
    """Return arrivals a third of a second late, and every 40 s for 6 s of event time up to 12 s late."""
    delay_s = rng.exponential(0.3, len(event_s))
    burst = event_s % 40 > 34
    delay_s[burst] += rng.uniform(4, 12, burst.sum())
    return event_s + delay_s


def _joint_stall(event_s: Float64s, partition: NDArray[np.int64], rng: np.random.Generator) -> Float64s:
    """Return arrivals a third of a second late; three of the partitions stop from 62 s to 87 s, queues of their own."""
    arrival_s = event_s + rng.exponential(0.3, len(event_s))
    for queue in range(3):
        queued = partition == queue
        arrival_s[queued] = fifo(arrival_s[queued], np.array([[62.0, 87.0]]))
    return arrival_s


def _write(path: Path, kind: Kind, seconds: int, rate: int = 100) -> None:
    """Write a trace of a kind."""
    rng = np.random.default_rng(4)
    event_s = np.sort(rng.uniform(0, seconds, seconds * rate))
    partition = rng.integers(0, PARTITIONS, len(event_s))
    arrival_s = kind(event_s, partition, rng)
    order = np.argsort(arrival_s, kind="stable")
    pq.write_table(
        pa.table(
            {
                "seq": np.arange(len(order)),
                "event_time_us": np.rint(event_s[order] * SECOND).astype(np.int64),
                "arrival_time_us": np.rint(arrival_s[order] * SECOND).astype(np.int64),
                "partition": partition[order].astype(str),
            }
        ),
        path,
    )


class _Kept:
    """Keeps the reports, and sends them on."""

    dropped = 0

    def __init__(self) -> None:
        self.reports: list[Report] = []

    def report(self, report: Report) -> None:
        self.reports.append(report)

    def acknowledge(self, *_: object) -> None:
        pass


@contextmanager
def _controller(folder: Path) -> Iterator[ControllerProcess]:
    """Run a controller that has the target and the mode."""
    folder.mkdir()
    process = ControllerProcess(folder, "shop", "clicks")
    try:
        process.wait_until_ready()
        process.put("slo", {"target_ppm": TARGET_PPM})
        process.put("policy", at_once("Live"))
        yield process
    finally:
        process.stop()


def _start(
    spark: SparkSession,
    broker: KafkaBroker,
    topic: str,
    folder: Path,
    url: str,
    body: _Kept,
    trigger_us: int,
) -> StreamingQuery:
    events = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .select(
            F.timestamp_micros(
                F.get_json_object(F.col("value").cast("string"), "$.event_time_us").cast("long")
            ).alias("ts"),
            "partition",
            "timestamp",
            "timestampType",
        )
    )
    steered = events.transform(
        adaptive_watermark(
            "ts",
            "30 seconds",
            WINDOW,
            job="shop",
            stream="clicks",
            ceiling="10 minutes",
            controller_url=url,
            sink=body,
        )
    )
    return (
        steered.groupBy(F.window("ts", "15 seconds"))
        .count()
        .select(F.unix_micros("window.end").alias("key_us"), "count")
        .writeStream.format("parquet")
        .option("path", str(folder / "out"))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime=f"{trigger_us // 1_000} milliseconds")
        .start()
    )


def _slots(reports: list[Report], trigger_us: int) -> list[int]:
    """Return the trigger that each batch answers, counted since the epoch.

    Spark starts batches at multiples of the trigger, a millisecond late or, where the one before took longer than the
    trigger, somewhere between; each has a slot of its own all the same.
    """
    slots: list[int] = []
    for report in reports:
        nearest = round(report.started_us / trigger_us)
        slots.append(max(nearest, slots[-1] + 1) if slots else nearest)
    return slots


def _replayed(reports: list[Report], setup: Setup) -> tuple[BacktestRun, list[int]]:
    """Return what the backtest makes of the batches' rows, and its keys."""
    partitions = sorted({name for report in reports for name in report.counts.partitions})
    event, arrival, number = [], [], []
    for report, slot in zip(reports, _slots(reports, setup.trigger_us), strict=True):
        for part in report.counts.by_partition():
            first = granule_first_us(np.asarray(part.granules, np.int64), report.granule_us, report.closed)
            event.append(np.repeat(first, part.counts))
            # A slot's batch runs at its end, so rows of a batch arrive at the start of the slot before it.
            arrival.append(np.full(sum(part.counts), (slot - 1) * setup.trigger_us))
            number.append(np.full(sum(part.counts), partitions.index(part.partition), np.int32))
    builder = ArrivalsBuilder(setup)
    builder.add(np.concatenate(event), np.concatenate(arrival), np.concatenate(number), len(partitions))
    arrivals = builder.build()
    return run(arrivals, setup, make_policy("tidemark", setup)), arrivals.keys_us.tolist()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compared:
    """A run of the job beside what the backtest makes of its batches."""

    reports: list[Report]
    checkpoint: Path
    late: int
    expected_late: int
    apart: np.ndarray
    """By window, in batches, how far apart the two emit it."""
    kept_up: bool
    """Whether each trigger had its batch, as the backtest has it."""

    @property
    def max_rows(self) -> int:
        return max(report.rows for report in self.reports)

    @property
    def agree(self) -> bool:
        return abs(self.late - self.expected_late) <= self.max_rows and int(self.apart.max()) <= 1


def _compared(
    spark: SparkSession, kafka: KafkaBroker, folder: Path, trigger_us: int, kind: Kind
) -> _Compared:
    folder.mkdir()
    topic, body = new_topic(kafka, PARTITIONS), _Kept()
    _write(folder / "trace.parquet", kind, SECONDS)
    with _controller(folder / "controller") as controller:
        query = _start(spark, kafka, topic, folder, controller.url, body, trigger_us)
        try:
            replayed = replay_into_topic(
                folder / "trace.parquet",
                topic,
                kafka.bootstrap_servers,
                shift_to_now=True,
                stop=threading.Event(),
            )
            until(lambda: sum(report.rows for report in body.reports) >= replayed.rows, "all rows")
            time.sleep(3 * trigger_us / SECOND)  # for the batches that close what they let close
        finally:
            query.stop()
            flush(PATIENCE_S)
    assert sum(report.rows for report in body.reports) == replayed.rows
    assert len({name for report in body.reports for name in report.counts.partitions}) == PARTITIONS

    setup = Setup(operator=WINDOW, trigger_us=trigger_us, target_ppm=990_000)
    reports = sorted(body.reports, key=lambda report: report.batch_id)
    expected, keys = _replayed(reports, setup)

    late = sum(tally.late_max for report in reports for tally in judge(report).tallies.values())
    # What only the end of the replay closes is no decision.
    decided = [
        (key, wall)
        for key, wall in zip(keys, expected.emit_wall_us.tolist(), strict=True)
        if key <= expected.watermark_us[-1]
    ]
    assert len(decided) >= 6
    walls = [slot * trigger_us for slot in _slots(reports, trigger_us)]
    job = [_emitting(reports, key) for key, _ in decided]
    backtest = [bisect.bisect_left(walls, wall) for _, wall in decided]
    apart = np.abs(np.subtract(job, backtest))
    latency_us = [max(reports[at].started_us - key, 0) for at, (key, _) in zip(job, decided, strict=True)]
    kept_up = int(np.diff(walls).max()) <= trigger_us
    print(
        f"a trigger of {trigger_us / SECOND:g} s, kept up {kept_up}; batches {len(reports)}, rows {replayed.rows}, "
        f"worst lag of the replayer {replayed.worst_lag_us / 1e6:.3f} s; "
        f"late: job {late}, backtest {expected.late}; emission apart, in batches: at most {apart.max()}, "
        f"mean {apart.mean():.3f}; mean latency: job "
        f"{np.mean(latency_us) / 1e6:.2f} s, backtest "
        f"{np.mean([max(wall - key, 0) for key, wall in decided]) / 1e6:.2f} s"
    )
    return _Compared(
        reports=reports,
        checkpoint=folder / "checkpoint",
        late=late,
        expected_late=expected.late,
        apart=apart,
        kept_up=kept_up,
    )


@pytest.mark.parametrize("kind", [_bursts, _joint_stall])
def test_live_loses_and_closes_what_the_backtest_said_to_within_one_batch(
    kafka_spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, kind: Kind
) -> None:
    """The backtest has a batch at each trigger; where the machine has not kept up, the trigger was too short for it."""
    first, second = TRIGGERS_US
    ran = _compared(kafka_spark, kafka, tmp_path / "first", first, kind)
    if not (ran.agree or ran.kept_up):
        ran = _compared(kafka_spark, kafka, tmp_path / "second", second, kind)
    assert abs(ran.late - ran.expected_late) <= ran.max_rows
    assert ran.apart.max() <= 1

    # What was required when a batch ended is in force in the next one at least, and nothing was restarted.
    assert len({report.run_id for report in ran.reports}) == 1
    required = [None if report.live is None else report.live.control_ms for report in ran.reports]
    reached = [report.watermark_ms for report in ran.reports]
    assert any(required)
    assert all((asked or 0) <= came for asked, came in zip(required, reached[1:], strict=False))


def _emitting(reports: list[Report], key_us: int) -> int:
    """Return which batch emits what is complete at ``key_us``, the last one where none does."""
    at = bisect.bisect_left([report.watermark_ms * 1_000 for report in reports], key_us)
    return min(at, len(reports) - 1)
