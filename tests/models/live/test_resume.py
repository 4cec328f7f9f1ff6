"""The fast policy after a restart of its driver: it goes on with what it knew, once the backlog is read."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from random import Random

import pytest

from tidemark.models.base.operators import row_level
from tidemark.models.live.defaults import PILED_UP_TRIGGERS
from tidemark.models.live.fast import FastPolicy, Order
from tidemark.models.live.learned import Learned

from support.fast_streams import CEILING_US, TEN_SECONDS, FastStream
from support.killed_driver import Kept, restarted
from support.soak import with_soak
from support.streams import SECOND, Row
from support.synthetic import synthetic

KEPT: tuple[Kept, ...] = ("learned", "reports", "nothing")
ORDER = Order(bound_us=30 * SECOND, target_ppm=990_000)


def rows_at(now_us: int, dice: Random, names: str = "abc") -> list[Row]:
    return [(name, now_us - round(dice.expovariate(1) * SECOND)) for name in names for _ in range(10)]


@cache
def learned_by(minutes: int = 5) -> Learned:
    """Return what a steady stream of three partitions has taught."""
    stream, dice = FastStream(TEN_SECONDS), Random(1)
    for _ in range(60 * minutes):
        stream.batch(rows_at(stream.now_us, dice), ORDER)
        stream.decide(ORDER)
    learned = stream.policy.learned()
    assert learned is not None
    return learned


def resumed(**given: int) -> FastStream:
    stream = FastStream(TEN_SECONDS, **given)
    stream.policy.resume(learned_by())
    return stream


@pytest.mark.slow
def test_the_first_decision_after_a_restart_is_made_by_what_was_known_before() -> None:
    stream, dice = resumed(), Random(2)
    stream.batch(rows_at(stream.now_us, dice), ORDER)
    wanted = stream.decide(ORDER)

    assert wanted.watermark_us is not None
    assert wanted.watermark_us > stream.now_us - 10 * SECOND
    assert "late" in wanted.reason
    fresh, dice = FastStream(TEN_SECONDS), Random(2)
    fresh.batch(rows_at(fresh.now_us, dice), ORDER)
    assert fresh.decide(ORDER).watermark_us is None, "a stream that knows nothing decides nothing yet"


def test_partitions_keep_their_numbers_whatever_order_they_come_back_in() -> None:
    stream, dice = resumed(), Random(2)
    stream.batch(rows_at(stream.now_us, dice, "xcb"), ORDER)
    learned = stream.policy.learned()
    assert learned is not None
    assert learned.partitions == ("a", "b", "c", "x")


@pytest.mark.slow
@pytest.mark.parametrize("rows_a_batch", with_soak([80, None], {None}))
def test_rows_that_wait_while_the_driver_is_away_are_not_taken_for_late_ones(
    rows_a_batch: int | None,
) -> None:
    """The source does not tell its backlog; at 80 rows a batch it takes a minute to read it."""
    trace = synthetic("stationary", 5, rate=40, seconds=700)
    order = replace(ORDER, target_ppm=999_000)
    known, shown, anew = (
        restarted(trace, order, killed_s=400, down_s=60, keep=keep, rows_a_batch=rows_a_batch)
        for keep in KEPT
    )
    assert min(known.completeness, shown.completeness) >= 0.999
    assert known.rows == shown.rows == anew.rows
    assert max(known.wait_s, shown.wait_s) < anew.wait_s


def test_until_the_backlog_is_read_nothing_closes_by_the_clock_and_the_reason_says_so() -> None:
    stream, dice = resumed(), Random(2)
    for lag_s in (60, 45, 30):
        then_us = stream.now_us - lag_s * SECOND
        stream.batch(rows_at(then_us, dice), ORDER)
        wanted = stream.decide(ORDER)
        assert wanted.watermark_us is not None
        assert wanted.watermark_us <= then_us
        assert "behind the clock" in wanted.reason
    stream.batch(rows_at(stream.now_us, dice), ORDER)
    assert "behind the clock" not in stream.decide(ORDER).reason


def test_a_new_latency_cap_forgets_nothing_and_another_target_begins_anew() -> None:
    stream, dice = resumed(), Random(3)
    for order in (ORDER, replace(ORDER, latency_cap_us=20 * SECOND), replace(ORDER, target_ppm=None), ORDER):
        stream.batch(rows_at(stream.now_us, dice), order)
        stream.decide(order)
        learned = stream.policy.learned()
        assert learned is not None
        assert learned.arrays["rules.pairs"] >= learned_by().arrays["rules.pairs"]
    other = replace(ORDER, target_ppm=999_000)
    for _ in range(PILED_UP_TRIGGERS + 1):
        stream.batch(rows_at(stream.now_us, dice), other)
    learned = stream.policy.learned()
    assert learned is not None
    assert (learned.target_ppm, int(learned.arrays["rules.pairs"])) == (999_000, 30)


@pytest.mark.parametrize(("trigger_us", "goes_on"), [(0, True), (1_500_000, True), (5 * SECOND, False)])
def test_it_goes_on_at_about_the_same_trigger_also_while_that_is_not_known(
    trigger_us: int, *, goes_on: bool
) -> None:
    stream, dice = resumed(trigger_us=trigger_us), Random(3)
    stream.batch(rows_at(stream.now_us, dice), ORDER)
    learned = stream.policy.learned()
    assert learned is not None
    assert (learned.arrays["rules.pairs"] > learned_by().arrays["rules.pairs"]) == goes_on
    assert learned.trigger_us == (SECOND if goes_on else trigger_us)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            {"operator": str(row_level())},
            "learned of a row-level operator, and the query has a tumbling window",
        ),
        ({"partitions": ("a",)}, "it holds 3 partitions and names 1"),
        ({"trigger_us": 0}, "trigger"),
        ({"target_ppm": 0}, "target"),
        ({"arrays": {}}, "missing"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(changed: dict[str, object], why: str) -> None:
    policy = FastPolicy(TEN_SECONDS, CEILING_US)
    with pytest.raises(ValueError, match=why):
        policy.resume(replace(learned_by(), **changed))  # type: ignore[arg-type]
    assert policy.learned() is None
