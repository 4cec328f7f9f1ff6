"""What other bounds would have cost: the replay says what Spark's runs of the demonstration came to."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.models.base.operators import TimeWindow
from tidemark.spark_jobs.demo.generator import START_US, generate
from tidemark.spark_jobs.demo.loop import LIVE, TraceReplays
from tidemark.spark_jobs.demo.plan import plan_of

SECOND = 1_000_000
WINDOW = TimeWindow(10 * SECOND, 10 * SECOND)


@pytest.fixture(scope="module")
def what_if() -> TraceReplays:
    return TraceReplays(plan_of(Path("trace"), generate(300, 400, 1), 3 * SECOND), WINDOW, 995_000)


RESTART_US, END_US = START_US + 150 * SECOND, START_US + 280 * SECOND
SECOND_HALF = (RESTART_US, RESTART_US, END_US)
"""The windows that the second run of ``tidemark demo`` closes."""


def test_the_replay_of_a_bound_is_what_spark_does_with_it(what_if: TraceReplays) -> None:
    """A real run of the demonstration printed these figures for 17.2 s."""
    found = what_if.outcome("fixed:17.2s", SECOND_HALF)
    assert (found.rows, found.lost) == (51_913, 0)
    assert found.latency_us is not None
    assert round(found.latency_us / SECOND, 2) == 22.12


def test_a_safe_bound_loses_nothing_and_waits_and_live_does_neither(what_if: TraceReplays) -> None:
    safe, live = what_if.outcome("fixed:60s", SECOND_HALF, 60_000), what_if.outcome(LIVE, SECOND_HALF)
    assert (safe.lost, safe.bounds_ms, live.bounds_ms) == (0, (60_000,), ())
    assert safe.completeness == 1
    assert live.completeness is not None
    assert live.completeness >= 0.995
    assert live.latency_us is not None
    assert safe.latency_us is not None
    assert live.latency_us < safe.latency_us / 3


def test_live_waits_while_a_partition_is_slow_and_not_afterwards(what_if: TraceReplays) -> None:
    """A constant that meets the target meanwhile waits as long afterwards."""
    first_half = START_US, RESTART_US, RESTART_US
    too_small, constant, live = (
        what_if.outcome(policy, first_half) for policy in ("fixed:12s", "fixed:13s", LIVE)
    )
    shares = [outcome.completeness for outcome in (too_small, constant, live)]
    assert [share is not None and share >= 0.995 for share in shares] == [False, True, True]
    waits_us = [what_if.outcome(policy, SECOND_HALF).latency_us for policy in (LIVE, "fixed:13s")]
    assert waits_us[0] is not None
    assert waits_us[1] is not None
    assert waits_us[0] < waits_us[1] / 2


def test_only_the_windows_that_are_asked_for_count(what_if: TraceReplays) -> None:
    found = what_if.outcome("fixed:2s", (START_US, START_US, START_US + 20 * SECOND))
    assert 7_500 < found.rows < 8_500, "two windows of 400 rows a second"
    nothing = what_if.outcome("fixed:2s", (START_US, START_US, START_US))
    assert (nothing.rows, nothing.completeness, nothing.latency_us) == (0, None, None)


def test_what_is_lost_after_the_restart_is_part_of_what_is_lost(what_if: TraceReplays) -> None:
    whole = what_if.outcome("fixed:2s", (START_US, RESTART_US, END_US))
    later = what_if.outcome("fixed:2s", SECOND_HALF)
    assert whole.lost > whole.lost_later == later.lost > 0
