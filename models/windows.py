"""How single windows came out: the share that reached the target, and the worst of them."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.target import PPM

__all__ = ["WindowCounts", "Windows"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowCounts:
    """Windows (or minutes, for operators without) that the watermark has passed, over some span."""

    closed: int
    """How many there are."""
    good: int
    """How many of them reached the target for sure."""
    maybe_good: int
    """How many reached it if every doubtful row was admitted."""
    worst_ppm: int | None
    """The least share of its rows that any of them kept, for sure, in parts per million; None without windows."""

    @property
    def good_ppm(self) -> int:
        """Share of them that reached the target for sure, in parts per million; all of none."""
        return self.good * PPM // self.closed if self.closed else PPM


@dataclass(frozen=True, slots=True)
class Windows:
    """What is known of single windows."""

    horizon: WindowCounts
    """Over the horizon."""
    since: WindowCounts
    """Those among them that closed since the bound in use came into use."""
