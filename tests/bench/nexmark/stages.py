"""The benchmark's stages: which bids are sent, and which systems count them side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.nexmark.bids import SHORT_S, Bids, make_bids
from bench.nexmark.day import DAY_S, HOUR_S, SPEED, make_day

__all__ = ["DAY", "SHORT", "STAGES", "Stage"]

_MINUTE_S = 60


@dataclass(frozen=True, slots=True)
class Stage:
    """A stream and who counts it; times in seconds as played."""

    name: str
    make: Callable[[], Bids]
    groups: tuple[tuple[str, ...], ...]
    """Systems that run side by side; the groups follow one another, each on the same bids."""
    counted_s: int
    """Length of what counts."""
    part_s: int
    """Length of the parts that the second table has."""
    step_s: int
    """Length of the steps that a figure has; divides that of the parts."""
    guess_s: float
    """The bound of somebody who knows no delays. Tidemark starts with it."""
    safe_s: float | None = None
    """The bound of somebody who wants to be safe."""
    speed: int = 1
    """Seconds that are shown for each second as played."""

    @property
    def record(self) -> Path:
        """Where ``--record`` keeps what was found."""
        return Path(__file__).with_name(f"{self.name}.json")


SHORT = Stage(
    name="short",
    make=make_bids,
    groups=(("spark-guess", "spark-best", "live"), ("flink-guess", "flink-best")),
    counted_s=SHORT_S,
    part_s=120,
    step_s=120,
    guess_s=10,
)
"""Eight minutes of delays that are alike, where a constant is best; the guess is a window."""
DAY = Stage(
    name="day",
    make=make_day,
    groups=(("spark-guess", "spark-safe", "spark-best", "live", "restart", "flink-best"),),
    counted_s=DAY_S // SPEED,
    part_s=HOUR_S // SPEED,
    step_s=10 * _MINUTE_S // SPEED,
    guess_s=10 / SPEED,
    safe_s=10 * _MINUTE_S / SPEED,
    speed=SPEED,
)
"""A day that changes by the hour, in 48 minutes."""
STAGES = {stage.name: stage for stage in (SHORT, DAY)}
