"""Two partitions, one of which trails the other: what one base costs, and what the least of two watermarks saves.

Partition A is on time, partition B arrives a skew later and is itself out of order by its disorder. With one base
for both (or the mean of the two) B's rows are late unless the bound covers the skew as well; with the lowest of the
two watermarks the skew does not enter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.run import run, run_native
from tidemark.models.backtest.yardstick import fixed_hindsight
from tidemark.models.base.operators import Int64s, RowLevel
from tidemark.models.evidence.curve import Engine
from tidemark.models.live.policy import Decision, Observation, Setup

from support.backtests import Row, arrivals_of

SECOND = 1_000_000
TRIGGER = SECOND // 10
STEP = SECOND // 10
SKEW = 30 * SECOND
DISORDER = 2 * SECOND
SETUP = Setup(operator=RowLevel(), trigger_us=TRIGGER, target_ppm=999_999, engine="per-row")
ALL_OF_A, ALL_OF_B = 1_000, 1_000


def two_partitions() -> list[Row]:
    """A row a step in each; every seventh of B comes after the row that is ``DISORDER`` younger than itself."""
    rows = [(step * STEP, step * STEP, 0) for step in range(ALL_OF_A)]
    for step in range(ALL_OF_B):
        late = DISORDER + STEP // 2 if step % 7 == 5 else 0
        rows.append((step * STEP, step * STEP + SKEW + late, 1))
    return sorted(rows, key=lambda row: (row[1], row[2]))


def counted(setup: Setup) -> Arrivals:
    return arrivals_of(two_partitions(), setup, 2)


class Merged:
    """Lifts the watermark to a merge of the partitions' bases less a bound, at the end of each slot."""

    native = False

    def __init__(self, merge: Callable[[Int64s], float], bound_us: int) -> None:
        self._merge, self._bound = merge, bound_us
        self._base_us = np.empty(0, np.int64)

    def observe(self, seen: Observation) -> None:
        if len(seen.base_us):
            self._base_us = seen.base_us

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - a policy's signature
        if len(self._base_us) < 2:
            return Decision()  # both are known to exist: nothing is closed before both were seen
        return Decision(watermark_us=int(self._merge(self._base_us)) - self._bound)


def late_of_b_per_row(bound_us: int) -> int:
    """Rows of B at or below A's base less the bound when they come; A is ahead of every row of B."""
    late = 0
    for event, arrival, part in two_partitions():
        if part == 1:
            newest_of_a = (
                min((arrival - 1) // STEP if arrival % STEP else arrival // STEP, ALL_OF_A - 1) * STEP
            )
            late += event <= newest_of_a - bound_us
    return late


@pytest.mark.parametrize(
    "bound_us", [0, DISORDER + STEP, SKEW // 2, SKEW, SKEW + DISORDER, SKEW + DISORDER + STEP]
)
def test_with_one_base_as_many_rows_of_b_are_late_as_the_skew_says(bound_us: int) -> None:
    arrivals = counted(SETUP)

    assert run_native(arrivals, SETUP, bound_us).late == late_of_b_per_row(bound_us)


def test_with_one_base_the_bound_must_cover_the_skew_and_the_disorder() -> None:
    bound, found = fixed_hindsight(counted(SETUP), SETUP)

    assert found.late == 0
    # A row of B that comes DISORDER and half a step late meets an A that has come as far.
    assert bound == SKEW + DISORDER + 1


@pytest.mark.parametrize("engine", ["spark", "per-row"])
def test_with_the_least_of_two_watermarks_the_skew_does_not_enter(engine: Engine) -> None:
    setup = replace(SETUP, engine=engine, scope="partition")
    bound, found = fixed_hindsight(arrivals_of([(0, 0, 0), (0, 0, 1), *shifted_rows()], setup, 2), setup)

    assert found.late == 0
    assert bound <= DISORDER + 2 * STEP
    if engine == "per-row":
        assert bound == DISORDER + 1  # B's own disorder, exactly


def shifted_rows() -> list[Row]:
    """The two partitions a minute on; a first row of each came long before, so that both are known."""
    return [(event + 60 * SECOND, arrival + 60 * SECOND, part) for event, arrival, part in two_partitions()]


def test_an_engine_that_does_not_know_of_b_yet_closes_on_it() -> None:
    # B is first seen a skew after A: until then the lowest over what was seen is A's own.
    setup = replace(SETUP, scope="partition")
    bound, _ = fixed_hindsight(counted(setup), setup)

    assert bound == SKEW + 1


@pytest.mark.parametrize("engine", ["spark", "per-row"])
def test_with_the_maximum_or_the_mean_b_loses_rows_and_with_the_minimum_none(engine: Engine) -> None:
    setup = replace(SETUP, engine=engine)
    arrivals = counted(setup)
    enough_for_b = DISORDER + 4 * STEP
    late = {
        name: run(arrivals, setup, Merged(merge, enough_for_b)).late
        for name, merge in (("max", np.max), ("mean", np.mean), ("min", np.min))
    }

    assert late["min"] == 0
    # While A goes on it is SKEW ahead of B, the mean half of that: both are far beyond what B's rows need.
    assert late["max"] >= late["mean"] > 0.9 * ALL_OF_B


@pytest.mark.parametrize("engine", ["spark", "per-row"])
def test_the_mean_needs_half_the_skew_more(engine: Engine) -> None:
    setup = replace(SETUP, engine=engine)
    arrivals = counted(setup)
    enough = DISORDER + 4 * STEP + SKEW // 2

    assert run(arrivals, setup, Merged(np.mean, enough)).late == 0
    assert run(arrivals, setup, Merged(np.mean, enough - DISORDER - 8 * STEP)).late > 0.9 * (
        ALL_OF_B - 2 * 300
    )
