"""Short streams for the live policy, and the problem that it solves on them."""

from __future__ import annotations

from functools import cache

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder
from tidemark.models.base.operators import TimeWindow
from tidemark.models.live.policy import Setup
from tidemark.models.specs.slo import Objective

from support.streams import SECOND
from support.synthetic import Trace, synthetic

__all__ = ["counted", "setup", "short_trace"]


def setup(objective: Objective = "occurrences", target_ppm: int = 990_000, scale: int = 1) -> Setup:
    return Setup(
        operator=TimeWindow(10 * SECOND * scale, 10 * SECOND * scale),
        trigger_us=SECOND * scale,
        target_ppm=target_ppm,
        objective=objective,
    )


def counted(trace: Trace, asked: Setup) -> Arrivals:
    builder = ArrivalsBuilder(asked)
    builder.add(*trace, int(trace.partition.max()) + 1)
    return builder.build()


@cache
def short_trace(kind: str, seed: int = 3) -> Trace:
    """Return ten minutes of a kind at 50 rows a second, enough for every part of the policy to act."""
    return synthetic(kind, seed, rate=50, seconds=600)
