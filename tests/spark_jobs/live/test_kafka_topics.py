"""Kafka topics that change while a query in Live reads them: each row that Spark reads is in the sink or late, once."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewPartitions  # type: ignore[attr-defined]  # forgotten in its types
from pyspark.sql import functions as F

from tidemark.models.evidence.ledger import judge

from support.faults import Survived
from support.kafka import Sent, new_topic, send
from support.live_faults import LiveJob, until
from support.live_streams import work_off_all
from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

START_S = EPOCH_US // 1_000_000 + 3_600
SECONDS = 200


def _row(number: int, second: int, partition: int) -> Sent:
    return Sent(json.dumps({"id": number, "ts": START_S + second}), partition)


def _late_at_times(first: int, last: int, partitions: int) -> list[Sent]:
    """Return a row a second and partition, each seventh of them 45 s late."""
    return [
        _row(1_000 * partition + second, second - 45 * (second % 7 == 6), partition)
        for second in range(first, last)
        for partition in range(partitions)
    ]


class _Stream:
    """A topic of the test's own, the job that reads it, and what was sent."""

    def __init__(self, spark: SparkSession, kafka: KafkaBroker, folder: Path, partitions: int) -> None:
        self.kafka, self.topic, self.sent = kafka, new_topic(kafka, partitions), list[Sent]()
        self.admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        value = F.from_json(F.col("value").cast("string"), "id long, ts long")
        self.job = LiveJob(
            spark,
            folder,
            lambda: (
                spark.readStream.format("kafka")
                .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
                .option("subscribe", self.topic)
                .option("startingOffsets", "earliest")
                .option("failOnDataLoss", "false")
                .load()
                .select(value["id"].alias("id"), F.timestamp_seconds(value["ts"]).alias("ts"), "partition")
            ),
        )

    def goes_on(self, query: StreamingQuery, first: int, last: int, partitions: int) -> None:
        """Send some seconds of rows, and let the query work them off."""
        for second in range(first, last, 20):
            rows = _late_at_times(second, second + 20, partitions)
            send(self.kafka, self.topic, rows)
            self.sent += rows
            work_off_all(query)

    def close(self, query: StreamingQuery, partitions: int) -> None:
        """Send rows that close all windows."""
        rows = [_row(-1 - partition, 10 * SECONDS, partition) for partition in range(partitions)]
        send(self.kafka, self.topic, rows)
        work_off_all(query)

    def ends_at(self, query: StreamingQuery) -> dict[str, int]:
        """Return up to which offset of each partition the query has read."""
        progress = query.lastProgress
        assert progress is not None
        offsets: dict[str, int] = json.loads(progress.sources[0].endOffset)[self.topic]
        return offsets


def _ids(rows: Iterable[Sent]) -> set[int]:
    return {json.loads(row.value or "")["id"] for row in rows}


def _check(job: LiveJob, sent: list[Sent], fault: str, survived: Survived) -> None:
    """Compare the sink with the ledger after a last row has closed all windows."""
    tallies = [tally for report in job.reports for tally in judge(report).tallies.values()]
    late = sum(tally.late_max for tally in tallies)
    kept, ids = job.kept(), _ids(sent)
    survived(
        fault,
        times=1,
        rows=len(ids),
        lost=len(ids) - len(set(kept) & ids) - late,
        verdicts=len(tallies),
        wrong=sum(tally.late_min != tally.late_max for tally in tallies) + len(kept) - len(set(kept)),
    )

    assert late == sum(tally.late_min for tally in tallies) > 0
    assert len(kept) == len(set(kept))
    assert len(kept) + late == len(ids)


def test_rows_of_partitions_that_are_added_are_in_the_sink_or_late(
    kafka_spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, survived: Survived
) -> None:
    stream = _Stream(kafka_spark, kafka, tmp_path, partitions=2)
    query = stream.job.start("100 milliseconds")
    try:
        stream.goes_on(query, 0, SECONDS // 2, 2)
        more = stream.admin.create_partitions([NewPartitions(stream.topic, 4)])
        more[stream.topic].result(PATIENCE_S)
        stream.goes_on(query, SECONDS // 2, SECONDS, 4)
        stream.close(query, 4)
    finally:
        query.stop()
    assert {name for report in stream.job.reports for name in report.counts.partitions} >= {"2", "3"}
    _check(stream.job, stream.sent, "partitions are added to a topic", survived)


def test_rows_of_a_topic_that_was_recreated_are_in_the_sink_or_late(
    kafka_spark: SparkSession, kafka: KafkaBroker, tmp_path: Path, survived: Survived
) -> None:
    """Its offsets begin anew. What it has before Spark sees that, Spark leaves out: here it is empty until then."""
    stream = _Stream(kafka_spark, kafka, tmp_path, partitions=2)
    query = stream.job.start("100 milliseconds")
    try:
        stream.goes_on(query, 0, SECONDS // 2, 2)
    finally:
        query.stop()
    stream.admin.delete_topics([stream.topic])[stream.topic].result(PATIENCE_S)
    until(lambda: stream.topic not in stream.admin.list_topics(timeout=PATIENCE_S).topics)
    kafka.create_topic(stream.topic, 2)
    query = stream.job.start("100 milliseconds")
    try:
        until(lambda: query.lastProgress and stream.ends_at(query) == {"0": 0, "1": 0}, query)
        stream.goes_on(query, SECONDS // 2, SECONDS, 2)
        stream.close(query, 2)
    finally:
        query.stop()
    _check(stream.job, stream.sent, "a topic is deleted and made again", survived)
