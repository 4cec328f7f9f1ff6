"""The row counter counts what ``observe`` counts, and each row of a batch once, however often the batch is read."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import InheritableThread, SparkContext
from pyspark.sql import functions as F

from tidemark.models.base.granules import Granules
from tidemark.models.base.operators import Closed, tumbling
from tidemark.spark_jobs import adaptive_watermark, flush
from tidemark.spark_jobs.core import counting
from tidemark.spark_jobs.core.counting import classes_for, with_tap
from tidemark.spark_jobs.core.key_counts import key_counter
from tidemark.spark_jobs.core.tap import TAP_KEY, Tap, TapCounts
from tidemark.spark_jobs.spark import java_classes

from support.row_counting import counted_in_stage
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, Row, write_batch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 12_000
ALLOWANCE_US = 60_000_000
NAMES = (
    "element_at(array('', 'a', 'größer', 'a:1', 'with \"quotes\"', 'line\\nbreak', null), int(id % 7) + 1)"
)


PLAIN = Tap("ts", None, 1_000_000, "left", counter=key_counter())


def _rows(spark: SparkSession) -> DataFrame:
    """Return rows of every kind: times of 70 seconds, none, far out and on edges; arrivals and marks."""
    return spark.range(0, ROWS, 1, 3).selectExpr(
        f"""timestamp_micros(case id % 97 when 5 then null when 6 then shiftleft(1L, 61) when 7 then -shiftleft(1L, 61)
            when 8 then {EPOCH_US} else {EPOCH_US} + (id * 7919 % 70000) * 1000 end) as ts""",
        "case id % 89 when 3 then null when 4 then -1 when 5 then 2000000000 else int(id % 41) end as partition",
        f"{NAMES} as name",
        f"timestamp_micros(case id % 53 when 1 then null else {EPOCH_US} + 80000000 - id % 7 end) as arrival",
        "int(id % 2) as arrival_type",
        "int(if(id % 97 <> 5 and id % 31 = 1, 1, 0)) as back",
        "int(if(id % 97 <> 5 and id % 31 = 1, 2, 0)) as aside",
    )


def _edges(spark: SparkSession, tap: Tap) -> DataFrame:
    """Return rows like those on every edge: of the times that have a number, and of the delays that are counted."""
    times = [edge + step for edge in (tap.times.first_us, tap.times.end_us) for step in (-1, 0, 1)]
    came = [EPOCH_US - ALLOWANCE_US - late for late in (0, 1)]
    # The last is so long after its arrival that the difference, which has no number, would come out positive.
    rows = [(at, None) for at in times] + [(EPOCH_US, at) for at in came] + [(2**62, -3 * 2**61)]
    schema = "ts long, arrival long, arrival_type int"
    return spark.createDataFrame([(*row, 1) for row in rows], schema).selectExpr(
        "timestamp_micros(ts) as ts",
        "3 as partition",
        "'a' as name",
        "timestamp_micros(arrival) as arrival",
        "arrival_type",
        "0 as back",
        "0 as aside",
    )


def _decoded(tap: Tap, clock_us: int | None, text: str) -> TapCounts:
    return tap.decode(text, Granules(1_000_000, "left"), clock_us)


@pytest.mark.long
@pytest.mark.versions
@pytest.mark.parametrize("partition", ["partition", "name", None])
@pytest.mark.parametrize("closed", ["left", None])
def test_it_counts_what_observe_counts(
    spark: SparkSession, partition: str | None, closed: Closed | None
) -> None:
    plain = Tap("ts", partition, 1_000_000, closed, counter=key_counter())
    every, edges = _rows(spark), _edges(spark, plain)
    if not plain.can_name_partitions(every):
        pytest.skip("this Spark cannot observe counts by name")
    with_arrival = replace(plain, arrival_time="arrival", allowance_us=ALLOWANCE_US)
    set_back = replace(with_arrival, arrival_type="arrival_type", ahead="back")
    for tap in (plain, with_arrival, set_back, replace(set_back, ahead="aside", takes_out=True)):
        clock_us = None if tap.allowance_us is None else EPOCH_US - 30_000_000
        decode = partial(_decoded, tap, clock_us)

        for rows in (every, edges):
            assert decode(counted_in_stage(rows, tap)) == decode(tap.count(rows))


@pytest.mark.versions
def test_it_counts_partitions_by_their_names(spark: SparkSession) -> None:
    rows = _rows(spark).filter("abs(unix_micros(ts)) < shiftleft(1L, 60)")
    tap = Tap("ts", "name", 1_000_000, "left", counter=key_counter())
    counts = tap.decode(counted_in_stage(rows, tap), Granules(1_000_000, "left"))
    granule = F.expr("unix_micros(ts) div 1000000")
    true: Counter[tuple[str, int]] = Counter()
    for row in rows.groupBy("name", granule.alias("granule")).count().collect():
        true[row["name"] or "", row["granule"]] += row["count"]

    assert {
        (part.partition, second): count
        for part in counts.by_granule.by_partition()
        for second, count in zip(part.granules, part.counts, strict=True)
    } == true


@pytest.mark.versions
@pytest.mark.parametrize("partition", ["partition", "name"])
def test_of_more_keys_than_it_is_to_hold_it_counts_the_rows_alone(
    spark: SparkSession, partition: str
) -> None:
    tap = Tap("ts", partition, 1_000_000, "left", max_keys=5, counter=key_counter())
    counts = tap.decode(counted_in_stage(_rows(spark), tap), Granules(1_000_000, "left"))

    assert (counts.rows, counts.by_granule.partitions) == (ROWS, ())
    assert "more than 5 distinct" in str(counts.uncounted)


@pytest.mark.versions
@pytest.mark.parametrize("partition", ["partition", "name"])
def test_as_many_keys_as_it_is_to_hold_are_counted_each(spark: SparkSession, partition: str) -> None:
    rows = spark.range(5).selectExpr(
        f"timestamp_micros({EPOCH_US} + id * 1000000) as ts", "int(id) as partition", "string(id) as name"
    )
    tap = Tap("ts", partition, 1_000_000, "left", max_keys=5, counter=key_counter())
    counts = tap.decode(counted_in_stage(rows, tap), Granules(1_000_000, "left"))

    assert (counts.rows, len(counts.by_granule.partitions), counts.uncounted) == (5, 5, None)


@pytest.mark.versions
def test_a_frame_is_as_it_was(spark: SparkSession) -> None:
    """A checkpoint's state has columns without nulls, and their metadata."""
    rows = _rows(spark).withColumn("ts", F.coalesce("ts", F.timestamp_micros(F.lit(0))))
    tap = Tap("ts", "partition", 1_000_000, "left")
    tapped, counts = with_tap(rows, tap, "tidemark:x:0", classes_for(spark))

    assert counts is not None
    assert tapped.schema == rows.schema
    assert not tapped.schema["ts"].nullable


def test_streams_of_one_schema_share_the_code_that_spark_compiles(spark: SparkSession) -> None:
    rows = spark.range(0, 10, 1, 1).selectExpr("timestamp_millis(id) as ts", "int(id) as partition")
    tap = Tap("ts", "partition", 1_000_000, "left")
    jvm: Any = SparkContext._jvm
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    pieces = []
    for metric in ("tidemark:clicks:1", "tidemark:orders:2"):
        _once(with_tap(rows, tap, metric, classes_for(spark))[0])
        pieces.append(compiled.getCount())

    assert pieces[0] == pieces[1] > 0


def test_a_session_has_one_rule_that_places_counters(spark: SparkSession) -> None:
    experimental: Any = spark._jsparkSession.experimental()
    classes = classes_for(spark)
    assert classes is not None
    before = experimental.extraOptimizations()
    try:
        for _ in range(3):
            counting.place_counters(spark, classes)
        rules = experimental.extraOptimizations()
        names = [rules.apply(at).getClass().getName() for at in range(rules.size())]
    finally:
        getattr(experimental, "extraOptimizations_$eq")(before)

    assert len(names) == len(set(names)) == 1


def test_of_batches_that_nobody_asks_for_the_newest_hundred_are_kept(spark: SparkSession) -> None:
    jvm: Any = SparkContext._jvm
    gateway: Any = SparkContext._gateway
    classes = classes_for(spark)
    assert classes is not None
    counts = with_tap(spark.range(1).selectExpr("now() as ts"), PLAIN, "tidemark:kept:0", classes)[1]
    assert counts is not None
    counted = jvm.org.apache.spark.util.CollectionAccumulator()
    for batch in range(101):
        entry = gateway.new_array(jvm.java.lang.Object, 4)
        entry[0], entry[1], entry[2] = "a query", str(batch), 0
        entry[3] = classes.make("RowCounter$Pass", 0, 10).toArray()
        counted.add(entry)
    counts.batches.merge(counted)

    assert [counts.take("a query", batch) is None for batch in (0, 1, 100)] == [True, False, False]


# -- a batch that is read several times ---------------------------------------------------------------------------


@contextmanager
def _batches(
    spark: SparkSession,
    folder: Path,
    read: Callable[[DataFrame], None],
    change: Callable[[DataFrame], DataFrame],
) -> Iterator[RecordingSink]:
    """Run two batches of 20 rows each, of four files, whose sink reads them by ``read``; give the reports."""
    sink, schema = RecordingSink(), SCHEMA
    for number in range(8):
        rows = [Row(10 * number + each, each % 2, EPOCH_US + each * 1_000_000) for each in range(5)]
        write_batch(folder / "in", number, rows)
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 4).json(str(folder / "in"))
    tapped = source.transform(adaptive_watermark("ts", "1 minute", tumbling("10 s"), sink=sink))
    writer = change(tapped).writeStream.foreachBatch(lambda batch, _: read(batch))
    running = (
        writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start()
    )
    running.awaitTermination()
    assert flush()
    yield sink


def _once(batch: DataFrame) -> None:
    batch.write.format("noop").mode("overwrite").save()


def _twice(batch: DataFrame) -> None:
    assert not batch.isEmpty()
    _once(batch)
    _once(batch)


def _in_one_task(batch: DataFrame) -> None:
    _once(batch.coalesce(1))
    _once(batch)


def _from_a_cache_that_fills_part_by_part(batch: DataFrame) -> None:
    batch.persist()
    assert batch.limit(1).count() == 1
    assert batch.count() >= 20
    batch.unpersist()


def _in_threads_of_spark(batch: DataFrame) -> None:
    threads = [InheritableThread(target=batch.count) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _same(df: DataFrame) -> DataFrame:
    return df


@pytest.mark.parametrize(
    ("read", "change"),
    [
        (_twice, _same),
        (_in_one_task, _same),
        (_from_a_cache_that_fills_part_by_part, _same),
        (_in_threads_of_spark, _same),
        (_twice, lambda df: df.union(df)),
        (_twice, lambda df: df.repartition(3)),
    ],
    ids=["several actions", "one task", "cache", "threads", "union with itself", "behind a shuffle"],
)
def test_a_row_counts_once_however_often_its_batch_is_read(
    spark: SparkSession,
    tmp_path: Path,
    read: Callable[[DataFrame], None],
    change: Callable[[DataFrame], DataFrame],
) -> None:
    with _batches(spark, tmp_path, read, change) as sink:
        assert [report.rows for report in sink.reports] == [20, 20]
        assert [report.counted_rows for report in sink.reports] == [20, 20]


def test_a_batch_read_by_threads_that_spark_does_not_know_is_unknown_and_the_log_says_what_to_do(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def read(batch: DataFrame) -> None:
        thread = threading.Thread(target=batch.count)
        thread.start()
        thread.join()

    with caplog.at_level(logging.WARNING), _batches(spark, tmp_path, read, _same) as sink:
        assert [(report.rows, report.uncounted_rows) for report in sink.reports] == [(20, 20), (20, 20)]
        assert f"use pyspark.InheritableThread, or set {TAP_KEY}=observe" in caplog.text


# -- retries ------------------------------------------------------------------------------------------------------


@pytest.mark.versions
@pytest.mark.filterwarnings("ignore:Cannot infer the eval type")
def test_what_a_task_counted_before_it_failed_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    """Of a query that fails in mid-batch and is started again on the same plan."""
    fail = tmp_path / "fail"
    fail.touch()

    def failing(identity: int) -> int:
        if identity == 13 and fail.exists():
            raise ValueError("as wanted")
        return identity

    sink = RecordingSink()
    write_batch(tmp_path / "in", 0, [Row(each, each % 2, EPOCH_US + each) for each in range(20)])
    source = spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
    tapped = source.transform(adaptive_watermark("ts", "1 minute", tumbling("10 s"), sink=sink))
    writer = (
        tapped.withColumn("id", F.udf(failing, "int")("id"))
        .writeStream.format("noop")
        .trigger(availableNow=True)
    )
    for attempt in range(2):
        running = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        if attempt:
            running.awaitTermination()
        else:
            with pytest.raises(Exception, match="as wanted"):
                running.awaitTermination()
            fail.unlink()
    assert flush()

    assert [(report.rows, report.counted_rows) for report in sink.reports] == [(20, 20)]


# -- where it cannot be had ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["jar", "task"])
def test_where_it_does_not_work_rows_are_observed_and_the_log_says_so_once(
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    what: str,
) -> None:
    """Executors that do not have its classes would end the query."""

    def refused(*_: object) -> None:
        raise OSError("no place for a jar")

    monkeypatch.setattr(counting, "_classes", {})
    if what == "jar":
        monkeypatch.setattr(java_classes, "_jar", refused)
    else:
        monkeypatch.setattr(counting, "_arguments", lambda *_: 6 * [F.lit("no number")])
    with _batches(spark, tmp_path, _once, _same) as sink:
        assert [report.counted_rows for report in sink.reports] == [20, 20]
    again = spark.readStream.schema(SCHEMA).json(str(tmp_path / "in"))
    again.transform(adaptive_watermark("ts", "1 minute", sink=sink))

    said = [record.getMessage() for record in caplog.records if "running without" in record.getMessage()]
    assert len(said) == 1
    assert "rows are counted by observe" in said[0]


def test_a_job_can_choose_to_observe(spark: SparkSession, tmp_path: Path) -> None:
    rows: Any = spark.readStream.schema(SCHEMA).json(str(tmp_path))
    spark.conf.set(TAP_KEY, "observe")
    try:
        tapped = rows.transform(adaptive_watermark("ts", "1 minute", stream="observed"))
    finally:
        spark.conf.unset(TAP_KEY)

    assert "CollectMetrics" in tapped._jdf.queryExecution().analyzed().toString()
