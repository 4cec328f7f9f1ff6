"""One scrape: the store is read once and let go; then all is written out, with what this process counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from tidemark.controller.db.database import STORE_ERRORS, Database
from tidemark.controller.metrics.names import HELP
from tidemark.controller.metrics.needs import load_needs
from tidemark.controller.metrics.partitions import partition_lines
from tidemark.controller.metrics.process import scrape_seconds
from tidemark.controller.metrics.streams import stream_families
from tidemark.controller.rollout.store import rollouts_by_state
from tidemark.controller.stream_state.load import load_states
from tidemark.controller.stream_state.partition_summaries import PartitionSummary, load_partitions
from tidemark.controller.stream_state.state import StreamState
from tidemark.models.evidence.sketch import Sketch


@dataclass(frozen=True, slots=True)
class _Read:
    streams: Sequence[StreamState]
    partitions: Mapping[int, Sequence[PartitionSummary]]
    needs: Mapping[int, Sketch]
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
        max_partitions: how many partitions of a stream have series of their own, at most.
        label_names: names of the labels of streams that are exposed.
    """

    def __init__(
        self,
        database: Database,
        registry: CollectorRegistry,
        max_partitions: int,
        label_names: Sequence[str],
    ) -> None:
        self._database = database
        self._registry = registry
        self._max_partitions = max_partitions
        self._label_names = label_names
        self._seconds = scrape_seconds(registry)

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format; without a store, those of streams are missing."""
        begun = perf_counter()
        text = generate_latest(self._registry) + self._of_the_store()
        self._seconds.observe(perf_counter() - begun)
        return text

    def _of_the_store(self) -> bytes:
        try:
            read = self._read()
        except STORE_ERRORS:
            return generate_latest(_Families([_one("tidemark_store_up", 0)]))
        exposed, left_out = _most_notable(read, self._max_partitions)
        families = [
            _one("tidemark_store_up", 1),
            _one("tidemark_streams", len(read.streams)),
            _one("tidemark_partitions_not_exposed", left_out),
            *stream_families(
                read.streams, read.partitions, read.needs, read.rollouts, label_names=self._label_names
            ),
        ]
        return generate_latest(_Families(families)) + "".join(partition_lines(exposed)).encode()

    def _read(self) -> _Read:
        with self._database.read() as session:
            return _Read(
                load_states(session),
                load_partitions(session),
                load_needs(session),
                rollouts_by_state(session),
            )


def _one(name: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, HELP[name], value=value)


def _most_notable(read: _Read, limit: int) -> tuple[list[tuple[str, str, PartitionSummary]], int]:
    """Return the partitions to expose, by stream the most notable first, and how many are left out."""
    exposed: list[tuple[str, str, PartitionSummary]] = []
    left_out = 0
    for stream in read.streams:
        partitions = read.partitions.get(stream.id, ())
        if len(partitions) > limit:
            left_out += len(partitions) - limit
            partitions = sorted(partitions, key=lambda each: each.notable)[:limit]
        exposed.extend((stream.row.job, stream.row.stream, each) for each in partitions)
    return exposed, left_out
