"""What holds on every version of Spark, and what is done where one lacks something."""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import SparkContext
from pyspark.sql import functions as F

from tidemark.models.base.granules import Granules
from tidemark.models.base.operators import TimeWindow, tumbling
from tidemark.spark_jobs import adaptive, adaptive_watermark
from tidemark.spark_jobs.core.counting import classes_for, place_counters
from tidemark.spark_jobs.core.key_counts import HISTOGRAM_NUMERIC, KeyCounter, key_counter
from tidemark.spark_jobs.core.tap import TAP_KEY, Tap
from tidemark.spark_jobs.live.future_rows import FutureRowRule
from tidemark.spark_jobs.spark.jvm import PrivateName, find

from support.live_comparisons import LiveCompared, compare_ledger, compare_sink, compare_watermarks, fates_of
from support.live_operators import FOUR, KINDS, stream_of, windows
from support.live_streams import Input, LiveJob, groups_of, trailing_batches
from support.private_names import PRIVATE_NAMES
from support.soak import with_soak
from support.spark_streams import EPOCH_US, SCHEMA, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

BOUND = "3 seconds"
FILES = 6


@pytest.mark.parametrize("name", with_soak(FOUR, FOUR[1:], FOUR))
def test_in_mode_off_the_watermark_is_spark_s_own_and_the_ledger_equals_the_sink(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    kind = KINDS[name]
    batches, closing = stream_of(kind, f"{name}, off", trailing_batches(f"{name}, off", FILES))
    granule = None if isinstance(kind.operator, TimeWindow) else "1 ms"
    entry = Input(name="in", operator=kind.operator, bound=BOUND, ceiling=None, granule=granule)
    job = LiveJob(spark, tmp_path, [entry], kind.plan, kind.output_mode, mode="Off")
    job.run([*groups_of(random.Random(name), [batches]), [closing]])
    compared = LiveCompared()
    batches = [*batches, *closing]
    wrong = compare_watermarks(job, [batches], compared)
    wrong += compare_ledger(job, 0, batches, compared)
    wrong += compare_sink(job, kind, fates_of(job, 0, batches), compared)

    assert wrong == []
    assert {applied.mode for applied in job.recorded["in"].acknowledgements} == {"Off"}
    assert min(compared.late, compared.no_data, compared.emitted) > 0


@pytest.mark.versions
@pytest.mark.parametrize("in_stage", [True, False])
def test_the_clock_of_a_batch_is_no_part_of_the_code_that_spark_compiles_for_the_stage(
    spark: SparkSession, tmp_path: Path, in_stage: bool
) -> None:
    """Code that was compiled anew for each batch would begin cold in each; outside of the stage each row is copied."""
    for number in range(FILES):
        write_batch(tmp_path / "in", number, [Row(number, 0, EPOCH_US + number)])
    jvm: Any = SparkContext._jvm
    compiled = jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    pieces: list[int] = []
    clocks: set[object] = set()

    def collect(df: DataFrame, _: int) -> None:
        clocks.update(row["now"] for row in df.collect())
        pieces.append(compiled.getCount())

    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(tmp_path / "in"))
    # Always ahead, so it becomes the clock.
    times = source.select(F.timestamp_micros(F.col("id") + (1 << 60)).alias("now"))
    classes = classes_for(spark) if in_stage else None
    if classes is not None:
        place_counters(spark, classes)
    set_back = FutureRowRule("now", 60_000_000).set_back(times, 1_000_000, "left", classes)
    query = set_back.writeStream.foreachBatch(collect)
    running = query.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    try:
        running.processAllAvailable()
        plan = running._jsq.explainInternal(False)
    finally:
        running.stop()

    assert ("zip_with" not in plan) == in_stage
    assert len(clocks) == FILES, "each batch had another clock"
    assert pieces == pieces[:1] * FILES


@pytest.mark.versions
def test_where_live_is_not_possible_the_job_runs_with_its_own_watermark_and_says_why(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adaptive, "classes_for", lambda _: None)
    entry = Input(name="in", operator=tumbling("5 s"), bound=BOUND, ceiling="10 minutes")
    job = LiveJob(spark, tmp_path, [entry], windows("5 seconds"))
    batches = trailing_batches("no live", FILES)
    job.run(groups_of(random.Random(0), [batches]))
    compared = LiveCompared()
    job.inputs = [Input(name="in", operator=tumbling("5 s"), bound=BOUND, ceiling=BOUND)]
    wrong = compare_watermarks(job, [batches], compared) + compare_ledger(job, 0, batches, compared)

    assert wrong == []
    assert job.moves() == []
    assert (
        f"mode is Live, but {adaptive._NO_CLASSES}: the bound stays 3000 ms until the next start"
        in caplog.text
    )
    assert {applied.ceiling_ms for applied in job.recorded["in"].acknowledgements} == {None}


# -- private names ------------------------------------------------------------------------------------------------


@pytest.mark.versions
def test_spark_has_every_private_name_that_is_used_with_its_members(spark: SparkSession) -> None:
    assert [name.places[0] for name in PRIVATE_NAMES if find(name) is None] == []
    assert [missing for name in PRIVATE_NAMES for missing in _missing_members(name)] == []


def _missing_members(name: PrivateName) -> list[str]:
    jvm: Any = SparkContext._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    place = find(name)._fqn
    of = jvm.java.lang.Class.forName(place, False, loader)
    found = {method.getName() for method in [*of.getMethods(), *of.getDeclaredMethods()]}
    return [f"{place}.{member}" for member in name.members if found.isdisjoint(member.split("/"))]


@pytest.mark.versions
def test_a_private_name_that_is_nowhere_is_said_once_and_not_an_error(
    spark: SparkSession,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name = PrivateName(("org.apache.spark.sql.New", "org.apache.spark.sql.Old"), (), "something")

    assert [find(name), find(name)] == [None, None]
    assert [record.getMessage() for record in caplog.records] == [
        "running without something: this Spark has no org.apache.spark.sql.New and no org.apache.spark.sql.Old"
    ]


# -- the counting of keys -----------------------------------------------------------------------------------------


COUNTERS: list[KeyCounter] = list({key_counter(), HISTOGRAM_NUMERIC})


def _rows(spark: SparkSession, rows: int, tasks: int = 3) -> DataFrame:
    """Return rows of every kind, each key in several tasks: 41 partitions, 70 seconds, no time, and no partition."""
    time_us = f"{EPOCH_US} + (id * 7919 % 70000) * 1000"
    time_us = f"case id % 97 when 5 then null when 6 then shiftleft(1L, 61) else {time_us} end"
    numbers = "case id % 89 when 3 then null when 4 then -1 when 5 then 2000000000 else int(id % 41) end"
    return spark.range(0, rows, 1, tasks).select(
        F.expr(f"timestamp_micros({time_us})").alias("ts"), F.expr(numbers).alias("partition")
    )


@pytest.mark.versions
def test_every_counter_counts_as_a_group_by_does(spark: SparkSession) -> None:
    """Of several tasks ``histogram_numeric`` has a value several times, and the largest numbers are the hardest."""
    df = _rows(spark, 20_000)
    granule = F.expr("unix_micros(ts) div 1000000").alias("granule")
    true = {
        (str(row["partition"] if row["partition"] in range(41) else "other"), row["granule"], row["count"])
        for row in df.filter("unix_micros(ts) < shiftleft(1L, 60)")
        .select(F.expr("if(partition between 0 and 40, partition, null)").alias("partition"), granule)
        .groupBy("partition", "granule")
        .count()
        .collect()
    }
    for counter in COUNTERS:
        tap = Tap("ts", "partition", 1_000_000, "left", counter=counter)
        counts = tap.decode(tap.count(df), Granules(1_000_000, "left"))
        body = {
            (part.partition, granule, count)
            for part in counts.by_granule.by_partition()
            for granule, count in zip(part.granules, part.counts, strict=True)
        }

        assert body == true
        assert (counts.rows, counts.null_rows) == (20_000, df.filter("ts is null").count())


@pytest.mark.versions
def test_no_counter_gives_counts_of_more_keys_than_it_is_to_hold(spark: SparkSession) -> None:
    for counter in COUNTERS:
        tap = Tap("ts", "partition", 1_000_000, "left", max_keys=64, counter=counter)
        counts = tap.decode(tap.count(_rows(spark, 20_000)), Granules(1_000_000, "left"))

        assert counts.rows == 20_000
        assert counts.by_granule.partitions == ()


def test_a_counter_of_numbers_counts_partitions_with_names_as_one_and_says_so(
    spark: SparkSession, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adaptive, "key_counter", lambda: HISTOGRAM_NUMERIC)
    rows = spark.readStream.format("rate").load().selectExpr("timestamp as ts", "string(value % 2) as region")
    spark.conf.set(TAP_KEY, "observe")
    try:
        tapped = rows.transform(adaptive_watermark("ts", "5 s", partition="region", stream="named"))
    finally:
        spark.conf.unset(TAP_KEY)

    assert "stream named: running without partitions" in caplog.text
    assert tapped.columns == ["ts", "region"]
