"""One scrape: the store is read once and let go; then all is written out, with what this process counted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from sqlalchemy import and_, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.db.database import STORE_ERRORS, Database
from tidemark.controller.db.tables import NeedSlotRow, StreamRow
from tidemark.controller.metrics.streams import stream_families
from tidemark.controller.rollout.store import rollouts_by_state
from tidemark.controller.runtime.counters import HELP, PARTITION, scrape_seconds
from tidemark.controller.stream_state.load import load_states
from tidemark.controller.stream_state.partition_summaries import PartitionSummary, load_partitions
from tidemark.controller.stream_state.state import StreamState
from tidemark.models.need_slots import merge_all
from tidemark.models.sketch import Sketch


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


_NEED_SLOTS = 2
"""How many of the newest slots are merged: the newest one alone may have begun with the newest batch."""


def load_needs(session: Session) -> dict[int, Sketch]:
    """Return by stream the needs of its newest slots; streams without any are left out."""
    slot = aliased(NeedSlotRow)
    of_stream = select(slot.slot_us).where(slot.stream_id == StreamRow.id).order_by(slot.slot_us.desc())
    wanted = [of_stream.limit(1).offset(n).scalar_subquery() for n in range(_NEED_SLOTS)]
    slots: defaultdict[int, list[Sketch]] = defaultdict(list)
    for stream_id, blob in session.execute(
        # An outer join makes SQLite begin with the streams; else it reads the slots of all time.
        select(StreamRow.id, NeedSlotRow.sketch).outerjoin(
            NeedSlotRow, and_(NeedSlotRow.stream_id == StreamRow.id, NeedSlotRow.slot_us.in_(wanted))
        )
    ):
        if blob is not None:
            slots[stream_id].append(Sketch.from_bytes(blob))
    return {stream_id: merge_all(sketches) for stream_id, sketches in slots.items()}


def _is(partition: PartitionSummary, state: str) -> int | None:
    return None if partition.state is None else int(partition.state == state)


_VALUES: tuple[tuple[str, str, Callable[[PartitionSummary], int | float | None]], ...] = (
    ("tidemark_partition_skewed", "gauge", lambda each: int(each.skewed)),
    (
        "tidemark_partition_skew_cost_seconds",
        "gauge",
        lambda each: None if each.costs_ms is None else each.costs_ms / 1_000,
    ),
    ("tidemark_partition_idle", "gauge", lambda each: _is(each, "Idle")),
    ("tidemark_partition_behind", "gauge", lambda each: _is(each, "Behind")),
    ("tidemark_partition_rows_future_total", "counter", lambda each: each.future_rows),
    ("tidemark_partition_rows_misdated_total", "counter", lambda each: each.misdated_rows),
)


def partition_lines(partitions: Iterable[tuple[str, str, PartitionSummary]]) -> Iterator[str]:
    """Return lines of the text format for partitions, given as (job, stream, partition)."""
    labelled = [(_labels(job, stream, each.partition), each) for job, stream, each in partitions]
    for name, kind, value_of in _VALUES:
        yield f"# HELP {name} {_escaped(HELP[name])}\n# TYPE {name} {kind}\n"
        for labels, partition in labelled:
            value = value_of(partition)
            if value is not None:
                yield f"{name}{labels} {value!r}\n"


def _labels(*values: str) -> str:
    pairs = (f'{name}="{_quoted(value)}"' for name, value in zip(PARTITION, values, strict=True))
    return "{" + ",".join(pairs) + "}"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")
