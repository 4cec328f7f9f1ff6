"""Limits of a store: its streams, and the partitions of each. Each costs rows, decisions and metric labels for good."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Maximum numbers; None for no limit."""

    streams: int | None = None
    """Streams of all jobs."""
    partitions: int | None = None
    """Partitions of one stream."""


NO_LIMITS = Limits()
"""No limit at all."""
