"""The most careful policy: what it loses nothing before foretold."""

from __future__ import annotations

import numpy as np
import pytest

from tidemark.models.live.policy import Observation

from bench.policies.as_long_as_ever import AsLongAsEver

SECOND = 1_000_000


def batch(now_s: int, key_s: int, base_s: int) -> Observation:
    """Return a batch of one row, with the stream's base before it."""
    one = np.ones(1, np.int64)
    return Observation(
        now_us=now_s * SECOND,
        partition=0 * one,
        key_us=key_s * SECOND * one,
        event_us=key_s * SECOND * one,
        count=one,
        need_us=max(base_s - key_s, 0) * SECOND * one,
        base_us=base_s * SECOND * one,
    )


def watermark_s(batches: list[Observation]) -> float | None:
    policy, found = AsLongAsEver(), None
    for seen in batches:
        policy.observe(seen)
        found = policy.decide(seen.now_us, seen.now_us + SECOND).watermark_us
    return None if found is None else found / SECOND


STEADY = [batch(now_s, now_s - 2, now_s - 2) for now_s in range(100, 200)]


def test_it_waits_as_long_as_the_longest_delay_by_the_clock() -> None:
    assert watermark_s(STEADY) == 199 - 2 - 1e-6
    assert watermark_s([batch(120, 100, 118), *STEADY[21:]]) == 199 - 20 - 1e-6


def test_a_backlog_closes_nothing_that_is_not_read() -> None:
    backlog = [batch(now_s, 199 - 2, 199 - 2) for now_s in range(200, 210)]
    assert watermark_s([*STEADY, *backlog]) == pytest.approx(199 - 2)


def test_a_stream_that_is_young_closes_nothing() -> None:
    assert watermark_s([batch(100, 90, 98), batch(101, 99, 99)]) is None
