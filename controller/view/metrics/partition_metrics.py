"""The metrics of partitions, of which there are many: of those that matter, or of all where a scrape asks for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tidemark.controller.base.counters import PARTITION
from tidemark.controller.view.metrics.series import LabelSet
from tidemark.controller.view.state.partition_rows import PartitionFacts
from tidemark.controller.view.state.state import StreamState

_MOST_EXPOSED = 500
"""How many partitions of the fleet have series at most, unless a scrape asks for all: some 100 kB."""

Exposed = tuple[str, str, PartitionFacts]
"""The job, the stream and a partition that has series of its own."""


def most_notable(
    streams: Iterable[StreamState],
    partitions_of: Mapping[int, Sequence[PartitionFacts]],
    limit: int,
    *,
    detail: bool,
) -> list[Exposed]:
    """Return the partitions to expose, the most notable first, at most ``limit`` of each stream."""
    exposed = [
        (stream.row.job, stream.row.stream, part)
        for stream in streams
        for part in sorted(partitions_of.get(stream.id, ()), key=lambda part: part.notable)[:limit]
    ]
    return exposed if detail else sorted(exposed, key=lambda one: one[2].notable)[:_MOST_EXPOSED]


def partition_values(exposed: Iterable[Exposed]) -> Iterable[tuple[LabelSet, Mapping[str, float | None]]]:
    """Yield the labels and the values of each partition, by metric; None is unknown."""
    for job, stream, partition in exposed:
        yield (
            LabelSet(PARTITION, (job, stream, partition.partition)),
            {
                "tidemark_partition_skewed": partition.skewed,
                "tidemark_partition_skew_cost_seconds": None
                if partition.costs_ms is None
                else partition.costs_ms / 1_000,
                "tidemark_partition_idle": None if partition.state is None else partition.state == "Idle",
                "tidemark_partition_behind": None if partition.state is None else partition.state == "Behind",
                "tidemark_partition_rows_future_total": partition.future_rows,
                "tidemark_partition_rows_misdated_total": partition.misdated_rows,
            },
        )
