"""Streams for tests of the mathematics: named data sets, the textbook's stream, and reports made from rows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidemark.models.base.granules import granule_index
from tidemark.models.base.operators import Int64s, Operator, RowLevel, SessionWindow, TimeWindow
from tidemark.models.evidence.curve import Replay
from tidemark.models.live.policy import NO_BASE_US
from tidemark.models.protocol.granule_counts import GranuleCounts, PartitionCounts
from tidemark.models.protocol.messages import Report

__all__ = [
    "DATA_SETS",
    "SECOND",
    "TEXTBOOK_TABLE",
    "data_set",
    "operators",
    "report_of",
    "row_replay",
    "slow_keys",
    "textbook_stream",
]

SECOND = 1_000_000
Float64s = NDArray[np.float64]
Row = tuple[str, int]
"""A row of a batch: partition and event time in microseconds."""


# -- needs, in microseconds, by the shapes that delays take --------------------------------------------------


def _clock_skew(rng: np.random.Generator, size: int) -> Float64s:
    return rng.normal(0, 5e3, size)


def _bimodal(rng: np.random.Generator, size: int) -> Float64s:
    return np.where(rng.random(size) < 0.9, rng.normal(200e3, 20e3, size), rng.normal(60e6, 5e6, size))


def _step_change(rng: np.random.Generator, size: int) -> Float64s:
    return np.concatenate([rng.exponential(1e6, size // 2), rng.exponential(300e6, size - size // 2)])


def _one_slow_partition(rng: np.random.Generator, size: int) -> Float64s:
    slow = np.arange(size) % 16 == 3
    return rng.exponential(50e3, size) + np.where(slow, 120e6, 0)


DATA_SETS: dict[str, Callable[[np.random.Generator, int], Float64s]] = {
    "exponential": lambda rng, size: rng.exponential(6e6, size),
    "pareto": lambda rng, size: 1e3 * (1 + rng.pareto(0.8, size)),
    "bimodal": _bimodal,
    "step change": _step_change,
    "one slow partition": _one_slow_partition,
    "all negative": lambda rng, size: -rng.exponential(10e6, size),
    "clock skew around zero": _clock_skew,
    "ties": lambda rng, size: rng.integers(-3, 4, size).astype(np.float64) * 1e6,
    "constant": lambda _, size: np.full(size, 1_234_567.0),
    "constant zero": lambda _, size: np.zeros(size),
    "extremes": lambda rng, size: rng.choice([-(2.0**63), -1.0, 0.0, 1.0, 2.0**63], size),
}
"""Needs by the name of their shape; each takes a generator and a size."""


def data_set(name: str, size: int) -> Float64s:
    """Return ``size`` needs of the named shape, the same at each call."""
    return DATA_SETS[name](np.random.default_rng([size, *name.encode()]), size)


# -- the textbook's stream -----------------------------------------------------------------------------------

TEXTBOOK_TABLE = {
    0: ("65.84 %", 6832, "0.87"),
    2: ("75.39 %", 4923, "2.90"),
    5: ("85.00 %", 2999, "5.79"),
    10: ("93.47 %", 1307, "10.87"),
    20: ("99.48 %", 105, "20.87"),
    40: ("100.00 %", 0, "40.87"),
}
"""By bound in seconds: completeness, late rows and mean emit latency (base minus end) in seconds.

Each row moves the base for the next one, as in ``row_replay``.
"""


def textbook_stream() -> tuple[Int64s, Int64s]:
    """Return event and arrival times, in order of arrival, of the stream that ``TEXTBOOK_TABLE`` is about.

    20,000 events every 0.5 s, exponential delays of mean 6 s capped at 25 s; windows are of 10 s.
    """
    draw = random.Random(7)
    event = np.arange(20_000, dtype=np.int64) * SECOND // 2
    delay = np.array([round(min(draw.expovariate(1 / 6), 25) * SECOND) for _ in range(len(event))], np.int64)
    order = np.argsort(event + delay, kind="stable")
    return event[order], (event + delay)[order]


def row_replay(event_us: Int64s, arrival_us: Int64s, operator: Operator) -> Replay:
    """Return the replay of rows, in order of arrival, each of which moves the base for the next one."""
    base = np.maximum.accumulate(event_us) if len(event_us) else event_us
    row, key = operator.keys(event_us)
    before = np.append(np.full(1, NO_BASE_US), base)[: len(base)]
    return Replay(key, np.ones_like(key), row, before, base, arrival_us, 1)


# -- operators and reports -----------------------------------------------------------------------------------


def slow_keys(operator: Operator, time_us: int) -> list[int]:
    """Return the keys of one row straight from the definition, ascending."""
    match operator:
        case SessionWindow():
            return [time_us + operator.gap_us]
        case RowLevel():
            return [time_us]
        case TimeWindow():
            around = (time_us - operator.start_us) // operator.slide_us
            reach = operator.size_us // operator.slide_us + 2
            starts = (
                operator.start_us + k * operator.slide_us for k in range(around - reach, around + reach)
            )
            return [
                start + operator.size_us for start in starts if start <= time_us < start + operator.size_us
            ]


def operators(unit_us: int = 1) -> st.SearchStrategy[Operator]:
    """Return operators of every kind whose lengths are small multiples of ``unit_us``."""
    few = st.integers(1, 12)
    windows = st.tuples(few, few, st.integers(0, 12)).map(
        lambda drawn: TimeWindow(max(drawn[:2]) * unit_us, min(drawn[:2]) * unit_us, drawn[2] * unit_us)
    )
    return st.one_of(windows, few.map(lambda gap: SessionWindow(gap * unit_us)), st.just(RowLevel()))


def report_of(
    rows: Iterable[Row],
    operator: Operator,
    /,
    *,
    late_watermark_ms: int | None,
    granule_us: int = 1_000,
    uncounted: Iterable[Row] = (),
    copies: int = 1,
    **changes: Any,
) -> Report:
    """Return the report of a batch of ``rows``, each so many times; the tap could not count those in ``uncounted``."""
    counted, lost = list(rows), list(uncounted)
    times = [time for _, time in counted + lost]
    indexes = granule_index(np.array([time for _, time in counted], np.int64), granule_us, operator.closed)
    by_partition: dict[str, Counter[int]] = {}
    for (partition, _), index in zip(counted, indexes.tolist(), strict=True):
        by_partition.setdefault(partition, Counter())[index] += 1
    fields: Mapping[str, Any] = {
        "schema_version": 1,
        "job": "job",
        "stream": "stream",
        "query_id": "query",
        "run_id": "run",
        "batch_id": 0,
        "started_us": 0,
        "duration_ms": 0,
        "operator": operator,
        "output_mode": "append",
        "bound_ms": 0,
        "generation": None,
        "late_watermark_ms": late_watermark_ms,
        "watermark_ms": late_watermark_ms or 0,
        "late_base_ms": None,
        "granule_us": granule_us,
        "closed": operator.closed,
        "rows": copies * len(times),
        "null_rows": 0,
        "min_event_time_us": min(times, default=None),
        "max_event_time_us": max(times, default=None),
        "counts": GranuleCounts.of(
            PartitionCounts(
                partition=name,
                granules=tuple(sorted(counts)),
                counts=tuple(copies * count for _, count in sorted(counts.items())),
            )
            for name, counts in sorted(by_partition.items())
        ),
        "state_rows": 0,
        "state_bytes": 0,
        "dropped_by_spark": 0,
    }
    return Report(**{**fields, **changes})
