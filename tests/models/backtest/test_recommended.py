"""The controller's recommendation as a policy, and the needs of a sliding horizon that it rests on."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tidemark.models.backtest.recommended import RecommendedPolicy
from tidemark.models.backtest.run import run
from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import DAY_US, SLOT_US, SlidingNeeds, merge_all
from tidemark.models.live.policy import Decision, Observation, Setup
from tidemark.models.specs.slo import DAY_MS, Policy, Slo

from support.backtests import arrivals_of, random_rows
from support.seen import UNKNOWN_US, drawn_batches, seen_rows

SECOND = 1_000_000
SETUP = Setup(operator=tumbling("10 s"), trigger_us=10 * SECOND, target_ppm=900_000, mode="restart")


def test_the_needs_of_a_sliding_horizon_are_those_of_its_slots_merged() -> None:
    """Two stacks instead of a merge of every slot: faster, and not another number."""
    dice = np.random.default_rng(3)
    sliding, slots, slot, compared = SlidingNeeds(), dict[int, Sketch](), 0, 0
    for _ in range(600):
        slot += int(dice.choice([0, 0, 1, 1, 2, 40])) * SLOT_US
        need = dice.integers(-(10**6), 10**8, int(dice.integers(1, 4)))
        if slot not in slots:
            sliding.append(slot, Sketch())
        slots.setdefault(slot, Sketch()).add(need)
        sliding.add(need, np.ones_like(need))
        from_us = slot - int(dice.choice([5, 5, 5, 90])) * SLOT_US
        if from_us > min(slots):
            sliding.forget_before(from_us)
            slots = {start: sketch for start, sketch in slots.items() if start >= from_us}
        assert sliding.merged() == merge_all(sketch for _, sketch in sorted(slots.items()))
        compared += len(slots)
    assert compared > 1_000


def test_a_horizon_without_needs_is_an_empty_sketch() -> None:
    sliding = SlidingNeeds()
    sliding.forget_before(5 * SLOT_US)
    assert sliding.merged() == Sketch()
    sliding.append(0, Sketch())
    sliding.add(np.array([7]), np.array([2]))
    sliding.forget_before(SLOT_US)
    assert sliding.merged() == Sketch()


def test_without_evidence_nothing_is_decided_or_the_jobs_own_bound() -> None:
    few = seen_rows(100 * SECOND, [SECOND] * 5)
    blind = seen_rows(100 * SECOND, [UNKNOWN_US] * 5_000)
    for seen in (few, blind):
        policy, with_own = RecommendedPolicy(SETUP), RecommendedPolicy(SETUP, own_bound_us=7 * SECOND)
        for one in (policy, with_own):
            one.observe(seen)
        assert policy.decide(0, 0) == Decision()
        assert with_own.decide(0, 0) == Decision(bound_us=7 * SECOND)


def test_the_bound_certifies_the_target_on_the_needs_of_the_horizon() -> None:
    in_one_step = Policy(max_narrowing_ppm=None)
    policy = RecommendedPolicy(SETUP, Slo(target_ppm=900_000, horizon_ms=3_600_000), in_one_step)
    policy.observe(seen_rows(0, [50 * SECOND] * 1_000))
    assert policy.decide(0, 0).bound_us in range(50 * SECOND, 51 * SECOND)
    # Two hours later the wide needs have left the horizon.
    for now_us in range(7_200 * SECOND, 7_250 * SECOND, 10 * SECOND):
        policy.observe(seen_rows(now_us, range(SECOND, 11 * SECOND, 10_000)))
    bound_us = policy.decide(7_240 * SECOND, 7_240 * SECOND).bound_us
    assert bound_us is not None
    assert 10 * SECOND < bound_us < 11 * SECOND
    assert policy.recommendation is not None
    assert policy.recommendation.bound_ms == bound_us // 1_000


def a_day_of(rows: int, day: int) -> list[Observation]:
    """Batches over a day, each with one row that needs no bound."""
    return [seen_rows(round((day + n / rows) * DAY_US), [-SECOND]) for n in range(rows)]


@pytest.mark.slow
def test_where_the_slo_leaves_the_horizon_open_it_grows_until_there_is_evidence_enough() -> None:
    """A feed of 350 rows a day never has the 417 events in a day that certify 99 %."""
    feed = [seen for day in range(5) for seen in a_day_of(350, day)]
    decided = {}
    for name, slo in {
        "open": Slo(target_ppm=990_000),
        "a day": Slo(target_ppm=990_000, horizon_ms=DAY_MS),
    }.items():
        policy = RecommendedPolicy(SETUP, slo)
        for seen in feed:
            policy.observe(seen)
        decided[name] = policy.decide(feed[-1].now_us, feed[-1].now_us)
        assert policy.recommendation is not None
        if name == "a day":
            assert policy.recommendation.reason == (
                "not enough evidence: 351 rows; 417 rows are needed to certify 99 % at 95 % confidence at every look; "
                "counted over the horizon of 1 d: lengthen horizon_ms to 2 d"
            )
        else:
            assert policy.recommendation.reason.startswith("700 of 701 rows need at most 0 s")
    assert decided == {"open": Decision(bound_us=0), "a day": Decision()}


def test_reports_that_are_hours_apart_are_decided_from() -> None:
    policy, decided = RecommendedPolicy(SETUP, own_bound_us=DAY_US), Decision()
    for number in range(60):
        policy.observe(seen_rows(number * 4 * 3_600 * SECOND, [-SECOND] * 10))
        decided = policy.decide(number * 4 * 3_600 * SECOND, 0)
    assert decided == Decision(bound_us=0)


def test_rows_that_even_the_longest_horizon_lacks_are_said_to_be_too_few() -> None:
    policy = RecommendedPolicy(SETUP, Slo(target_ppm=990_000))
    for day in range(40):
        for seen in a_day_of(3, day):
            policy.observe(seen)
    assert policy.decide(40 * DAY_US, 0) == Decision()
    assert policy.recommendation is not None
    assert policy.recommendation.reason.endswith(
        "over the horizon of 31 d, and even 31 d would have too few: lower the target or the confidence"
    )


def test_a_policys_limits_hold() -> None:
    policy = RecommendedPolicy(SETUP, policy=Policy(max_bound_ms=2_000))
    policy.observe(seen_rows(0, [50 * SECOND] * 1_000))
    assert policy.decide(0, 0) == Decision(bound_us=2 * SECOND)


@pytest.mark.long
@pytest.mark.slow
def test_the_memory_does_not_grow_with_the_stream() -> None:
    policy = RecommendedPolicy(SETUP, Slo(target_ppm=900_000, horizon_ms=600_000))
    sizes = []
    for number, seen in enumerate(drawn_batches(10, 1_500, step_us=10 * SECOND)):
        policy.observe(seen)
        policy.decide(seen.now_us, seen.now_us)
        if number > 300:
            sizes.append(len(pickle.dumps(policy)))
    assert max(sizes) < 1.5 * max(sizes[:300])


def test_in_a_backtest_with_restarts_it_decides_and_the_engine_follows() -> None:
    dice = np.random.default_rng(5)
    rows = random_rows(dice, 4_000, 3_600 * SECOND, 40 * SECOND, 2)
    found = run(arrivals_of(rows, SETUP, 2), SETUP, RecommendedPolicy(SETUP, own_bound_us=0))
    assert found.bound_changes > 0
    assert found.late < 0.2 * len(rows)
