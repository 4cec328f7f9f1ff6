"""The metrics of partitions, of which there are many: as lines of Prometheus' text, and as its families."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

from tidemark.controller.base.counters import HELP, LABELS, PARTITION
from tidemark.controller.view.state.partition_rows import PartitionSummary
from tidemark.controller.view.state.state import StreamState

Exposed = tuple[str, str, PartitionSummary]
"""The job, the stream and a partition that has series of its own."""


def most_notable(
    streams: Iterable[StreamState], partitions_of: Mapping[int, Sequence[PartitionSummary]], limit: int
) -> tuple[list[Exposed], int]:
    """Return the partitions to expose, by stream the most notable first, and how many are left out."""
    exposed: list[Exposed] = []
    left_out = 0
    for stream in streams:
        partitions = partitions_of.get(stream.id, ())
        if len(partitions) > limit:
            left_out += len(partitions) - limit
            partitions = sorted(partitions, key=lambda each: each.notable)[:limit]
        exposed.extend((stream.row.job, stream.row.stream, each) for each in partitions)
    return exposed, left_out


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


def partition_lines(partitions: Iterable[Exposed]) -> Iterator[str]:
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


def partition_families(partitions: Sequence[Exposed]) -> Iterator[CounterMetricFamily | GaugeMetricFamily]:
    """Yield the same for what is not Prometheus."""
    for name, _, value_of in _VALUES:
        family = family_of(name)
        for job, stream, partition in partitions:
            value = value_of(partition)
            if value is not None:
                family.add_metric((job, stream, partition.partition), value)
        yield family


def family_of(name: str) -> CounterMetricFamily | GaugeMetricFamily:
    """Return the metric ``name``, without samples."""
    if name.endswith("_total"):
        return CounterMetricFamily(name, HELP[name], labels=LABELS[name])
    return GaugeMetricFamily(name, HELP[name], labels=LABELS[name])
