"""Reads a Kafka topic without a JVM: from its beginning or from a time on, to its end when the reading begins.

It writes nothing to Kafka: it joins no group and commits no offset.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from confluent_kafka import (
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)
from confluent_kafka import Message as KafkaMessage

from tidemark.controller.lab.traces.format import TraceError, one_line
from tidemark.controller.lab.traces.messages import Message, TimestampType

_REQUEST_SECONDS = 15
_SILENT_SECONDS = 60
"""Time without a message, although there are more, after which the reading fails."""
_MESSAGES = 10_000
# The client's own error codes have private names.
_END_OF_PARTITION = KafkaError._PARTITION_EOF  # noqa: SLF001
_UNREACHABLE = {KafkaError._TRANSPORT, KafkaError._TIMED_OUT, KafkaError._ALL_BROKERS_DOWN}  # noqa: SLF001
_TYPES: dict[int, TimestampType] = {
    TIMESTAMP_CREATE_TIME: "CreateTime",
    TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What to read."""

    bootstrap_servers: str
    """Address of Kafka: ``host:port``, or several with commas between."""
    name: str
    """Name of the topic."""
    since_ms: int | None = None
    """Messages from this timestamp on, milliseconds since 1970 in UTC; None for all that the topic still holds."""
    client_settings: Mapping[str, str] = field(default_factory=dict)
    """Further settings of the client, such as for TLS and a login."""


class TopicReader:
    """Reads a topic once; for use in a ``with`` block.

    Args:
        topic: what to read.

    Raises:
        TraceError: on construction or reading, when Kafka does not answer, the topic does not exist, or a setting is
            wrong.
    """

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._fault = ""
        settings: dict[str, Any] = {
            **topic.client_settings,
            "bootstrap.servers": topic.bootstrap_servers,
            "group.id": "tidemark-trace",  # the client requires a name; without a subscription it makes no group
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
            "error_cb": self._note,
        }
        with self._one_line():
            self._consumer = Consumer(settings)
        try:
            with self._one_line():
                self._spans = self._find_spans()
        except BaseException:
            self._consumer.close()
            raise

    def __enter__(self) -> Self:
        """Return the reader."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self._consumer.close()

    @property
    def rows(self) -> int:
        """Number of offsets to read; a compacted topic, or one with transactions, has fewer messages."""
        return sum(end - start for start, end in self._spans.values())

    def batches(self) -> Iterator[list[Message]]:
        """Yield the messages in parts; those of one partition are in order.

        Raises:
            TraceError: when Kafka fails, or sends nothing for a minute though there is more.
        """
        ends = {partition: end for partition, (_, end) in self._spans.items()}
        with self._one_line():
            self._consumer.assign(
                [TopicPartition(self._topic.name, at, start) for at, (start, _) in self._spans.items()]
            )
            received_at = time.monotonic()
            while ends:
                received = self._consumer.consume(_MESSAGES, 1.0)
                if received:
                    received_at = time.monotonic()
                elif time.monotonic() - received_at > _SILENT_SECONDS:
                    raise TraceError(
                        f"topic {self._topic.name!r}: Kafka sent nothing for {_SILENT_SECONDS} s; {self._fault}"
                    )
                batch = self._messages_of(received, ends)
                if batch:
                    yield batch

    def _messages_of(self, received: list[KafkaMessage], ends: dict[int, int]) -> list[Message]:
        """Return the messages before the ends, and remove the partitions that are done from ``ends``."""
        batch, done = [], set()
        for message in received:
            partition, offset, error = message.partition(), message.offset(), message.error()
            if error is not None and error.code() != _END_OF_PARTITION:
                raise KafkaException(error)
            assert partition is not None
            if partition not in ends:
                continue  # written after the reading began
            if error is not None:
                done.add(partition)
                continue
            assert offset is not None
            if offset < ends[partition]:
                batch.append(_of(message, partition, offset))
            if offset >= ends[partition] - 1:
                done.add(partition)
        for partition in done:
            ends.pop(partition)
        if done:
            self._consumer.pause([TopicPartition(self._topic.name, partition) for partition in done])
        return batch

    def _find_spans(self) -> dict[int, tuple[int, int]]:
        """Return, for each partition with messages to read, the first offset to read and the first not to read."""
        name = self._topic.name
        topic = self._consumer.list_topics(name, _REQUEST_SECONDS).topics[name]
        if topic.error is not None:
            raise KafkaException(topic.error)
        starts: dict[int, int] = {}
        if self._topic.since_ms is not None:
            times = [TopicPartition(name, partition, self._topic.since_ms) for partition in topic.partitions]
            answered = self._consumer.offsets_for_times(times, _REQUEST_SECONDS)
            starts = {one.partition: one.offset for one in answered}
        spans = {}
        for partition in sorted(topic.partitions):
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(name, partition), _REQUEST_SECONDS
            )
            start = starts.get(partition, low)
            if start != OFFSET_END and start < high:  # the end: no message is that recent
                spans[partition] = (start, high)
        return spans

    @contextmanager
    def _one_line(self) -> Iterator[None]:
        try:
            yield
        except KafkaException as error:
            fault: KafkaError = error.args[0]
            if fault.code() in _UNREACHABLE:
                self._consumer.poll(0)  # calls _note with the cause
                raise TraceError(
                    f"Kafka at {self._topic.bootstrap_servers} does not answer: {self._fault or fault.str()}"
                ) from None
            raise TraceError(f"topic {self._topic.name!r}: {fault.str()}") from None

    def _note(self, error: KafkaError) -> None:
        self._fault = error.str()


def read_client_settings(path: Path) -> dict[str, str]:
    """Return the settings in a properties file, as Kafka's own tools take it: ``name=value``, ``#`` begins a comment.

    The names are those of librdkafka.

    Raises:
        TraceError: when the file cannot be read or a line is not a setting.
    """
    settings = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: cannot be read: {one_line(error)}") from None
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if text and not text.startswith(("#", "!")):
            name, equals, value = text.partition("=")
            if not equals:
                raise TraceError(f"{path}: line {number} is not name=value")
            settings[name.strip()] = value.strip()
    return settings


def _of(message: KafkaMessage, partition: int, offset: int) -> Message:
    kind, timestamp_ms = message.timestamp()
    stamp = _TYPES.get(kind)
    headers: Any = message.headers() or ()  # pairs, where they are received
    return Message(
        partition, offset, None if stamp is None else timestamp_ms, stamp, message.value(), headers
    )
