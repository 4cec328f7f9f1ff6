"""The metrics of each partition, as text.

Partitions are the many: 500 streams of 64 have 160,000 samples. The client library takes a second of CPU time for
these, because it formats the labels of each sample anew; here they are formatted once a partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tidemark.controller.metrics.names import HELP, PARTITION
from tidemark.controller.stream_state.partition_rows import PartitionSummary


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
