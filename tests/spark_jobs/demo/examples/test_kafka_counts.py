"""The Kafka example from end to end: a topic in, counts out, against the truth."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.dataset as ds
import pytest

from tidemark.spark_jobs.demo.examples.kafka_counts import main
from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker

from support.kafka import Sent, new_topic, send
from support.spark_streams import EPOCH_US, iso

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EVENT_US = (EPOCH_US + np.random.default_rng(5).integers(0, 120_000_000, 500)).tolist()


def truth() -> Counter[int]:
    """Return the rows by window's end; the last window is not closed."""
    counted = Counter((time_us // 10_000_000 + 1) * 10_000_000 for time_us in EVENT_US)
    counted.pop(max(counted))
    return counted


def run(broker: KafkaBroker, topic: str, folder: Path, *arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(
            [
                *("--bootstrap-servers", broker.bootstrap_servers, "--topic", topic, "--bound", "0 seconds"),
                *("--checkpoint", str(folder / "checkpoint"), "--trigger", "available-now", *arguments),
            ]
        )
    assert ended.value.code == 0


def test_iso_times_are_counted_into_a_topic(
    kafka: KafkaBroker, kafka_spark: SparkSession, tmp_path: Path
) -> None:
    topic, counts = new_topic(kafka, 3), new_topic(kafka)
    send(
        kafka,
        topic,
        [Sent(json.dumps({"ts": iso(time_us)}), time_us % 3) for time_us in EVENT_US],
    )
    run(kafka, topic, tmp_path, "--event-time", "ts", "--output-topic", counts)
    rows = (
        kafka_spark.read.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", counts)
        .load()
        .selectExpr("CAST(key AS STRING) AS key", "CAST(value AS STRING) AS value")
        .collect()
    )
    found = [json.loads(row["value"]) for row in rows]

    assert {_us(one["end"]): one["rows"] for one in found} == truth()
    assert len({row["key"] for row in rows}) == len(truth())


def test_numbers_are_counted_into_files(
    kafka: KafkaBroker, kafka_spark: SparkSession, tmp_path: Path
) -> None:
    topic = new_topic(kafka, 3)
    send(kafka, topic, [Sent(json.dumps({"t": time_us}), time_us % 3) for time_us in EVENT_US])
    run(
        *(kafka, topic, tmp_path, "--event-time", "t", "--unit", "us"),
        *("--ceiling", "1 hour", "--output", str(tmp_path / "out")),
    )
    rows = ds.dataset(tmp_path / "out", format="parquet").to_table().to_pylist()

    assert {round(row["end"].timestamp() * 1e6): row["rows"] for row in rows} == truth()


def _us(text: str) -> int:
    return round(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1e6)
