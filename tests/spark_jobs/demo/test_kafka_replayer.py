"""A trace written into a topic is the same stream: partitions, event times, order, and no arrival before its time."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from hypothesis import given
from hypothesis import strategies as st

from tidemark.spark_jobs.demo import kafka_feed as kafka_replayer
from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker, TimestampType
from tidemark.spark_jobs.demo.kafka_feed import ReplayError, kafka_partitions, replay_into_topic

from support.kafka import new_topic
from support.patience import PATIENCE_S, until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SECOND = 1_000_000
START_US = 1_767_225_600_000_000
ROWS, PARTITIONS = 40_000, 12


@pytest.fixture(scope="module")
def columns() -> dict[str, Any]:
    """Return a stream of 20 s with bursts, rows that arrive together, and partitions of which one begins late."""
    rng = np.random.default_rng(4)
    arrival = np.sort(START_US + rng.integers(0, 20 * SECOND, ROWS) // 1_000 * 1_000)
    partition = rng.integers(0, PARTITIONS - 1, ROWS)
    partition[-100:] = PARTITIONS - 1
    return {
        "seq": np.arange(ROWS) * 3,
        "event_time_us": arrival - rng.exponential(3 * SECOND, ROWS).astype(np.int64),
        "arrival_time_us": arrival,
        "partition": partition.astype(np.str_),
    }


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory, columns: dict[str, Any]) -> Path:
    """Return it as a file, in small row groups."""
    path = tmp_path_factory.mktemp("trace") / "trace.parquet"
    pq.write_table(pa.table(columns), path, row_group_size=1_000)
    return path


def received(broker: KafkaBroker, topic: str, rows: int) -> list[Message]:
    """Return the messages of a topic; those of a partition are in order."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "test", "log_level": 0})
    try:
        found = consumer.list_topics(topic, PATIENCE_S).topics[topic]
        consumer.assign([TopicPartition(topic, partition, 0) for partition in found.partitions])
        messages: list[Message] = []

        def all_came() -> bool:
            messages.extend(consumer.consume(rows - len(messages), 0.2))
            return len(messages) >= rows

        until(all_came, f"{rows} rows", seen=lambda: len(messages))
    finally:
        consumer.close()
    return messages


def by_partition(messages: list[Message]) -> dict[int, list[dict[str, Any]]]:
    values: dict[int, list[dict[str, Any]]] = {}
    for message in messages:
        partition, value = message.partition(), message.value()
        assert partition is not None
        assert value is not None
        values.setdefault(partition, []).append(json.loads(value))
    return values


def expected_of(columns: dict[str, Any]) -> dict[int, list[dict[str, Any]]]:
    """Return what each Kafka partition must hold, straight from the trace."""
    rows: dict[int, list[dict[str, Any]]] = {}
    for seq, event_us, name in zip(
        columns["seq"].tolist(), columns["event_time_us"].tolist(), columns["partition"].tolist(), strict=True
    ):
        value = {"seq": seq, "event_time_us": event_us, "partition": name}
        rows.setdefault(int(name), []).append(value)
    return rows


# -- partitions ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@given(st.lists(st.integers(-50, 5_000).map(str) | st.text(max_size=4)))
def test_every_partition_gets_a_number_of_its_own_from_0_on(names: list[str]) -> None:
    found = kafka_partitions(names)

    assert found.keys() == set(names)
    assert sorted(found.values()) == list(range(len(set(names))))


@given(st.sets(st.integers(-50, 5_000)))
def test_partitions_that_are_numbers_are_in_their_order(numbers: set[int]) -> None:
    assert list(kafka_partitions(map(str, numbers))) == [str(number) for number in sorted(numbers)]


@given(st.integers(1, 300), st.randoms())
def test_kafka_s_own_partitions_stay_what_they_were(count: int, random: Any) -> None:
    names = [str(number) for number in range(count)]
    random.shuffle(names)

    assert kafka_partitions(names) == {name: int(name) for name in names}


def test_names_come_after_numbers_by_the_alphabet() -> None:
    assert kafka_partitions(["b", "10", "", "9", "a", "²"]) == {
        "9": 0,
        "10": 1,
        "": 2,
        "a": 3,
        "b": 4,
        "²": 5,
    }


# -- through a broker ----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spark
def test_spark_reads_back_the_partitions_event_times_and_order_of_the_trace(
    kafka: KafkaBroker, kafka_spark: SparkSession, trace: Path, columns: dict[str, Any]
) -> None:
    topic = new_topic(kafka, PARTITIONS)
    body = replay_into_topic(trace, topic, kafka.bootstrap_servers, speed=None)

    rows = (
        kafka_spark.read.format("kafka")
        .option("kafka.bootstrap.servers", kafka.bootstrap_servers)
        .option("subscribe", topic)
        .load()
        .selectExpr("partition", "offset", "timestampType", "CAST(value AS STRING) AS value")
        .orderBy("partition", "offset")
        .collect()
    )
    found: dict[int, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(row["partition"], []).append(json.loads(row["value"]))

    assert body.rows == ROWS
    assert found == expected_of(columns)
    assert {row["timestampType"] for row in rows} == {0}, "CreateTime"


@pytest.mark.slow
@pytest.mark.parametrize("timestamps", ["CreateTime", "LogAppendTime"])
def test_no_row_is_sent_before_its_time(
    kafka: KafkaBroker, trace: Path, columns: dict[str, Any], timestamps: TimestampType
) -> None:
    """How long after it a row is sent is the machine's affair, and is reported."""
    topic = new_topic(kafka, PARTITIONS, timestamps)
    before_ms = time.time_ns() // 1_000_000
    body = replay_into_topic(trace, topic, kafka.bootstrap_servers, speed=10)
    print(f"{timestamps}: {body}")

    seconds = (columns["arrival_time_us"] - columns["arrival_time_us"][0]) / SECOND / 10
    due_ms = dict(zip(columns["seq"].tolist(), (seconds * 1_000).tolist(), strict=True))
    early_ms = max(
        due_ms[json.loads(message.value() or b"")["seq"]] - (message.timestamp()[1] - before_ms)
        for message in received(kafka, topic, ROWS)
    )
    assert body.seconds >= seconds[-1]
    assert body.worst_lag_us >= 0
    assert early_ms <= 2, "milliseconds, of which each of two clocks may have cut off a part"


@pytest.mark.slow
def test_a_replay_in_two_parts_is_the_whole(kafka: KafkaBroker, trace: Path, columns: dict[str, Any]) -> None:
    """Each part knows all partitions, also those that it has no row of."""
    topic = new_topic(kafka, PARTITIONS)
    cuts = (0, 17_001, 17_001, 17_500, ROWS)
    for first, end in zip(cuts, (*cuts[1:], None), strict=True):
        replay_into_topic(trace, topic, kafka.bootstrap_servers, speed=None, first=first, until=end)

    assert by_partition(received(kafka, topic, ROWS)) == expected_of(columns)


@pytest.mark.slow
@pytest.mark.parametrize("speed", [None, 1.0, 40.0])
def test_a_shift_to_now_keeps_the_delays_divided_by_the_speed(
    kafka: KafkaBroker, trace: Path, columns: dict[str, Any], speed: float | None
) -> None:
    topic = new_topic(kafka, PARTITIONS)
    rows = 500
    before_us = time.time_ns() // 1_000
    replay_into_topic(trace, topic, kafka.bootstrap_servers, speed=speed, shift_to_now=True, until=rows)
    after_us = time.time_ns() // 1_000

    event_us = np.zeros(rows, np.int64)
    for values in by_partition(received(kafka, topic, rows)).values():
        for value in values:
            event_us[value["seq"] // 3] = value["event_time_us"]
    distance = (columns["event_time_us"][:rows] - columns["arrival_time_us"][0]) / (speed or 1)
    start_us = event_us - distance
    assert np.ptp(start_us) <= 1.01, "rounded to the microsecond"
    assert before_us - 1 <= start_us.min() <= start_us.max() <= after_us + 1


@pytest.mark.slow
def test_a_replay_that_is_stopped_returns_how_far_it_came(kafka: KafkaBroker, trace: Path) -> None:
    topic = new_topic(kafka, PARTITIONS)
    stop = threading.Event()
    threading.Timer(0.5, stop.set).start()
    body = replay_into_topic(trace, topic, kafka.bootstrap_servers, speed=0.5, stop=stop)

    assert 0 < body.rows < ROWS
    assert body.seconds < 20
    assert len(received(kafka, topic, body.rows)) == body.rows


@pytest.mark.slow
def test_what_kafka_cannot_take_is_rejected_before_the_first_row(
    kafka: KafkaBroker, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = new_topic(kafka, PARTITIONS - 1)

    with pytest.raises(ValueError, match="has 11 partitions, but the trace has 12"):
        replay_into_topic(trace, topic, kafka.bootstrap_servers)
    with pytest.raises(ReplayError, match=r"nowhere: .*nknown topic"):
        replay_into_topic(trace, "nowhere", kafka.bootstrap_servers)
    monkeypatch.setattr(kafka_replayer, "_ASK_SECONDS", 1)  # nobody is there, however long it is asked
    with pytest.raises(ReplayError, match=r"127\.0\.0\.1:1 does not answer"):
        replay_into_topic(trace, topic, "127.0.0.1:1")


@pytest.mark.parametrize("speed", [0.0, -1.0, float("inf"), float("nan")])
def test_a_speed_that_is_none_is_rejected(trace: Path, speed: float) -> None:
    with pytest.raises(ValueError, match="must be a number above 0"):
        replay_into_topic(trace, "topic", "127.0.0.1:1", speed=speed)


def test_a_file_that_is_no_trace_is_rejected(tmp_path: Path) -> None:
    pq.write_table(pa.table({"seq": [1]}), tmp_path / "no.parquet")

    with pytest.raises(ValueError, match="is no trace"):
        replay_into_topic(tmp_path / "no.parquet", "topic", "127.0.0.1:1")
