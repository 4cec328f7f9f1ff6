"""The last windows of runs with ``availableNow``: what stays open, and what a closing step puts out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tidemark.models.evidence.ledger import judge
from tidemark.spark_jobs import adaptive_watermark, flush

from support.kafka import Sent, new_topic, send
from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US, SCHEMA, RecordingSink, Row, write_batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SECOND = 1_000_000
WINDOW_S, BOUND_S = 10, 10


def union(one: DataFrame, other: DataFrame) -> DataFrame:
    both = one.unionByName(other).groupBy(F.window("ts", f"{WINDOW_S} seconds"))
    return both.agg(F.collect_list("id").alias("ids")).select("ids")


def outer_join(one: DataFrame, other: DataFrame) -> DataFrame:
    """Return the rows of the first input; those without a partner come out as the watermark passes them."""
    near = "l_id = r_id AND r_ts BETWEEN l_ts AND l_ts + interval 1 second"
    left = one.selectExpr("id AS l_id", "ts AS l_ts")
    return left.join(other.selectExpr("id AS r_id", "ts AS r_ts"), F.expr(near), "leftOuter").select(
        F.array("l_id").alias("ids")
    )


@dataclass
class TwoInputs:
    """A query over two folders, run again and again from one checkpoint."""

    spark: SparkSession
    folder: Path
    query: Callable[[DataFrame, DataFrame], DataFrame] = union
    given: dict[str, Any] = field(default_factory=dict)
    recorded: RecordingSink = field(default_factory=RecordingSink)
    written: int = 0

    def write(self, name: str, first_s: int, last_s: int) -> None:
        """Add a row for each second; its id is the second."""
        rows = [Row(at, 0, EPOCH_US + at * SECOND) for at in range(first_s, last_s)]
        write_batch(self.folder / name, self.written, rows)
        self.written += 1

    def run(self, dies_in: int | None = None, **trigger: bool) -> list[int]:
        """Run it once over all there is and return the ids that came out, sorted."""
        found: list[int] = []

        def collect(df: DataFrame, batch: int) -> None:
            if batch == dies_in:
                raise RuntimeError("the sink is away")
            found.extend(identity for row in df.collect() for identity in row["ids"])

        started = self.query(self._input("a"), self._input("b")).writeStream.foreachBatch(collect)
        started = started.option("checkpointLocation", str(self.folder / "checkpoint"))
        query = started.trigger(**(trigger or {"availableNow": True})).start()
        with nullcontext() if dies_in is None else pytest.raises(StreamingQueryException):
            query.awaitTermination()
        assert flush(PATIENCE_S)
        return sorted(found)

    def _input(self, name: str) -> DataFrame:
        call = adaptive_watermark(
            "ts", f"{BOUND_S} seconds", stream=name, partition=None, sink=self.recorded, **self.given
        )
        return self.source(name).transform(call)

    def source(self, name: str) -> DataFrame:
        """Return the rows of an input."""
        (self.folder / name).mkdir(parents=True, exist_ok=True)
        source = self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return source.json(str(self.folder / name))

    def late(self, name: str) -> int:
        """Return the rows of an input that were late, by its reports."""
        judged = [judge(report) for report in self.recorded.reports if report.stream == name]
        assert not any(each.unjudged_rows for each in judged)
        return sum(each.total.late_min for each in judged)


@dataclass(kw_only=True)
class TwoTopics(TwoInputs):
    """The same over two topics of Kafka, a few rows a batch."""

    broker: KafkaBroker
    topics: dict[str, str] = field(default_factory=dict)

    def write(self, name: str, first_s: int, last_s: int) -> None:
        """Add a row for each second, to one of two partitions."""
        sent = (Sent(str(EPOCH_US + at * SECOND), at % 2) for at in range(first_s, last_s))
        send(self.broker, self._topic(name), sent)

    def source(self, name: str) -> DataFrame:
        """Return the rows of a topic."""
        source = self.spark.readStream.format("kafka").option("subscribe", self._topic(name))
        source = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 25)
        us = F.col("value").cast("string").cast("long")
        rows = source.option("kafka.bootstrap.servers", self.broker.bootstrap_servers).load()
        return rows.select(
            ((us - EPOCH_US) / SECOND).cast("long").alias("id"), F.timestamp_micros(us).alias("ts")
        )

    def _topic(self, name: str) -> str:
        if name not in self.topics:
            self.topics[name] = new_topic(self.broker, 2)
        return self.topics[name]


def runs(job: TwoInputs, times: int) -> list[list[int]]:
    """Run a query again and again, each time with a minute of rows of the first input and none of the other."""
    found = []
    for number in range(times):
        job.write("a", 100 * number, 100 * number + 60)
        found.append(job.run())
    return found


def seconds(*spans: tuple[int, int]) -> list[int]:
    return [at for first, last in spans for at in range(first, last)]


CLOSED = [seconds((0, 40)), seconds((40, 60), (100, 140)), seconds((140, 160), (200, 240))]
"""What three runs put out: up to the newest row less the bound."""


def test_without_a_closing_step_an_empty_input_keeps_everything_open_run_after_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = TwoInputs(spark, tmp_path)
    assert runs(job, 3) == [[], [], []]
    assert {each.run_end for each in job.recorded.acknowledgements} == {"AvailableNow"}


@pytest.mark.parametrize("given", [{}, {"mode": "Live", "ceiling": "1 minute"}], ids=["Off", "Live"])
def test_a_closing_step_puts_out_in_each_run_what_the_bound_closes(
    spark: SparkSession, tmp_path: Path, given: dict[str, str]
) -> None:
    """As Spark itself does for the one input alone."""
    job = TwoInputs(spark, tmp_path, given={"close_at_end": True, **given})
    assert runs(job, 3) == CLOSED
    assert job.late("a") == 0
    assert {each.run_end for each in job.recorded.acknowledgements} == {"AtBound"}


@pytest.mark.long
def test_runs_over_kafka_of_which_one_topic_is_empty_close_alike(
    kafka_spark: SparkSession, kafka: KafkaBroker, tmp_path: Path
) -> None:
    before = TwoTopics(kafka_spark, tmp_path / "before", broker=kafka)
    after = TwoTopics(kafka_spark, tmp_path / "after", given={"close_at_end": True}, broker=kafka)
    assert runs(before, 3) == [[], [], []]
    assert runs(after, 3) == CLOSED
    assert after.late("a") == 0


def test_rows_without_a_partner_come_out_though_the_other_side_of_their_join_is_empty(
    spark: SparkSession, tmp_path: Path
) -> None:
    before = TwoInputs(spark, tmp_path / "before", outer_join)
    after = TwoInputs(spark, tmp_path / "after", outer_join, {"close_at_end": True})
    assert runs(before, 2) == [[], []]
    # Until the watermark has passed the second in which a partner may come.
    assert runs(after, 2) == [seconds((0, 48)), seconds((48, 60), (100, 148))]


def test_a_delay_by_the_clock_puts_out_the_last_windows_of_the_run_too(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = TwoInputs(spark, tmp_path, given={"close_at_end": "1 hour"})
    assert runs(job, 2) == [seconds((0, 60)), seconds((100, 160))]
    assert {each.run_end for each in job.recorded.acknowledgements} == {"Closed"}


def test_rows_behind_the_closed_watermark_are_late_in_the_ledger_and_not_in_the_sink(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = TwoInputs(spark, tmp_path, given={"close_at_end": True})
    job.write("a", 0, 60)
    out = job.run()
    job.write("b", 0, 60)
    job.write("a", 60, 120)
    assert job.run() == [], "the second input has come as far as the first had"
    job.write("a", 120, 130)
    out += job.run()
    assert sorted(out) == sorted([*seconds((0, 110)), *seconds((40, 60))])
    assert job.late("b") == 40
    assert job.late("a") == 0


@pytest.mark.parametrize(("batch", "next_run"), [(1, []), (2, seconds((0, 40)))])
def test_what_dies_in_a_closing_step_is_put_out_once_by_a_run_after_it(
    spark: SparkSession, tmp_path: Path, batch: int, next_run: list[int]
) -> None:
    """Batch 1 has no rows, and the watermark moves while it runs; batch 2 puts the windows out.

    What moved is known to the next run from batch 2's offsets on; before, it takes rows to close anything.
    """
    job = TwoInputs(spark, tmp_path, given={"close_at_end": True})
    job.write("a", 0, 60)
    assert job.run(dies_in=batch) == []
    out = job.run()
    assert out == next_run
    job.write("a", 60, 100)
    assert [*out, *job.run()] == seconds((0, 80))
    assert job.late("a") == 0


def test_of_one_batch_only_nothing_closes_and_the_start_says_so(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    job = TwoInputs(spark, tmp_path, given={"close_at_end": True})
    job.write("a", 0, 60)
    assert job.run(once=True) == []
    assert {each.run_end for each in job.recorded.acknowledgements} == {"Once"}
    assert "once=True runs one batch" in caplog.text
