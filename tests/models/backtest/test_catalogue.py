"""Policies by name."""

from __future__ import annotations

import re

import pytest

from tidemark.models.backtest.catalogue import FROM_THE_TRACE, make_policy, policy_forms, policy_names
from tidemark.models.base.operators import tumbling
from tidemark.models.live.policy import BoundPolicy, Setup

from support.seen import seen_rows

SETUP = Setup(operator=tumbling("10 seconds"), trigger_us=10_000_000, target_ppm=990_000)


def bound_of(name: str) -> int | None:
    """Return the bound after the needs 1 to 1,000 s."""
    policy: BoundPolicy = make_policy(name, SETUP)
    policy.observe(seen_rows(0, range(1_000_000, 1_001_000_000, 1_000_000)))
    return policy.decide(0, 0).bound_us


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("fixed:5s", 5),
        ("fixed:1h30m", 5_400),
        (" fixed:0 ", 0),
        ("max60", 1_000),
        ("flink", 0),
        ("flink:5s:30s:10s", 5),
    ],
)
def test_a_name_makes_its_policy(name: str, seconds: int) -> None:
    assert bound_of(name) == seconds * 1_000_000


def test_every_name_of_all_can_be_made_but_those_that_need_the_whole_trace() -> None:
    for name in policy_names():
        if name in FROM_THE_TRACE:
            with pytest.raises(
                ValueError, match=f"{name} needs the whole trace.* ask for (fixed|flink):<bound>"
            ):
                make_policy(name, SETUP)
        else:
            first, second = make_policy(name, SETUP), make_policy(name, SETUP)
            assert first is not second, "a policy learns, so each run needs its own"


@pytest.mark.parametrize(
    "name",
    ["", "max", "max60:5s", "fixed", "saocp", "flink-hindsight:1s", "Flink", "all"],
)
def test_an_unknown_name_is_rejected_with_the_known_ones(name: str) -> None:
    with pytest.raises(ValueError, match="is unknown; use one of") as refused:
        make_policy(name, SETUP)
    assert repr(name) in str(refused.value)
    assert all(form in str(refused.value) for form in policy_forms())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("fixed:abc", "duration 'abc': expected something like"),
        ("fixed:", "duration '': expected something like"),
        ("fixed:-5s", "policy 'fixed:-5s': the bound must be at least 0"),
        ("flink:-5s", "policy 'flink:-5s': a bound of Flink must be at least 0"),
        ("flink:5s:0", "policy 'flink:5s:0': the idle timeout of Flink must be above 0"),
        ("flink:1s:1s:1s:1s", "has more than a bound, an idle timeout and a tick"),
    ],
)
def test_a_parameter_that_cannot_be_read_is_named_with_the_way_out(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        make_policy(name, SETUP)
