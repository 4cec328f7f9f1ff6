"""What tap and Live cost: a windowed count with and without them, round by round in one run.

On bare Parquet, on JSON files, and on JSON from Kafka, parsed; then how many more batches sparse input has in Live.
Time is that of the batches. CPU time is that of Spark and of Python while they ran: what else the machine does moves it
less, and it holds what runs beside the batches.
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryListener

from tidemark.models.protocol.messages import Mode
from tidemark.spark_jobs import adaptive_watermark, flush, tumbling
from tidemark.spark_jobs.core.tap import TAP_KEY

from support.kafka import new_topic
from support.patience import until
from support.process_usage import driver_busy_seconds
from support.spark_streams import EPOCH_US, RecordingSink, Row, write_batch
from support.spark_streams import SCHEMA as ROW_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(1800)]

ROWS = {"parquet": 4_000_000, "json": 500_000, "kafka": 1_000_000}
"""Rows of one batch."""
FORMS = os.environ.get("TIDEMARK_BENCH_INPUTS", " ".join(ROWS)).split()
"""Which of these inputs are measured."""
BATCHES, STARTING, ENDING = 7, 3, 1
"""The first batches also start what a query starts once, Python's workers in Live, and the last one waits at the end of
the topic for rows that never come; the others are measured."""
FILES = 4
"""Files of one batch."""
ROUNDS = 7
SCHEMA = "partition int, name string, ts timestamp, value long, note string"
VARIANTS = (
    "plain withWatermark",
    "tap, numbered partitions",
    "tap and Live, numbered",
    "tap, named partitions",
    "tap, operator from the plan",
    "tap by observe, numbered",
)


def _data(spark: SparkSession, folder: Path, form: str, broker: KafkaBroker) -> str:
    """Write the input once: in order, 16 partitions, delays of seconds. Return the folder, or the topic."""
    seconds = f"(id / 4000 - 6 * rand(7)) + {EPOCH_US // 1_000_000}"
    rows = spark.range(0, BATCHES * ROWS[form], 1, BATCHES * FILES).selectExpr(
        "cast(id % 16 as int) as partition",
        "concat('device-', id % 16) as name",
        f"timestamp_micros(cast(({seconds}) * 1000000 as bigint)) as ts",
        "id as value",
        "concat('note ', id % 1000) as note",
    )
    if form == "kafka":
        topic = new_topic(broker, 16)
        value = F.to_json(F.struct("name", "ts", "value", "note")).alias("value")
        servers = broker.bootstrap_servers
        rows.select("partition", value).write.format("kafka").option(
            "kafka.bootstrap.servers", servers
        ).option("topic", topic).save()
        return topic
    target = str(folder / form)
    rows.write.format(form).save(target)
    return target


def _stream(spark: SparkSession, form: str, source: str, broker: KafkaBroker) -> DataFrame:
    if form != "kafka":
        return spark.readStream.schema(SCHEMA).format(form).option("maxFilesPerTrigger", FILES).load(source)
    records = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", ROWS[form])
        .load()
    )
    parsed = F.from_json(F.col("value").cast("string"), "name string, ts timestamp, value long, note string")
    return records.select("partition", parsed.alias("row")).select("partition", "row.*")


class _CpuTimes(StreamingQueryListener):
    """The driver's CPU time after each batch with rows, in seconds."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self.seconds: list[float] = []

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...  # noqa: N802 - Spark's name

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        if event.progress.numInputRows:
            self.seconds.append(driver_busy_seconds(self._spark))

    def onQueryIdle(self, event: QueryIdleEvent) -> None: ...  # noqa: N802 - Spark's name

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None: ...  # noqa: N802 - Spark's name


class _Taken(NamedTuple):
    """What a batch took, the mean of those that are measured, in milliseconds."""

    time: float
    cpu: float


def _run(spark: SparkSession, events: DataFrame, variant: str, checkpoint: Path) -> tuple[_Taken, int]:
    """Run the query once over everything; return what a batch took, and the rows counted."""
    sink, cpu = RecordingSink(), _CpuTimes(spark)
    spark.conf.set(TAP_KEY, "observe" if variant == VARIANTS[5] else "compiled")
    if variant == VARIANTS[0]:
        events = events.withWatermark("ts", "10 seconds")
    else:
        live = variant == VARIANTS[2]
        events = events.transform(
            adaptive_watermark(
                "ts",
                "10 seconds",
                None if variant == VARIANTS[4] else tumbling("10 seconds"),
                partition="name" if variant == VARIANTS[3] else "partition",
                ceiling="1 hour" if live else None,
                mode="Live" if live else "Off",
                sink=sink,
            )
        )
    spark.streams.addListener(cpu)
    try:
        query = (
            events.groupBy(F.window("ts", "10 seconds"))
            .agg(F.count("*"), F.sum("value"), F.max("note"))
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        assert flush()
        until(lambda: len(cpu.seconds) == BATCHES, "the CPU times of all batches")
    finally:
        spark.streams.removeListener(cpu)
        spark.conf.unset(TAP_KEY)
    full = [progress for progress in query.recentProgress if progress.numInputRows]
    assert len(full) == len(cpu.seconds) == BATCHES
    times = [progress.durationMs["triggerExecution"] for progress in full[STARTING:-ENDING]]
    spent_s = cpu.seconds[-ENDING - 1] - cpu.seconds[STARTING - 1]
    taken = _Taken(statistics.mean(times), spent_s * 1000 / len(times))
    return taken, sum(report.counted_rows for report in sink.reports)


def test_tap_and_live_cost_little_beside_reading_the_rows(
    kafka_spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Printed as medians, and as medians of the ratios within a round; nothing is asserted on time."""
    began = time.monotonic()
    lines = []
    for form in FORMS:
        rows = ROWS[form]
        source = _data(kafka_spark, tmp_path, form, kafka)
        taken: dict[str, list[_Taken]] = {variant: [] for variant in VARIANTS}
        for number in range(ROUNDS + 1):
            for variant in VARIANTS:
                checkpoint = tmp_path / f"{form}-{VARIANTS.index(variant)}-{number}"
                found, counted = _run(
                    kafka_spark, _stream(kafka_spark, form, source, kafka), variant, checkpoint
                )
                assert variant == VARIANTS[0] or counted == BATCHES * rows
                if number:  # the first round warms up
                    taken[variant].append(found)
        plain = taken[VARIANTS[0]]
        lines += [f"  {form:8} {variant:26} {_beside(taken[variant], plain, rows)}" for variant in VARIANTS]
    with capsys.disabled():
        print(
            f"\nwindowed counts with tap and Live, {ROUNDS} rounds side by side ({time.monotonic() - began:.0f} s)"
        )
        print("\n".join(lines))


def _beside(taken: list[_Taken], plain: list[_Taken], rows: int) -> str:
    """Return time and CPU time with their ratios to those of the same round, the median and the quartiles."""
    texts = []
    for name in _Taken._fields:
        its = [getattr(each, name) for each in taken]
        ratios = [mine / getattr(other, name) for mine, other in zip(its, plain, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        texts.append(f"{name} {statistics.median(its):6.0f} ms  x {middle:.2f} ({low:.2f} to {high:.2f})")
    more = statistics.median(mine.cpu - other.cpu for mine, other in zip(taken, plain, strict=True))
    return "   ".join([*texts, f"{more * 1_000_000 / rows:+5.0f} ns of CPU a row"])


def test_how_many_batches_sparse_input_has(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A row every 3 s of event time, each in a batch of its own, with an idle moment after it."""
    body = {}
    for variant in ("plain", "off", "live"):
        folder = tmp_path / variant
        (folder / "in").mkdir(parents=True)
        events = spark.readStream.schema(ROW_SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in"))
        if variant == "plain":
            events = events.withWatermark("ts", "5 seconds")
        else:
            mode: Mode = "Live" if variant == "live" else "Off"
            events = events.transform(
                adaptive_watermark(
                    "ts",
                    "5 seconds",
                    tumbling("10 seconds"),
                    ceiling="1 hour",
                    mode=mode,
                    sink=RecordingSink(),
                )
            )
        query = (
            events.groupBy(F.window("ts", "10 seconds"))
            .count()
            .writeStream.format("noop")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )
        for number in range(40):
            write_batch(folder / "in", number, [Row(number, 0, EPOCH_US + number * 3_000_000)])
            query.processAllAvailable()
        query.stop()
        flush()
        batches = len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))
        body[variant] = batches
    with capsys.disabled():
        print(
            "\nbatches for 40 sparse rows, one at a time: "
            + ", ".join(f"{name} {count}" for name, count in body.items())
        )
