"""Restarts for a bound: few, none without need, and the target is met all the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.backtest.recommended import RecommendedPolicy
from tidemark.models.backtest.run import BacktestScore, meets, run, score
from tidemark.models.base.operators import tumbling
from tidemark.models.base.target import PPM
from tidemark.models.evidence.curve import Curve
from tidemark.models.evidence.events import NO_BATCHES, LateBatches, Overdispersion
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import DAY_US
from tidemark.models.live.policy import Setup
from tidemark.models.recommend.bound_in_use import UNCHANGED, BoundInUse
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.recommendation import recommend
from tidemark.models.specs.slo import Policy

from support.backtests import arrivals_of
from support.recommendations import GOOD, IN_ONE_STEP, THOUSAND, inputs, step
from support.streams import SECOND

pytestmark = pytest.mark.slow


def _restarting(asked: Inputs, lasted_s: float | None = None) -> Inputs:
    """Return the inputs where a change takes a restart, the last one so many seconds ago."""
    since_us = None if lasted_s is None else -round(lasted_s * SECOND)
    return replace(asked, changes=BoundInUse(asked.in_use_bound_ms, since_us))


@pytest.mark.parametrize(("in_use_ms", "bound_ms"), [(992, 992), (991, 1_100), (998, 998)])
def test_a_bound_stays_until_it_would_have_spent_most_of_the_budget(in_use_ms: int, bound_ms: int) -> None:
    """Of 1,000 rows ten may be late; that 992 ms is not certified is no reason to restart."""
    found = recommend(_restarting(inputs(THOUSAND, in_use_bound_ms=in_use_ms)))
    assert found.bound_ms == bound_ms
    if in_use_ms == 992:
        assert step(found, "restarts").reason == (
            "the bound in use, 992 ms, would have spent 80 % of the error budget on all rows counted, and is not "
            "widened below 80 %"
        )


def test_without_a_restart_a_bound_is_widened_as_soon_as_its_certificate_is_gone() -> None:
    """In OnRestart and Live a change restarts no job."""
    assert recommend(inputs(THOUSAND, in_use_bound_ms=992)).bound_ms == 998


def test_a_widening_leaves_most_of_the_budget_so_that_it_lasts() -> None:
    """9,920 ms is certified, of 10,000 rows; 25 of the 100 that may be late need more than 9,975 ms."""
    found = recommend(_restarting(inputs(range(1, 10_001), in_use_bound_ms=9_000)))
    assert found.steps[0].bound_ms is not None
    assert found.steps[0].bound_ms < 9_975
    assert found.bound_ms == 9_980
    assert step(found, "restarts").reason == (
        "9.98 s would have spent at most 25 % of the error budget on all rows counted, so that it lasts"
    )


def test_a_widening_for_a_restart_is_by_a_tenth_at_least() -> None:
    """998 ms would have spent less than a quarter, but a job that falls behind takes a restart for each step to it."""
    assert recommend(_restarting(inputs(THOUSAND, in_use_bound_ms=960))).bound_ms == 1_060
    assert recommend(_restarting(inputs(THOUSAND, in_use_bound_ms=900))).bound_ms == 998


def test_a_narrowing_leaves_as_much_so_that_it_is_not_taken_back() -> None:
    """Narrowed to what is certified, the bound that a widening came to would be undone at once."""
    asked = inputs(range(1, 10_001), in_use_bound_ms=60_000, policy=IN_ONE_STEP)
    assert recommend(_restarting(asked, lasted_s=1_000)).bound_ms == 9_980
    first = recommend(_restarting(asked)).bound_ms
    assert first is not None
    assert first < 9_975, "a guess is not what a widening came to"


@pytest.mark.parametrize("lasted_s", [1, 2_399, 2_401])
def test_a_narrowing_waits_until_it_saves_more_than_two_restarts_cost(lasted_s: int) -> None:
    """To narrow by 1.5 s pays for two restarts, of a minute each, when it lasts for forty minutes."""
    asked = inputs(range(1, 1_001), in_use_bound_ms=2_498, policy=IN_ONE_STEP)
    found = recommend(_restarting(asked, lasted_s))
    assert found.bound_ms == (998 if lasted_s > 2_400 else 2_498)
    if lasted_s == 1:
        assert found.because.endswith(
            "narrowing by 1.5 s is not worth a restart 1 s after the last one: the bound in use stays"
        )


def test_an_earlier_widening_does_not_hold_a_bound_for_a_day() -> None:
    """It is narrowed as soon as the narrower one is certified and saves more than it costs."""
    asked = inputs(THOUSAND, in_use_bound_ms=60_000, policy=IN_ONE_STEP)
    assert recommend(_restarting(asked, lasted_s=62)).bound_ms == 998


@pytest.mark.parametrize(("lasted_s", "bound_ms"), [(None, None), (1, 7_000), (3_600, 600)])
def test_a_bound_that_changed_before_comes_back_without_a_certificate(
    lasted_s: int | None, bound_ms: int | None
) -> None:
    """Eight uploads certify nothing, but what was widened by their rows is narrowed by them, too."""
    asked = inputs(range(1, 601), in_use_bound_ms=7_000)
    buckets = [Sketch().buckets_of(np.full(75, 75_000 * upload)) for upload in range(1, 9)]
    uploads = [LateBatches.of_batch(each, np.ones(75)) for each in buckets]
    overdispersion = Overdispersion.of([sum(uploads, NO_BATCHES)])
    asked = _restarting(replace(asked, curve=Curve(asked.curve.needs, None, overdispersion)), lasted_s)
    found = recommend(asked)
    assert found.bound_ms == bound_ms
    if bound_ms is not None:
        assert step(found, "quantile").reason.startswith(
            "600 of 600 rows need at most 600 ms, and the bound in use is wide enough; not enough evidence: 600 rows"
        )
    replayed = replace(asked, evidence=replace(asked.evidence, replayed_rows=1))
    assert recommend(replayed).bound_ms is None
    # Without the bound of the newest batch no step leaves most of the budget.
    assert recommend(replace(asked, changes=asked.changes.in_batch(None, 2 * SECOND))).bound_ms is None


needs = st.lists(st.integers(0, 10_000), min_size=420, max_size=1_500)


@given(needs_ms=needs, in_use_ms=st.integers(0, 12_000), lasted_s=st.integers(0, 100_000))
def test_no_row_that_the_target_needs_is_given_up_to_spare_a_restart(
    needs_ms: Sequence[int], in_use_ms: int, lasted_s: int
) -> None:
    """What is narrower than the certified bound is the bound in use, and kept the target on all rows counted."""
    asked = _restarting(inputs(needs_ms, in_use_bound_ms=in_use_ms), lasted_s)
    found, certified = recommend(asked), recommend(replace(asked, changes=UNCHANGED))
    assert (found.bound_ms is None) == (certified.bound_ms is None)
    if found.bound_ms is None or certified.bound_ms is None or found.bound_ms >= certified.bound_ms:
        return
    assert found.bound_ms == in_use_ms
    late = sum(need > in_use_ms for need in needs_ms)
    assert late * PPM <= (PPM - GOOD.target_ppm) * len(needs_ms)


@given(needs_ms=needs, in_use_ms=st.integers(0, 12_000), lasted_s=st.integers(0, 100_000))
def test_the_same_rows_never_take_two_restarts_in_a_row(
    needs_ms: Sequence[int], in_use_ms: int, lasted_s: int
) -> None:
    """After a change the bound that was asked for is right, whichever way it went."""
    asked = _restarting(inputs(needs_ms, in_use_bound_ms=in_use_ms), lasted_s)
    bound_ms = recommend(asked).bound_ms
    if bound_ms is not None and bound_ms != in_use_ms:
        again = _restarting(inputs(needs_ms, in_use_bound_ms=bound_ms), lasted_s=0)
        assert recommend(again).bound_ms == bound_ms


def test_what_was_required_before_it_was_worth_a_restart_widens_nothing() -> None:
    """1,200 ms was required within five minutes, of a bound that was kept."""
    asked = inputs(THOUSAND, in_use_bound_ms=995, recent_bounds_ms=(1_200,))
    assert recommend(_restarting(asked)).bound_ms == 995


def test_a_margin_does_not_widen_what_is_not_narrowed() -> None:
    """It would be widened again and again, by the margin each time."""
    asked = inputs(THOUSAND, policy=Policy(margin_ppm=100_000), in_use_bound_ms=5_000, missing_batches=1)
    assert recommend(asked).bound_ms == 5_000
    kept = inputs(THOUSAND, policy=Policy(margin_ppm=100_000), in_use_bound_ms=995)
    assert recommend(_restarting(kept)).bound_ms == 995


def test_a_bound_is_in_use_since_its_first_batch() -> None:
    """The first one that is seen may have been in use for long."""
    found = UNCHANGED.in_batch(8_000, 0).in_batch(8_000, SECOND)
    assert found == BoundInUse(8_000)
    assert found.in_batch(9_000, 2 * SECOND).in_batch(9_000, 3 * SECOND) == BoundInUse(9_000, 2 * SECOND)
    assert found.in_batch(None, 2 * SECOND).in_batch(9_000, 3 * SECOND) == BoundInUse(9_000)


def _replayed(setup: Setup, event_us: np.ndarray, delay_us: np.ndarray) -> BacktestScore:
    arrival_us = event_us + delay_us
    order = np.argsort(arrival_us, kind="stable")
    rows = [
        (int(event), int(arrival), 0)
        for event, arrival in zip(event_us[order], arrival_us[order], strict=True)
    ]
    arrivals = arrivals_of(rows, setup, 1)
    return score(arrivals, setup, run(arrivals, setup, RecommendedPolicy(setup)))


def test_an_outage_that_the_budget_covers_restarts_no_job() -> None:
    """Half of the rows of a minute come two minutes late: 0.4 % of all of two hours."""
    setup = Setup(operator=tumbling("10 s"), trigger_us=5 * SECOND, target_ppm=990_000, mode="restart")
    dice = np.random.default_rng(5)
    event_us = np.sort(dice.integers(0, 7_200 * SECOND, 14_400)) + 20_000 * DAY_US
    delay_us = (dice.exponential(0.2, len(event_us)) * SECOND).astype(np.int64)
    minute = (event_us - event_us[0]) // (60 * SECOND)
    delay_us[(minute == 90) & (dice.random(len(event_us)) < 0.5)] += 120 * SECOND
    found = _replayed(setup, event_us, delay_us)
    assert meets(setup, found), found.completeness
    assert found.bound_changes == 1, "the first bound"


@pytest.mark.slow
def test_days_of_swing_take_a_few_restarts_a_day_and_keep_the_target() -> None:
    """Delays that grow twentyfold and back each day: 64 restarts in three days, of which each widened by a percent."""
    days, setup = (
        3,
        Setup(operator=tumbling("1 min"), trigger_us=300 * SECOND, target_ppm=990_000, mode="restart"),
    )
    dice = np.random.default_rng(3)
    event_us = np.sort(dice.integers(0, days * DAY_US, days * 10_000)) + 20_000 * DAY_US
    mean_s = 20 * 20 ** ((1 - np.cos(2 * np.pi * event_us / DAY_US)) / 2)
    found = _replayed(setup, event_us, (dice.exponential(mean_s) * SECOND).astype(np.int64))
    assert meets(setup, found), found.completeness
    assert found.bound_changes <= 4 * days
