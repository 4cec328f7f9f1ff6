"""The fast policy with an SLO: the watermark is the live policy's, and what it never learns from."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tidemark.models.base.operators import Operator, row_level, session
from tidemark.models.live.fast import FastPolicy, Order
from tidemark.models.live.policy import Setup
from tidemark.models.live.reports import PartitionBases, observation_of
from tidemark.models.live.tidemark import Tidemark

from support.fast_streams import (
    CEILING_US,
    NOW_US,
    TEN_SECONDS,
    FastStream,
    floored,
    newest_granules,
)
from support.streams import SECOND, Row, report_of

pytestmark = pytest.mark.slow


def _days(seed: int, batches: int) -> list[tuple[list[Row], int]]:
    """Return batches with their distance in time: steady, with gaps, bursts and batches without rows."""
    rng = Random(seed)
    now_us, result = NOW_US, []
    for number in range(batches):
        mean_s = 20 if batches // 3 < number < batches // 2 else 2
        size = rng.choice([0, 3, 20, 20, 20])
        delays = [rng.expovariate(1 / mean_s) for _ in range(size)]
        rows = [(rng.choice("abc"), now_us - round(delay * SECOND)) for delay in delays]
        gap_us = rng.choice([1, 1, 1, 1, 4]) * SECOND
        result.append((rows, gap_us))
        now_us += gap_us
    return result


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(
    ("operator", "cap_s"),
    [(TEN_SECONDS, None), (TEN_SECONDS, 3), (session("7 s"), None), (row_level(), None)],
)
def test_with_a_target_the_watermark_is_the_live_policys_where_no_limit_binds(
    operator: Operator, seed: int, cap_s: int | None
) -> None:
    """What the backtest measured is what runs: the same class, shown the same batches, asked at the same times."""
    cap_us = None if cap_s is None else cap_s * SECOND
    order = Order(bound_us=5 * SECOND, target_ppm=990_000, latency_cap_us=cap_us)
    setup = Setup(operator=operator, trigger_us=SECOND, target_ppm=990_000, latency_cap_us=cap_us)
    policy, bases, granule_us = Tidemark(setup), PartitionBases(), 100_000
    stream, compared = FastStream(operator, granule_us), 0
    for rows, gap_us in _days(seed, 200):
        at_us = stream.now_us
        stream.batch(rows, order, after_us=gap_us)
        report = report_of(rows, operator, late_watermark_ms=0, granule_us=granule_us, started_us=at_us)
        policy.observe(observation_of(report, bases, report.late_base_ms))
        decided_us = max(at_us, stream.now_us - SECOND)
        expected = policy.decide(decided_us, decided_us + 2 * SECOND).watermark_us
        wanted = stream.decide(order)
        if expected is None:
            assert wanted.watermark_us is None
            continue
        compared += 1
        assert wanted.watermark_us == floored(min(expected, stream.now_us + SECOND), operator, granule_us)
        # Batches back to back: the next one may come at once.
        unknown_us = stream.policy.decide(stream.now_us, order).watermark_us
        assert unknown_us == floored(min(expected, stream.now_us), operator, granule_us)

    assert compared > 80, "a comparison of clamped watermarks proves nothing"


def test_a_batch_that_starts_a_little_late_is_decided_as_one_that_started_when_it_was_due() -> None:
    """The policy counts ages in whole triggers; a timer is never quite on time."""
    order, rng = Order(bound_us=5 * SECOND, target_ppm=990_000), Random(3)
    punctual, late, granule_us = (
        FastPolicy(TEN_SECONDS, CEILING_US),
        FastPolicy(TEN_SECONDS, CEILING_US),
        SECOND,
    )
    compared = 0
    for second in range(150):
        due_us = NOW_US + second * SECOND
        rows = [("a", due_us - round(rng.expovariate(0.5) * SECOND)) for _ in range(20)]
        newest = newest_granules(rows, TEN_SECONDS, granule_us)
        report = report_of(rows, TEN_SECONDS, late_watermark_ms=0, granule_us=granule_us, started_us=due_us)
        punctual.observe(report, newest, {}, SECOND, order)
        started_us = due_us + rng.choice([0, 0, 1_000, 40_000, 700_000])
        late.observe(replace(report, started_us=started_us), newest, {}, SECOND, order, due_us=due_us)
        next_us = due_us + SECOND
        wanted = [
            policy.decide(next_us, order, in_force_us=next_us + SECOND).watermark_us
            for policy in (punctual, late)
        ]
        assert wanted[0] == wanted[1]
        compared += wanted[0] is not None

    assert compared > 100


def test_what_had_piled_up_and_what_is_read_behind_a_backlog_does_not_teach_the_policy_that_rows_are_late() -> (
    None
):
    """The job was away, not the rows."""
    order = Order(bound_us=5 * SECOND, target_ppm=990_000)
    streams = {kind: FastStream(TEN_SECONDS, SECOND) for kind in ("steady", "piled up", "behind")}
    for second in range(400):
        for kind, stream in streams.items():
            now_us = stream.now_us
            rows = [("a", now_us - round(0.1 * k * SECOND)) for k in range(10)]
            if second == 200 and kind != "steady":
                old = report_of(
                    [("a", now_us - (60 + k) * SECOND) for k in range(500)],
                    TEN_SECONDS,
                    late_watermark_ms=0,
                    granule_us=SECOND,
                    started_us=now_us,
                )
                newest = newest_granules([("a", now_us)], TEN_SECONDS, SECOND)
                shown, backlog = (kind != "piled up"), ({"a": 5} if kind == "behind" else {})
                stream.policy.observe(old, newest, backlog, SECOND, order, representative=shown)
            stream.batch(rows, order)
    wanted = {kind: stream.decide(order).watermark_us for kind, stream in streams.items()}

    assert len(set(wanted.values())) == 1
    assert None not in wanted.values()


def test_until_the_trigger_is_known_the_bound_decides_whatever_the_target() -> None:
    """The policy counts ages in triggers."""
    order = Order(bound_us=9 * SECOND, target_ppm=990_000)
    stream = FastStream(TEN_SECONDS, trigger_us=0)
    stream.batch([("a", stream.now_us)], order, None)

    assert stream.decide(order).watermark_us == stream.now_us - SECOND - 9 * SECOND


def test_in_a_replay_of_old_rows_the_bound_decides_whatever_the_target() -> None:
    """By the clock every row of last week is late by a week."""
    order = Order(bound_us=9 * SECOND, target_ppm=990_000)
    stream = FastStream(TEN_SECONDS)
    old_us = stream.now_us - 7 * 86_400 * SECOND
    for second in range(60):
        stream.batch([("a", old_us + second * 60 * SECOND)], order)
    wanted = stream.decide(order)

    assert wanted.watermark_us == old_us + 59 * 60 * SECOND - 9 * SECOND
    assert "so this is a replay" in wanted.reason


def test_another_target_begins_a_policy_of_its_own_and_a_slower_trigger_does_not() -> None:
    """What an age means must not change under a policy; what it aims at may."""
    stream, order = FastStream(TEN_SECONDS, SECOND), Order(bound_us=0, target_ppm=990_000)
    stream.batch([("a", stream.now_us)], order)
    first = stream.policy.own.policy
    stream.trigger_us = 5 * SECOND
    stream.batch([("a", stream.now_us)], order)
    assert stream.policy.own.policy is first

    stream.batch([("a", stream.now_us)], replace(order, target_ppm=999_000))
    assert stream.policy.own.policy is not first

    stream.batch([("a", stream.now_us)], replace(order, target_ppm=None))
    assert stream.policy.own.policy is None
