"""The backlog that Spark's progress gives, against the rows that are in the topic and not yet in the sink."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker
from tidemark.spark_jobs.live.backlog import rows_behind

from support.kafka import Sent, new_topic, send
from support.patience import until

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = {0: 700, 1: 50, 2: 0, 3: 1_250}
"""Rows by partition of each of two topics."""


def test_the_backlog_of_a_rate_limited_query_is_the_true_count(
    kafka: KafkaBroker, kafka_spark: SparkSession, tmp_path: Path
) -> None:
    topics = [new_topic(kafka, len(ROWS)), new_topic(kafka, len(ROWS))]
    for topic in topics:
        send(kafka, topic, [Sent("{}", partition) for partition, rows in ROWS.items() for _ in range(rows)])
    taken: Counter[str] = Counter()
    behind: list[dict[str, int] | None] = []
    truth: list[dict[str, int]] = []

    def into_sink(df: DataFrame, _: int) -> None:
        taken.update(
            {str(row["partition"]): row["count"] for row in df.groupBy("partition").count().collect()}
        )

    query = (
        kafka_spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", ",".join(topics))
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", 900)
        .load()
        .writeStream.foreachBatch(into_sink)
        .option("checkpointLocation", str(tmp_path))
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    try:

        def caught_up() -> bool:
            batches = [one for one in query.recentProgress if one.numInputRows]
            if len(batches) > len(truth):
                source = batches[len(truth)].sources[0]
                parsed = json.loads(batches[len(truth)].json)["sources"][0]
                behind.append(rows_behind(source.startOffset, source.endOffset, source.latestOffset))
                assert behind[-1] == rows_behind(
                    parsed["startOffset"], parsed["endOffset"], parsed["latestOffset"]
                )
                # The rows of this batch, whatever the sink has taken meanwhile.
                end = json.loads(source.endOffset)
                read = {n: sum(end[topic][str(n)] for topic in topics) for n in ROWS}
                truth.append({str(n): 2 * ROWS[n] - read[n] for n in ROWS})
            return bool(behind) and not any((behind[-1] or {}).values())

        until(caught_up, "the last row", seen=lambda: behind)
    finally:
        query.stop()

    assert behind == truth
    assert behind[0] is not None
    assert sum(behind[0].values()) >= 2 * sum(ROWS.values()) - 900, "the limit held"
    assert len(behind) > 2
    assert taken == {str(number): 2 * rows for number, rows in ROWS.items() if rows}
