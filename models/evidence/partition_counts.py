"""How the partitions of a stream are, and what a skewed one costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from tidemark.models.base.duration import format_about


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsInState:
    """How many partitions of a stream are in which state."""

    total: int
    """With a row within the horizon."""
    idle: int
    """Those that used to report and are silent."""
    behind: int
    """Those that are behind."""
    skewed: int
    """Those without which the bound would be far narrower."""
    future: int
    """Those with future-dated rows within the horizon."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkewCost:
    """What a skewed partition costs."""

    partition: str
    """Its name."""
    without_bound_ms: int
    """The bound that the other partitions need, in milliseconds."""
    costs_ms: int
    """By how much the bound would fall without it, in milliseconds."""
    text: str
    """The same as a sentence."""

    @classmethod
    def of(cls, partition: str, costs_ms: int | None, without_ms: int | None) -> Self:
        """Return what a partition costs; what is not known counts as 0."""
        costs_ms, without_ms = costs_ms or 0, without_ms or 0
        text = (
            f"partition {partition!r} costs {format_about(costs_ms * 1_000)} of latency: "
            f"without it the bound would be {format_about(without_ms * 1_000)}"
        )
        return cls(partition=partition, without_bound_ms=without_ms, costs_ms=costs_ms, text=text)
