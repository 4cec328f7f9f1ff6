"""How single windows came out: the share that reached the target, and the worst of them."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.target import PPM


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCounts:
    """Windows (or minutes, for operators without) that the watermark has passed, over some span."""

    closed: int
    """How many there are."""
    good: int
    """How many of them certainly reached the target."""
    maybe_good: int
    """How many reached it if every uncertain row was admitted."""
    worst_ppm: int | None
    """The lowest share of rows that any of them certainly admitted, in parts per million; None without windows."""

    @property
    def good_ppm(self) -> int:
        """Share of them that certainly reached the target, in parts per million; 1,000,000 without windows."""
        return self.good * PPM // self.closed if self.closed else PPM


@dataclass(frozen=True, slots=True)
class Windows:
    """The outcome of single windows."""

    horizon: WindowCounts
    """Over the horizon."""
    since: WindowCounts
    """Those of them that closed since the bound in use was applied."""
