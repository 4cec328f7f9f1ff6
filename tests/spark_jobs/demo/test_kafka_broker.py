"""A broker of one's own: it answers, it keeps what it is given, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    Message,
    TopicPartition,
)

from tidemark.spark_jobs.demo import kafka_broker
from tidemark.spark_jobs.demo.kafka_broker import BrokerError, KafkaBroker, TimestampType
from tidemark.spark_jobs.demo.kafka_jars import broker_jars

from support.kafka import Sent, new_topic, or_skip, send
from support.patience import PATIENCE_S, until

pytestmark = pytest.mark.slow

LONG_AGO_MS = 1_000_000_000_000
"""In 2001: far beyond the week that Kafka keeps messages by default."""


def first_message(broker: KafkaBroker, topic: str) -> Message:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "test", "log_level": 0})
    try:
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(PATIENCE_S)
    finally:
        consumer.close()
    assert message is not None
    assert message.error() is None
    return message


def is_gone(group: int) -> bool:
    """Whether no process of the group is left."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize(
    ("timestamps", "kind"),
    [("CreateTime", TIMESTAMP_CREATE_TIME), ("LogAppendTime", TIMESTAMP_LOG_APPEND_TIME)],
)
def test_a_topic_has_the_timestamps_that_were_asked_for(
    kafka: KafkaBroker, timestamps: TimestampType, kind: int
) -> None:
    """The producer's are kept to the millisecond, the broker's replace them."""
    topic = new_topic(kafka, timestamps=timestamps)
    before_ms = time.time_ns() // 1_000_000
    send(kafka, topic, [Sent("x", timestamp_ms=LONG_AGO_MS)])
    found, timestamp_ms = first_message(kafka, topic).timestamp()

    assert found == kind
    if timestamps == "CreateTime":
        assert timestamp_ms == LONG_AGO_MS
    else:
        assert before_ms <= timestamp_ms <= time.time_ns() // 1_000_000


def test_a_topic_that_is_there_is_not_made_again(kafka: KafkaBroker) -> None:
    topic = new_topic(kafka)

    with pytest.raises(BrokerError, match=f"topic '{topic}': .*already exists"):
        kafka.create_topic(topic)


@pytest.mark.soak
def test_nothing_is_left_of_it_when_the_block_ends_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    groups = []

    def fail_inside() -> None:
        with KafkaBroker(or_skip(broker_jars)) as broker:
            groups.append(broker.pid)
            os.killpg(broker.pid, 0)
            assert list(tmp_path.iterdir())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()

    until(lambda: is_gone(groups[0]), "the end of the broker")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.soak
def test_a_port_that_is_taken_meanwhile_is_replaced_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    jars = or_skip(broker_jars)
    free_ports = kafka_broker._free_ports
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        found = iter([(port, free_ports()[1])])
        monkeypatch.setattr(kafka_broker, "_free_ports", lambda: next(found, None) or free_ports())
        with KafkaBroker(jars) as broker:
            assert broker.bootstrap_servers != f"127.0.0.1:{port}"


def test_it_ends_when_the_process_that_started_it_is_killed(tmp_path: Path) -> None:
    or_skip(broker_jars)
    script = (
        "import time\n"
        "from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker\n"
        "with KafkaBroker() as broker:\n"
        "    print(broker.pid, flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as python:
        assert python.stdout is not None
        group = int(python.stdout.readline())
        os.killpg(group, 0)
        python.send_signal(signal.SIGKILL)

    until(lambda: is_gone(group), "the end of the broker")
    assert list(tmp_path.iterdir()) == []


def test_a_broker_that_does_not_start_says_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    broker = KafkaBroker([tmp_path / "no.jar"])

    with pytest.raises(BrokerError, match="StorageTool"):
        broker.__enter__()

    assert list(tmp_path.iterdir()) == []
