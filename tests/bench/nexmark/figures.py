"""What the results in a sink say of a system, completeness, latency and state; and what Spark says of late bids."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np

from bench.nexmark.bids import WINDOW_S, Bids
from bench.nexmark.in_spark import Batch

__all__ = ["Result", "dropped_by_step", "figures_of"]

_US = 1_000_000


class Result(NamedTuple):
    """What a system said of an auction in a window."""

    window_end_us: int
    auction: int
    bids: int
    max_price: int
    written_us: int
    """When Kafka had it, by the broker's clock, in whole milliseconds."""


def figures_of(
    bids: Bids, begin_us: int, results: Sequence[Result], part_s: int, step_s: int
) -> dict[str, Any]:
    """Return a system's figures.

    ``counted`` and ``sent`` are bids; latencies are seconds from a window's end to each of its results; ``state`` is
    how many counts, one an auction and window, it held at most: each from the arrival of its first bid until its
    result was out. ``parts`` has bids and mean latency by the part in which windows end, ``steps`` the same three
    numbers by step. Without results a latency is None.

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
            if 0 < group[0] <= bids.counted_s:
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

    def parts(length_s: int) -> list[dict[str, Any]]:
        whole: list[list[tuple[int, int]]] = [[] for _ in range(0, bids.counted_s, length_s)]
        for group in truth:
            whole[(group[0] - 1) // length_s].append(group)
        return [
            {
                "sent": sum(len(truth[group]) for group in groups),
                "counted": sum(found[group].bids for group in groups if group in found),
                "latency_mean_s": _mean([latency_s(group) for group in groups if group in found]),
            }
            for groups in whole
        ]

    latencies = [latency_s(group) for group in found]
    opened = [float(bids.arrival_s[truth[group][0]]) for group in found]
    closed = [latency_s(group) + group[0] for group in found]
    changes = sorted([(time, 1) for time in opened] + [(time, -1) for time in closed])
    return {
        "sent": int(bids.counted.sum()),
        "counted": sum(result.bids for result in found.values()),
        "latency_mean_s": _mean(latencies),
        "latency_p95_s": round(float(np.quantile(latencies, 0.95)), 3) if latencies else None,
        "state": max(accumulate(change for _, change in changes), default=0),
        "parts": parts(part_s),
        "steps": [list(part.values()) for part in parts(step_s)],
    }


def dropped_by_step(batches: Sequence[Batch], begin_us: int, counted_s: int, step_s: int) -> dict[str, Any]:
    """Return what Spark says of late bids; nothing without batches.

    ``dropped`` is the sum of its ``numRowsDroppedByWatermark``, ``said`` by the step in which batches began the rows
    that they read and those that they dropped.
    """
    if not batches:
        return {}
    said = [[0, 0] for _ in range(0, counted_s, step_s)]
    for batch in batches:
        step = int((batch.begin_us - begin_us) / _US // step_s)
        if step < len(said):
            said[step][0] += batch.rows
            said[step][1] += batch.dropped
    return {"dropped": sum(batch.dropped for batch in batches), "said": said}


def _mean(values: Sequence[float]) -> float | None:
    return round(float(np.mean(values)), 3) if values else None
