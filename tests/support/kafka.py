"""What tests need of Kafka: a broker where Maven and Java are to be had, and messages written as given."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer

from tidemark.spark_jobs.demo.kafka_broker import KafkaBroker, TimestampType
from tidemark.spark_jobs.demo.kafka_jars import broker_jars
from tidemark.spark_jobs.spark.jar import JarsNotFound
from tidemark.spark_jobs.spark.java import JavaNotFound

from support.patience import PATIENCE_S

__all__ = ["Sent", "new_topic", "or_skip", "running_kafka", "send"]

_numbers = count()


@dataclass(frozen=True)
class Sent:
    """A message to write."""

    value: str | bytes | None
    partition: int = 0
    timestamp_ms: int = 1_767_225_600_000
    headers: tuple[tuple[str, str | bytes | None], ...] = ()


def or_skip(get: Callable[[], list[Path]]) -> list[Path]:
    """Return the jars that ``get`` gives; where they cannot be had tests are skipped, but never in CI."""
    try:
        return get()
    except (JarsNotFound, JavaNotFound) as error:
        missing = str(error)
    assert os.environ.get("CI") != "true", f"CI must have Kafka: {missing}"
    pytest.skip(f"there is no Kafka here: {missing}")


@contextmanager
def running_kafka() -> Iterator[KafkaBroker]:
    """Start a broker; it ends with the context."""
    with KafkaBroker(or_skip(broker_jars)) as broker:
        yield broker


def new_topic(broker: KafkaBroker, partitions: int = 1, timestamps: TimestampType = "CreateTime") -> str:
    """Create a topic that nobody else uses; return its name."""
    name = f"topic-{next(_numbers)}"
    broker.create_topic(name, partitions, timestamps)
    return name


def send(broker: KafkaBroker, topic: str, messages: Iterable[Sent]) -> None:
    """Write messages, those of one partition in order."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
    )
    for message in messages:
        producer.produce(
            topic,
            message.value,
            partition=message.partition,
            timestamp=message.timestamp_ms,
            headers=list(message.headers),
        )
    assert producer.flush(PATIENCE_S) == 0
