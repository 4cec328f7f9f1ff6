"""Sends the bids into a Kafka topic at the pace at which they arrive, and reads results back."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition

from bench.nexmark.bids import PARTITIONS, WINDOW_S, Bids, Float64s
from bench.nexmark.figures import Result
from support.patience import PATIENCE_S

__all__ = ["Sent", "read_results", "send_bids"]


_WARMED_BY_S = 480


class Sent(NamedTuple):
    """When the bids were sent."""

    begin_us: int
    """When the stream began, in microseconds since the epoch."""
    behind_s: float
    """How late a bid was sent at most."""


def send_bids(bids: Bids, topic: str, servers: str, systems: Sequence[str]) -> Sent:
    """Send bids with the stream's first delays until each of the systems has answered, then the stream, at its pace."""
    producer = Producer({"bootstrap.servers": servers})
    first = bids.event_s < min(_WARMED_BY_S, bids.counted_s)
    delays_s = (bids.arrival_s - bids.event_s)[first]
    begin_s = _warmed_up(producer, topic, servers, systems, delays_s)
    behind_s = 0.0
    columns = (bids.arrival_s, bids.partition, bids.auction, bids.bidder, bids.price, bids.event_s)
    for arrival_s, *bid in zip(*(column.tolist() for column in columns), strict=True):
        wait_s = begin_s + arrival_s - time.time()
        if wait_s > 0:
            time.sleep(wait_s)
        behind_s = max(behind_s, -wait_s)
        _send(producer, topic, begin_s, *bid)
    assert producer.flush(PATIENCE_S) == 0
    return Sent(round(begin_s * 1e6), behind_s)


def _warmed_up(
    producer: Producer, topic: str, servers: str, systems: Sequence[str], delays_s: Float64s
) -> float:
    """Return the end of a window that is to come, once all systems have answered."""
    reader, begin_s, deadline = _reader(servers), float("inf"), time.time() + PATIENCE_S
    rng = np.random.default_rng(0)
    while (now_s := time.time()) < begin_s:
        for partition in range(PARTITIONS):
            late_s = float(rng.choice(delays_s))
            _send(producer, topic, now_s, partition, auction=0, bidder=partition, price=0, event_s=-late_s)
        if begin_s == float("inf") and all(
            reader.get_watermark_offsets(TopicPartition(system, 0), PATIENCE_S)[1] for system in systems
        ):
            begin_s = (now_s // WINDOW_S + 1) * WINDOW_S
        assert now_s < deadline or begin_s < float("inf"), f"not all of {systems} answer"
        time.sleep(max(min(1.0, begin_s - time.time()), 0))
    reader.close()
    return begin_s


def _send(
    producer: Producer,
    topic: str,
    begin_s: float,
    partition: int,
    auction: int,
    bidder: int,
    price: int,
    event_s: float,
) -> None:
    value = {
        "auction": auction,
        "bidder": bidder,
        "price": price,
        "event_us": round((begin_s + event_s) * 1e6),
    }
    producer.produce(topic, json.dumps(value), partition=partition)
    producer.poll(0)


def read_results(topic: str, servers: str) -> list[Result]:
    """Return all that a topic of one partition holds."""
    reader, partition = _reader(servers), TopicPartition(topic, 0, 0)
    _, end = reader.get_watermark_offsets(partition, PATIENCE_S)
    reader.assign([partition])
    results: list[Result] = []
    while len(results) < end:
        message = reader.poll(PATIENCE_S)
        assert message is not None, f"{topic} has {end} results, and {len(results)} could be read"
        assert not message.error(), message.error()
        results.append(
            Result(written_us=message.timestamp()[1] * 1_000, **json.loads(message.value() or b""))
        )
    reader.close()
    return results


def _reader(servers: str) -> Consumer:
    return Consumer({"bootstrap.servers": servers, "group.id": "results"})
