"""The systems that count a stage's bids, and their watermarks; the best constants come from a replay of its bids."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.backtest.flink import Flink
from tidemark.models.backtest.yardstick import fixed_hindsight, flink_hindsight
from tidemark.models.base.operators import tumbling
from tidemark.models.live.policy import Setup

from bench.nexmark.bids import PARTITIONS, WINDOW_S, Bids
from bench.nexmark.in_flink import FLINK_TICK_MS
from bench.nexmark.in_spark import SPARK_TRIGGER_S
from bench.nexmark.stages import Stage
from bench.nexmark.tables import time_text

__all__ = ["TARGET_PPM", "Systems", "problem", "systems_of"]

TARGET_PPM = 995_000
_MODES: Mapping[str, Literal["Live", "Restart"]] = {"live": "Live", "restart": "Restart"}


@dataclass(frozen=True, slots=True)
class Systems:
    """What each system of a stage is, by its name."""

    groups: tuple[tuple[str, ...], ...]
    about: dict[str, str]
    """What its watermark is, in words."""
    bound_ms: dict[str, int]
    """The bound of Spark by itself."""
    modes: dict[str, Literal["Live", "Restart"]]
    """How Tidemark steers Spark."""
    flinks: dict[str, Flink]

    def engine(self, name: str) -> str:
        """Return the name of what counts."""
        if name in self.flinks:
            return "Flink"
        return "Spark" if name in self.bound_ms else f"Tidemark {self.modes[name]}"


def systems_of(stage: Stage, bids: Bids, *, with_flink: bool = True) -> Systems:
    """Return the systems of a stage, those of Flink only where it is there."""
    groups = [
        tuple(name for name in group if with_flink or not name.startswith("flink")) for group in stage.groups
    ]
    names = [name for group in groups for name in group]
    guess = f"{time_text(stage.guess_s, stage.speed)}, a guess"
    steered = "steered"
    about = {"spark-guess": guess, "flink-guess": guess, "live": steered, "restart": steered}
    bound_s, flinks = {"spark-guess": stage.guess_s}, {"flink-guess": Flink(round(stage.guess_s * 1e6))}
    if stage.safe_s is not None:
        bound_s["spark-safe"] = stage.safe_s
        about["spark-safe"] = f"{time_text(stage.safe_s, stage.speed)}, to be safe"
    best_us, _ = fixed_hindsight(*problem(bids, SPARK_TRIGGER_S * 1_000_000))
    bound_s["spark-best"] = best_us / 1e6
    about["spark-best"] = _best(stage, best_us)
    if "flink-best" in names:
        best, _ = flink_hindsight(*problem(bids, FLINK_TICK_MS * 1_000))
        idle = (
            ""
            if best.idle_us is None
            else f", partitions idle after {time_text(best.idle_us / 1e6, stage.speed)}"
        )
        flinks["flink-best"] = best
        about["flink-best"] = _best(stage, best.bound_us) + idle
    return Systems(
        groups=tuple(filter(None, groups)),
        about=about,
        bound_ms={name: round(bound_s[name] * 1_000) for name in names if name in bound_s},
        modes={name: _MODES[name] for name in names if name in _MODES},
        flinks={name: flinks[name] for name in names if name in flinks},
    )


def problem(bids: Bids, tick_us: int) -> tuple[Arrivals, Setup]:
    """Return what the best constant is looked for in."""
    setup = Setup(operator=tumbling(f"{WINDOW_S} seconds"), trigger_us=tick_us, target_ppm=TARGET_PPM)
    builder = ArrivalsBuilder(setup)
    # Any begin that is one of windows and triggers, as that of the stream.
    event_us, arrival_us = ((time_s * 1e6).astype(int) for time_s in (bids.event_s, bids.arrival_s))
    builder.add(event_us, arrival_us, bids.partition, PARTITIONS)
    return builder.build(), setup


def _best(stage: Stage, bound_us: int) -> str:
    return f"{time_text(bound_us / 1e6, stage.speed)}, best in hindsight"
