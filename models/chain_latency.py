"""The latency of windows that close behind another operator of their query."""

from __future__ import annotations

from dataclasses import replace

from tidemark.models.coupling import Chain
from tidemark.models.curve import MeanLatency


def latency_of(wall: MeanLatency | None, chain: Chain | None, bound_ms: int) -> MeanLatency | None:
    """Return the mean wall latency of a query's last windows under a bound; None when it is not known.

    Where the stream's own operator has no windows, it is at least what passes in event time until they close.

    Args:
        wall: the latency of the windows of the stream's own operator; None without any.
        chain: what the bound decides behind that operator; None when nothing.
        bound_ms: the bound, in milliseconds.
    """
    closes_ms = None if chain is None else chain.closes_ms(bound_ms)
    if chain is None or chain.retention_ms is None or closes_ms is None:
        return wall
    if wall is None:
        return MeanLatency(closes_ms * 1_000, censored=True)
    return replace(wall, mean_us=wall.mean_us + chain.retention_ms * 1_000)
