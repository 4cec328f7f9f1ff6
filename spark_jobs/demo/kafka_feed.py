"""The demonstration through a real Kafka broker, which it starts itself: a replayer writes, the job reads."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tidemark.spark_jobs.demo.controller_process import DemoError
from tidemark.spark_jobs.demo.kafka_broker import BrokerError, KafkaBroker
from tidemark.spark_jobs.demo.kafka_jars import JarsNotFound
from tidemark.spark_jobs.demo.kafka_replayer import ReplayError, replay_into_topic
from tidemark.spark_jobs.demo.plan import Plan

_TOPIC = "fleet"
_SLOT_SECONDS = 0.6
"""Wall time of a slot: what a small batch takes on two busy cores."""
_MAX_SECONDS = 100
"""Wall time of the whole trace, however long it is and however it is cut."""


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
    """Writes the trace's rows into a topic at a pace, from which the job reads them.

    Args:
        plan: the trace and its slots.
        bootstrap_servers: address of Kafka.
    """

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
            found = replay_into_topic(
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
        self._sent += found.rows
        self.worst_lag_us = max(self.worst_lag_us, found.worst_lag_us)

    def stop(self) -> None:
        """End ``send`` early."""
        self._stopped.set()

    def rows_read(self, end_offset: str) -> int:
        """Return the sum of the offsets: the topic began empty."""
        return sum(json.loads(end_offset)[_TOPIC].values())
