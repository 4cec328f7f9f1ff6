"""What the fast policy takes to be open, also after a restart and where a batch could not be counted."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import Operator, TimeWindow
from tidemark.models.live.fast import FastPolicy, Order
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import Report

from support.fast_streams import (
    CEILING_US,
    NOW_US,
    TEN_SECONDS,
    FastStream,
)
from support.streams import SECOND, operators, report_of, slow_keys

pytestmark = pytest.mark.slow


@given(st.lists(st.lists(st.integers(0, 90), max_size=6), min_size=1, max_size=6), st.integers(0, 60))
def test_the_open_keys_are_those_of_the_rows_that_the_watermark_in_force_has_not_closed(
    batches: list[list[int]], watermark_s: int
) -> None:
    stream, order = FastStream(TEN_SECONDS, SECOND), Order(bound_us=0)
    watermark_ms = NOW_US // 1_000 - watermark_s * 1_000
    ends: dict[int, bool] = defaultdict(bool)
    for ago in batches:
        rows = [("a", NOW_US - seconds * SECOND) for seconds in ago]
        stream.batch(rows, order, watermark_ms=watermark_ms)
        for _, time_us in rows:
            ends[time_us // TEN_SECONDS.size_us * TEN_SECONDS.size_us + TEN_SECONDS.size_us] = True
    open_ = [end for end in ends if end > watermark_ms * 1_000]

    assert len(stream.policy.keys) == len(open_)
    assert stream.policy.keys.closes(min(open_, default=0)) == bool(open_)


@given(
    operator=operators(SECOND).filter(lambda operator: isinstance(operator, TimeWindow)),
    offered_s=st.integers(100, 200),
    future_s=st.integers(0, 100),
)
def test_after_a_restart_every_window_between_the_offer_and_the_newest_row_may_be_open(
    operator: Operator, offered_s: int, future_s: int
) -> None:
    """One that is not known to be open is not closed when it is due, but only with the next."""
    newest_us, offered_us = (offered_s + future_s) * SECOND, offered_s * SECOND
    policy = FastPolicy(operator, CEILING_US)
    policy.restore({"a": newest_us}, offered_us, NOW_US)
    times = range(newest_us, offered_us - 12 * SECOND, -SECOND)
    ends = {end for time_us in times for end in slow_keys(operator, time_us) if end > offered_us}

    assert len(policy.keys) >= len(ends)
    for end in sorted(ends):
        policy.keys.close(end - 1)
        assert policy.keys.closes(end)


def test_after_a_restart_without_known_partitions_nothing_is_taken_to_be_open() -> None:
    policy = FastPolicy(TEN_SECONDS, CEILING_US)
    policy.restore({}, None, NOW_US)

    assert len(policy.keys) == 0
    assert policy.decide(NOW_US, Order(bound_us=0)).watermark_us is None


# -- what was not counted ----------------------------------------------------------------------------------------------


def _uncounted(report: Report) -> Report:
    """Return the report of a batch with more distinct (partition, granule) pairs than could be counted."""
    return replace(report, counts=GranuleCounts.of(()))


def test_a_first_batch_that_could_not_be_counted_does_not_move_the_watermark_to_the_clock() -> None:
    """An hour of backlog in one batch: nobody knows which partitions were in it, so nobody may be overtaken."""
    policy, order = FastPolicy(TEN_SECONDS, CEILING_US), Order(bound_us=10 * SECOND)
    old_us = NOW_US - 3_600 * SECOND
    rows = [("a", old_us), ("b", old_us - 60 * SECOND)]
    report = report_of(rows, TEN_SECONDS, late_watermark_ms=0, granule_us=SECOND, started_us=NOW_US)
    policy.observe(_uncounted(report), {}, None, SECOND, order)
    watermark_us = policy.decide(NOW_US + SECOND, order).watermark_us

    assert watermark_us is None or watermark_us <= old_us - order.bound_us


def test_partitions_in_batches_that_could_not_be_counted_do_not_become_idle() -> None:
    stream, order = FastStream(TEN_SECONDS, SECOND), Order(bound_us=10 * SECOND)
    for _ in range(20):
        stream.batch([("a", stream.now_us), ("b", stream.now_us - 60 * SECOND)], order)
    held_us = stream.decide(order).watermark_us
    for _ in range(5):
        rows = [("a", stream.now_us), ("b", stream.now_us - 60 * SECOND)]
        report = report_of(
            rows, TEN_SECONDS, late_watermark_ms=0, granule_us=SECOND, started_us=stream.now_us
        )
        stream.policy.observe(_uncounted(report), {}, {}, SECOND, order)
        stream.now_us += SECOND
    watermark_us = stream.decide(order).watermark_us

    assert held_us is not None
    assert watermark_us is not None
    assert watermark_us <= held_us + 5 * SECOND
