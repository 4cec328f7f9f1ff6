"""Rate limits, with a clock that the test holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.server.access.authenticator import BURST_SECONDS, MAX_CALLERS, RateLimit, RateLimits


class Steady:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_burst_is_let_through_then_one_at_a_time_at_the_rate() -> None:
    clock = Steady()
    limit = RateLimit(10, clock)
    burst = [limit.wait_seconds("a") for _ in range(21)]
    assert burst[:20] == [0] * 20
    assert burst[20] == pytest.approx(0.1)
    clock.now += 0.1
    assert limit.wait_seconds("a") == 0
    assert limit.wait_seconds("a") > 0


def test_callers_do_not_take_each_others_room() -> None:
    limit = RateLimit(1, Steady())
    assert [limit.wait_seconds(caller) > 0 for caller in "aaabbb"] == [False, False, True] * 2


def test_waiting_as_long_as_was_said_is_enough() -> None:
    clock = Steady()
    limit = RateLimit(3, clock)
    while not (wait := limit.wait_seconds("a")):
        pass
    clock.now += wait + 1e-9
    assert limit.wait_seconds("a") == 0


def test_a_limit_of_0_is_none() -> None:
    limit = RateLimit(0, Steady())
    assert {limit.wait_seconds("a") for _ in range(10_000)} == {0}


def test_less_than_one_request_a_second_is_a_limit_too() -> None:
    clock = Steady()
    limit = RateLimit(0.1, clock)
    assert limit.wait_seconds("a") == 0
    assert limit.wait_seconds("a") == pytest.approx(10)


@given(st.floats(0.5, 50), st.lists(st.floats(0, 2), min_size=1, max_size=200))
def test_over_any_time_no_more_get_through_than_the_burst_and_the_rate(
    rate: float, pauses: list[float]
) -> None:
    clock = Steady()
    limit = RateLimit(rate, clock)
    through = 0
    for pause in pauses:
        clock.now += pause
        through += not limit.wait_seconds("a")
    assert through <= max(rate * BURST_SECONDS, 1) + rate * clock.now + 1e-6


def test_the_callers_remembered_are_bounded_and_the_one_silent_longest_goes() -> None:
    limit = RateLimit(1, Steady())
    for caller in range(MAX_CALLERS + 1):
        limit.wait_seconds(caller)
        limit.wait_seconds(MAX_CALLERS)
    assert len(limit._left) == MAX_CALLERS
    assert 0 not in limit._left
    assert MAX_CALLERS in limit._left


def test_what_jobs_send_has_room_of_its_own() -> None:
    limits = RateLimits(1_000, 1, Steady())
    while not limits.of("Read").wait_seconds("a"):
        pass
    assert limits.of(None).wait_seconds("a") > 0
    assert limits.of("Report").wait_seconds("a") == limits.of("Ask").wait_seconds("a") == 0
