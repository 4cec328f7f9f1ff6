"""One scrape: the store is read once, let go, and then written out beside what this process counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy.exc import SQLAlchemyError

from tidemark.controller.db.database import Database
from tidemark.controller.metrics.names import HELP
from tidemark.controller.metrics.partitions import partition_lines
from tidemark.controller.metrics.process import scrape_seconds
from tidemark.controller.metrics.streams import stream_families
from tidemark.controller.stream_state.partition_standing import PartitionStanding, partition_standings
from tidemark.controller.stream_state.standing import Standing, rollouts_by_state, standings

__all__ = ["Scrape"]


@dataclass(frozen=True, slots=True)
class _Read:
    streams: Sequence[Standing]
    partitions: Mapping[int, Sequence[PartitionStanding]]
    rollouts: Mapping[str, int]


class _Families(Collector):
    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class Scrape:
    """Answers scrapes. Safe to call from several threads.

    Args:
        database: the store.
        registry: what this process counts.
        max_partitions: partitions of a stream that have series of their own, at the most.
    """

    def __init__(self, database: Database, registry: CollectorRegistry, max_partitions: int) -> None:
        self._database = database
        self._registry = registry
        self._max_partitions = max_partitions
        self._seconds = scrape_seconds(registry)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format; those of streams are missing when the store is away."""
        begun = perf_counter()
        text = generate_latest(self._registry) + self._of_the_store()
        self._seconds.observe(perf_counter() - begun)
        return text

    def _of_the_store(self) -> bytes:
        try:
            read = self._read()
        except SQLAlchemyError:
            return generate_latest(_Families([_one("tidemark_store_up", 0)]))
        exposed, left_out = _most_notable(read, self._max_partitions)
        families = [
            _one("tidemark_store_up", 1),
            _one("tidemark_streams", len(read.streams)),
            _one("tidemark_partitions_not_exposed", left_out),
            *stream_families(read.streams, read.partitions, read.rollouts),
        ]
        return generate_latest(_Families(families)) + "".join(partition_lines(exposed)).encode()

    def _read(self) -> _Read:
        with self._database.read() as session:
            return _Read(standings(session), partition_standings(session), rollouts_by_state(session))


def _one(name: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, HELP[name], value=value)


def _most_notable(read: _Read, most: int) -> tuple[list[tuple[str, str, PartitionStanding]], int]:
    """Return the partitions to expose, by stream the most notable first, and how many are left out."""
    exposed: list[tuple[str, str, PartitionStanding]] = []
    left_out = 0
    for stream in read.streams:
        partitions = read.partitions.get(stream.stream_id, ())
        if len(partitions) > most:
            left_out += len(partitions) - most
            partitions = sorted(partitions, key=lambda each: each.notable)[:most]
        exposed.extend((stream.job, stream.stream, each) for each in partitions)
    return exposed, left_out
