"""The demonstration through a real Kafka broker: a trace is written at the pace at which it happened, the job reads.

    replay_into_topic(Path("trace.parquet"), "clicks", "localhost:9092", speed=10)

A message's value is JSON with ``seq``, ``event_time_us`` and ``partition`` as the trace has them; its timestamp is the
wall time of sending. ``plan.TRACE_COLUMNS`` says what a trace is.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.spark_jobs.demo.controller_process import DemoError
from tidemark.spark_jobs.demo.kafka_broker import BrokerError, KafkaBroker
from tidemark.spark_jobs.demo.plan import TRACE_COLUMNS, Plan, rows_of
from tidemark.spark_jobs.spark.jar import JarsNotFound

_TOPIC = "fleet"
_SLOT_SECONDS = 0.6
"""Wall time of a slot: what a small batch takes on two busy cores."""
_MAX_SECONDS = 100
"""Wall time of the whole trace, however long it is and however it is cut."""


_ASK_SECONDS = 15
_DELIVERY_SECONDS = 60
_BATCH_ROWS = 16_384
_ROWS_BETWEEN_CHECKS = 1_024
"""Messages handed over between two checks of the deliveries of earlier ones."""

_Row = tuple[int, int, int, str]
"""``seq``, event time, arrival time and partition."""


@contextmanager
def running_kafka_feed(plan: Plan) -> Iterator[KafkaFeed]:
    """Start a broker with a topic for the plan's trace, and end it with the context.

    Raises:
        DemoError: when the broker cannot be had or fails.
    """
    try:
        with KafkaBroker() as broker:
            broker.create_topic(_TOPIC, len(np.unique(plan.arrivals.partition)))
            feed = KafkaFeed(plan, broker.bootstrap_servers)
            try:
                yield feed
            finally:
                feed.stop()
    except (BrokerError, JarsNotFound) as error:
        raise DemoError(str(error)) from error


class KafkaFeed:
    """Writes the trace's rows into a topic at a pace, from which the job reads them."""

    def __init__(self, plan: Plan, bootstrap_servers: str) -> None:
        arrivals = plan.arrivals.arrival_time_us
        span_us = int(arrivals[-1] - arrivals[0])
        self.speed = max(plan.slot_us / _SLOT_SECONDS, span_us / _MAX_SECONDS) / 1e6
        """How much faster than it happened the trace is replayed."""
        self.worst_lag_us = 0
        """The longest that a row was sent after its time, in microseconds of the wall clock."""
        # A slow machine takes more batches for it and not larger ones, in which hardly a row could be late.
        self._max_rows = -(-plan.rows * 5 // (plan.batches * 4))
        self._plan, self._servers = plan, bootstrap_servers
        self._sent = 0
        self._stopped = threading.Event()

    @property
    def interval(self) -> str:
        """A slot at the replay's speed."""
        return f"{round(_SLOT_SECONDS * 1_000)} milliseconds"

    def events(self, spark: SparkSession, until_rows: int) -> DataFrame:  # noqa: ARG002 - send() stops there
        """Return the stream of the topic's rows, with Kafka's partitions."""
        options = {
            "kafka.bootstrap.servers": self._servers,
            "subscribe": _TOPIC,
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(self._max_rows),
        }
        value = F.from_json(F.col("value").cast("string"), "event_time_us long")
        return (
            spark.readStream.format("kafka")
            .options(**options)
            .load()
            .select(F.timestamp_micros(value["event_time_us"]).alias("event_time"), "partition")
        )

    def send(self, until_rows: int) -> None:
        """Write the rows up to ``until_rows`` that were not written yet, at the pace at which they arrived.

        Raises:
            DemoError: when Kafka does not take them.
        """
        try:
            replayed = replay_into_topic(
                self._plan.path,
                _TOPIC,
                self._servers,
                speed=self.speed,
                first=self._sent,
                until=until_rows,
                stop=self._stopped,
            )
        except (ReplayError, ValueError) as error:
            raise DemoError(str(error)) from error
        self._sent += replayed.rows
        self.worst_lag_us = max(self.worst_lag_us, replayed.worst_lag_us)

    def stop(self) -> None:
        """End ``send`` early."""
        self._stopped.set()

    def rows_read(self, end_offset: str) -> int:
        """Return the sum of the offsets: the topic began empty."""
        return sum(json.loads(end_offset)[_TOPIC].values())


class ReplayError(RuntimeError):
    """Kafka did not take the rows; the message is one line."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay sent, and how far it fell behind its pace."""

    rows: int
    """Rows that Kafka has taken."""
    seconds: float
    """Wall time from the first row to the last answer."""
    worst_lag_us: int
    """The longest that a row was sent after its time, in microseconds of the wall clock; 0 without a pace."""


def kafka_partitions(names: Iterable[str]) -> dict[str, int]:
    """Return the Kafka partition of each of a trace's partitions, which are put in order: numbers first, as numbers."""
    return {name: index for index, name in enumerate(sorted(set(names), key=_by_number))}


def replay_into_topic(
    trace: Path,
    topic: str,
    bootstrap_servers: str,
    *,
    speed: float | None = 1.0,
    shift_to_now: bool = False,
    first: int = 0,
    until: int | None = None,
    stop: threading.Event | None = None,
) -> Replayed:
    """Write the rows ``first`` to ``until`` (not included) of a trace into a topic, and return when Kafka has them.

    The first row is sent at once, every other one when as much time has passed, by the monotonic clock, as lies between
    the arrivals. The trace's partitions go to the Kafka partitions that ``kafka_partitions`` names, whichever rows are
    sent.

    Args:
        trace: the Parquet file.
        topic: a topic that has at least as many partitions as the trace.
        bootstrap_servers: address of Kafka.
        speed: how much faster than it happened; None sends as fast as Kafka takes it.
        shift_to_now: move event times so that the first row sent arrives now and delays stay what they were, divided by
            ``speed`` as all differences are. Without it event times are those of the trace.
        first: number of the first row.
        until: number of the row to stop before; None for all.
        stop: ends the replay early when it is set.

    Raises:
        ValueError: when the file is no trace, the speed is not above 0, or the topic has too few partitions.
        ReplayError: when Kafka does not answer or does not take a row.
        OSError: when the file cannot be read.
    """
    if speed is not None and not 0 < speed < float("inf"):
        raise ValueError(f"speed is {speed}; it must be a number above 0")
    rows_of(trace)  # rejects a file that is no trace
    partition_of = kafka_partitions(_names(trace))
    producer = _Producer(topic, bootstrap_servers, len(partition_of))
    stop = stop or threading.Event()
    base_us = sent = worst_us = start_us = 0
    started = time.monotonic()
    for seq, event_us, arrival_us, name in _rows(trace, first, until):
        if not sent:
            base_us, start_us, started = arrival_us, time.time_ns() // 1_000, time.monotonic()
        if speed is not None:
            due_s = started + (arrival_us - base_us) / speed / 1e6
            if (wait := due_s - time.monotonic()) > 0:
                producer.check()
                if stop.wait(wait):
                    break
            worst_us = max(worst_us, round((time.monotonic() - due_s) * 1e6))
        if stop.is_set():
            break
        if shift_to_now:
            event_us = start_us + round((event_us - base_us) / (speed or 1))  # noqa: PLW2901 - the same, moved
        value = {"seq": seq, "event_time_us": event_us, "partition": name}
        producer.send(json.dumps(value, separators=(",", ":")).encode(), partition_of[name])
        sent += 1
    producer.finish()
    return Replayed(sent, time.monotonic() - started, worst_us)


class _Producer:
    """Kafka's producer, with errors that it reports late turned into one exception."""

    def __init__(self, topic: str, bootstrap_servers: str, partitions: int) -> None:
        self._topic, self._since_check = topic, 0
        self._refusal: str | None = None
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "enable.idempotence": True,  # a request that is sent again neither doubles rows nor changes their order
            "message.timeout.ms": _DELIVERY_SECONDS * 1_000,
            "delivery.report.only.error": True,
            "log_level": 0,
            "error_cb": self._note,
        }
        self._kafka = Producer(settings)
        self._fault = ""
        self._check_partitions(partitions, bootstrap_servers)

    def send(self, value: bytes, partition: int) -> None:
        """Hand over one message, waiting while too many are on their way."""
        if self._since_check >= _ROWS_BETWEEN_CHECKS:
            self.check()
        self._since_check += 1
        while True:
            try:
                self._kafka.produce(
                    self._topic,
                    value,
                    partition=partition,
                    on_delivery=self._failed_delivery,
                    timestamp=time.time_ns() // 1_000_000,
                )
            except BufferError:
                self.check(0.1)
            except KafkaException as error:
                raise ReplayError(f"{self._topic}: {error.args[0].str()}") from None
            else:
                return

    def check(self, wait_s: float = 0) -> None:
        """See what became of the messages so far.

        Raises:
            ReplayError: when one was rejected.
        """
        self._since_check = 0
        self._kafka.poll(wait_s)
        if self._refusal is not None:
            raise ReplayError(f"{self._topic}: {self._refusal}")

    def finish(self) -> None:
        """Wait until Kafka has everything.

        Raises:
            ReplayError: when it does not take it.
        """
        left = self._kafka.flush(_DELIVERY_SECONDS + 5)
        self.check()
        if left:
            raise ReplayError(f"{self._topic}: Kafka has not taken {left:,} rows; {self._fault}")

    def _check_partitions(self, needed: int, bootstrap_servers: str) -> None:
        try:
            topic = self._kafka.list_topics(self._topic, _ASK_SECONDS).topics[self._topic]
        except KafkaException as error:
            self._kafka.poll(0)  # the cause comes by callback
            raise ReplayError(
                f"Kafka at {bootstrap_servers} does not answer: {self._fault or error.args[0].str()}"
            ) from None
        if topic.error is not None:
            raise ReplayError(f"{self._topic}: {topic.error.str()}")
        if len(topic.partitions) < needed:
            raise ValueError(
                f"topic {self._topic!r} has {len(topic.partitions)} partitions, but the trace has {needed}"
            )

    def _failed_delivery(self, error: KafkaError | None, _: Message) -> None:
        if error is not None:
            self._refusal = error.str()

    def _note(self, error: KafkaError) -> None:
        self._fault = error.str()


def _by_number(name: str) -> tuple[bool, int, str]:
    number = re.fullmatch(r"[+-]?[0-9]+", name)
    return number is None, int(name) if number else 0, name


def _names(trace: Path) -> set[str]:
    names: set[str] = set()
    with pq.ParquetFile(trace) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=["partition"]):
            names.update(batch.column(0).cast(pa.string()).unique().to_pylist())
    return names


def _rows(trace: Path, first: int, until: int | None) -> Iterator[_Row]:
    done = 0
    with pq.ParquetFile(trace) as file:
        for batch in file.iter_batches(_BATCH_ROWS, columns=list(TRACE_COLUMNS)):
            low = min(max(first - done, 0), batch.num_rows)
            high = batch.num_rows if until is None else min(until - done, batch.num_rows)
            done += batch.num_rows
            part = batch.slice(low, max(high - low, 0))
            columns = (part.column(name) for name in TRACE_COLUMNS)
            seq, event, arrival, partition = (column.to_pylist() for column in columns)
            yield from zip(seq, event, arrival, partition, strict=True)
            if until is not None and done >= until:
                return
