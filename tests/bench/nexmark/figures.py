"""What the results in a sink say of a system: completeness, latency and state, and their tables."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bench.nexmark.bids import COUNTED_S, WINDOW_S, Bids

__all__ = ["BENCHMARK", "PART_S", "Result", "benchmark_tables", "figures_of", "table"]

BENCHMARK = Path(__file__).with_name("benchmark.json")
"""What `make benchmark ARGS=--record` found."""

PART_S = 120
"""Seconds of the parts that the second table has."""
_US = 1_000_000


class Result(NamedTuple):
    """What a system said of an auction in a window."""

    window_end_us: int
    auction: int
    bids: int
    max_price: int
    written_us: int
    """When Kafka had it, by the broker's clock, in whole milliseconds."""


def figures_of(bids: Bids, begin_us: int, results: Sequence[Result]) -> dict[str, Any]:
    """Return a system's figures.

    ``counted`` and ``sent`` are bids; latencies are seconds from a window's end to each of its results; ``state`` is
    how many counts, one an auction and window, it held at most: each from the arrival of its first bid until its
    result was out. ``parts`` has bids and mean latency by the part in which windows end. Without results a latency is
    None.

    Raises:
        ValueError: when a result is not what the bids of its auction and window allow.
    """
    ends = (bids.event_s // WINDOW_S + 1).astype(np.int64) * WINDOW_S
    truth: dict[tuple[int, int], list[int]] = {}
    for index in np.flatnonzero(bids.counted).tolist():
        truth.setdefault((int(ends[index]), int(bids.auction[index])), []).append(index)

    found: dict[tuple[int, int], Result] = {}
    for result in results:
        group = (round((result.window_end_us - begin_us) / _US), result.auction)
        if group not in truth:
            if 0 < group[0] <= COUNTED_S:
                raise ValueError(f"{result} has no bid")
            continue
        if group in found:
            raise ValueError(f"{found[group]} and {result} are of one window")
        own = truth[group]
        if result.bids > len(own) or result.max_price > bids.price[own].max():
            raise ValueError(f"{result} counts what was not sent")
        found[group] = result

    def latency_s(group: tuple[int, int]) -> float:
        return (found[group].written_us - begin_us) / _US - group[0]

    parts = []
    for first in range(0, COUNTED_S, PART_S):
        groups = [group for group in truth if first < group[0] <= first + PART_S]
        parts.append(
            {
                "sent": sum(len(truth[group]) for group in groups),
                "counted": sum(found[group].bids for group in groups if group in found),
                "latency_mean_s": _mean([latency_s(group) for group in groups if group in found]),
            }
        )
    latencies = [latency_s(group) for group in found]
    opened = [float(bids.arrival_s[truth[group][0]]) for group in found]
    closed = [latency_s(group) + group[0] for group in found]
    changes = sorted([(time, 1) for time in opened] + [(time, -1) for time in closed])
    return {
        "sent": int(bids.counted.sum()),
        "counted": sum(result.bids for result in found.values()),
        "latency_mean_s": _mean(latencies),
        "latency_p95_s": float(np.quantile(latencies, 0.95)) if latencies else None,
        "state": max(accumulate(change for _, change in changes), default=0),
        "parts": parts,
    }


def benchmark_tables(record: dict[str, Any]) -> str:
    """Return the table of all systems, and that of the parts."""
    systems, part_min = record["systems"], record["part_s"] // 60
    rows = [
        [
            each["system"],
            each["watermark"],
            _share(each),
            _seconds(each["latency_mean_s"]),
            _seconds(each["latency_p95_s"]),
            f"{each['state']:,}",
        ]
        for each in systems
    ]
    heads = ("system", "watermark", "bids counted", "latency, mean", "95 %", "state")
    by_part = [
        [
            f"{each['system']}, {each['watermark']}",
            *(f"{_share(one)}, {_seconds(one['latency_mean_s'])}" for one in each["parts"]),
        ]
        for each in systems
    ]
    begins_min = range(0, record["counted_s"] // 60, part_min)
    part_heads = (
        "bids counted, mean latency",
        *(f"minutes {begin} to {begin + part_min}" for begin in begins_min),
    )
    return table(heads, rows) + "\n" + table(part_heads, by_part)


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:.1f} s"


def _share(counts: dict[str, Any]) -> str:
    # Down, so that a target that is missed is not shown as met.
    return f"{np.floor(counts['counted'] / counts['sent'] * 1e4) / 100:.2f} %"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
