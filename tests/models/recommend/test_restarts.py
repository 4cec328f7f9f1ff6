"""Restarts for a bound: a daily cycle takes a few, and the target is met all the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tidemark.models.backtest.recommended import RecommendedPolicy
from tidemark.models.backtest.run import meets, run, score
from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.slots import DAY_US
from tidemark.models.live.policy import Setup
from tidemark.models.recommend.bound_in_use import UNCHANGED, BoundInUse
from tidemark.models.recommend.recommendation import recommend

from support.backtests import arrivals_of
from support.recommendations import THOUSAND, inputs, step
from support.streams import SECOND


def test_each_change_within_a_day_makes_a_widening_go_further() -> None:
    """A quarter of the bound in use for each, but no further than any row needs."""
    found = [
        recommend(
            replace(
                inputs(THOUSAND, in_use_bound_ms=700),
                changes=BoundInUse(700, tuple(range(changes)), widened_us=0),
            )
        )
        for changes in range(3)
    ]
    assert [each.bound_ms for each in found] == [998, 998, 1_000]
    reason = step(found[2], "restarts").reason
    assert reason == "the bound changed 2 times within a day: widened to 1 s, to last for longer"


def test_after_a_widening_nothing_is_narrowed_for_a_day() -> None:
    """What was too narrow at some hour of a day would be so again tomorrow."""
    asked = inputs(THOUSAND, in_use_bound_ms=9_000)
    widened = UNCHANGED.in_batch(8_000, 0).in_batch(9_000, 60 * SECOND)
    for at_us, narrows in ((60 * SECOND, False), (DAY_US, False), (DAY_US + 60 * SECOND, True)):
        found = recommend(replace(asked, changes=widened.in_batch(9_000, at_us)))
        assert (found.bound_ms == 998) is narrows, at_us
    assert "the bound was widened within the last day" in recommend(replace(asked, changes=widened)).reason


def test_each_change_within_a_day_asks_more_of_a_narrowing() -> None:
    """After two narrowings it must save three tenths."""
    narrowed = UNCHANGED.in_batch(3_000, 0).in_batch(2_000, SECOND).in_batch(1_300, 2 * SECOND)
    assert recommend(inputs(THOUSAND, in_use_bound_ms=1_300)).bound_ms == 998
    found = recommend(replace(inputs(THOUSAND, in_use_bound_ms=1_300), changes=narrowed))
    assert found.bound_ms == 1_300
    assert found.reason.endswith(
        "narrowing by 302 ms is less than 30 %, and the bound changed 2 times within a day: the bound in use stays"
    )


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
    arrival_us = event_us + (dice.exponential(mean_s) * SECOND).astype(np.int64)
    order = np.argsort(arrival_us, kind="stable")
    rows = [
        (int(event), int(arrival), 0)
        for event, arrival in zip(event_us[order], arrival_us[order], strict=True)
    ]
    arrivals = arrivals_of(rows, setup, 1)
    found = score(arrivals, setup, run(arrivals, setup, RecommendedPolicy(setup)))
    assert meets(setup, found), found.completeness
    assert found.bound_changes <= 4 * days
