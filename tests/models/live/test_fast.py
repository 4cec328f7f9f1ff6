"""The fast policy: inside every limit whatever arrives, without an SLO the partitions' minimum, and with reasons."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.granules import granule_first_us
from tidemark.models.base.operators import Operator, SessionWindow
from tidemark.models.live.fast import FastPolicy, Order
from tidemark.models.protocol.granule_counts import PartitionCounts

from support.examples import examples
from support.fast_streams import (
    CEILING_US,
    OPERATORS,
    TEN_SECONDS,
    FastStream,
    floored,
)
from support.reports import exponential_batches, query_reports
from support.streams import SECOND

pytestmark = pytest.mark.slow


# -- without an SLO ------------------------------------------------------------------------------------------------

rows_ago = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 300_000)), max_size=6)
"""Rows by partition and the milliseconds by which they lie before the batch."""
bounds_ms = st.integers(0, 100_000)


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
@given(batches=st.lists(rows_ago, min_size=1, max_size=8), bound_ms=bounds_ms)
def test_without_a_target_the_watermark_is_the_least_of_the_partitions_less_the_bound(
    operator: Operator, batches: list[list[tuple[str, int]]], bound_ms: int
) -> None:
    """To the millisecond: what the README says of Live, and what no Spark job has by itself."""
    stream, order = FastStream(operator), Order(bound_us=bound_ms * 1_000)
    newest: dict[str, int] = {}
    for ago in batches:
        rows = [(name, stream.now_us - ms * 1_000) for name, ms in ago]
        for name, time_us in rows:
            newest[name] = max(time_us, newest.get(name, time_us))
        stream.batch(rows, order, backlog=None)
    wanted = stream.decide(order)

    if not newest:
        assert wanted.watermark_us is None
        return
    exact_us = min(newest.values()) - order.bound_us
    # Closed on the right, a time on an edge belongs to the granule before it.
    slack_us = 1_000 if operator.closed == "right" else 0
    assert wanted.watermark_us is not None
    assert exact_us - slack_us <= wanted.watermark_us <= exact_us


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
@given(batches=st.lists(rows_ago, min_size=1, max_size=8), bound_ms=bounds_ms, granule_s=st.integers(1, 10))
def test_a_coarse_granule_holds_the_watermark_back_by_a_granule_at_the_most_and_never_moves_it_forward(
    operator: Operator, batches: list[list[tuple[str, int]]], bound_ms: int, granule_s: int
) -> None:
    granule_us = granule_s * SECOND if 10 % granule_s == 0 else SECOND
    stream, order = FastStream(operator, granule_us), Order(bound_us=bound_ms * 1_000)
    newest: dict[str, int] = {}
    for ago in batches:
        rows = [(name, stream.now_us - ms * 1_000) for name, ms in ago]
        for name, time_us in rows:
            newest[name] = max(time_us, newest.get(name, time_us))
        stream.batch(rows, order, backlog=None)
    if not newest:
        return
    watermark_us = stream.decide(order).watermark_us
    exact_us = min(newest.values()) - order.bound_us

    assert watermark_us is not None
    # One granule for the base and, except for windows, one for the edge that the watermark falls on.
    assert exact_us - 2 * granule_us < watermark_us <= exact_us


def test_a_slow_partition_holds_the_watermark_at_its_own_pace_and_not_a_bit_more() -> None:
    stream, order = FastStream(TEN_SECONDS), Order(bound_us=10 * SECOND)
    for _ in range(30):
        stream.batch([("fast", stream.now_us), ("slow", stream.now_us - 60 * SECOND)], order)
    slow_us = stream.now_us - SECOND - 60 * SECOND

    assert stream.decide(order).watermark_us == slow_us - 10 * SECOND
    assert "10 s behind partition slow" in stream.decide(order).reason


def test_before_the_first_row_the_watermark_is_left_where_it_is() -> None:
    stream, order = FastStream(TEN_SECONDS), Order(bound_us=0)
    assert stream.decide(order).watermark_us is None
    stream.batch([], order)

    assert stream.decide(order).watermark_us is None
    assert stream.decide(order).reason == "no row has been seen yet"


# -- limits that hold whatever arrives -----------------------------------------------------------------------------

orders = st.builds(
    lambda bound, target, lowest, highest, follow: Order(
        bound_us=bound * 1_000,
        target_ppm=target,
        min_bound_us=None if lowest is None else lowest * 1_000,
        max_bound_us=None if highest is None else highest * 1_000,
        follow=follow,
    ),
    st.integers(0, 60_000),
    st.none() | st.sampled_from([900_000, 999_000]),
    st.none() | st.integers(0, 90_000),
    st.none() | st.integers(0, 200_000),
    st.sampled_from(["partitions", "partitions", "partitions", "stream"]),
)
wild_rows = st.lists(
    st.tuples(st.sampled_from("abc"), st.integers(-55_000, 300_000) | st.integers(0, 2_000)), max_size=12
)
"""As ``rows_ago``, and some future-dated by less than what is allowed."""
wild_batches = st.lists(
    st.tuples(
        wild_rows,
        st.none() | st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)),
        st.sampled_from([1, 1, 1, 5, 100]),
    ),
    min_size=1,
    max_size=12,
)


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
@given(batches=wild_batches, order=orders, waited_s=st.sampled_from([0, 1, 500]), data=st.data())
@examples(50)
def test_no_limit_is_ever_passed_whatever_arrives_and_whatever_is_ordered(
    operator: Operator,
    batches: list[tuple[list[tuple[str, int]], dict[str, int] | None, int]],
    order: Order,
    waited_s: int,
    data: st.DataObject,
) -> None:
    """A watermark that was too high is in the checkpoint and cannot be taken back."""
    granule_us = data.draw(st.sampled_from([1_000, SECOND]))
    stream = FastStream(operator, granule_us, idle_timeout_us=data.draw(st.none() | st.just(20 * SECOND)))
    newest: dict[str, int] = {}
    max_us: int | None = None
    for ago, behind, seconds in batches:
        rows = [(name, stream.now_us - ms * 1_000) for name, ms in ago]
        clock_us = stream.now_us
        stream.batch(rows, order, behind, after_us=seconds * SECOND)
        for name, time_us in rows:
            known_us = min(time_us, clock_us)
            newest[name] = max(known_us, newest.get(name, known_us))
            max_us = max(known_us, max_us or known_us)
    stream.now_us += waited_s * SECOND
    wanted = stream.decide(order)
    watermark_us, activity = wanted.watermark_us, wanted.activity

    assert wanted.reason
    if watermark_us is None:
        return
    trigger_us = 0 if order.target_ppm is None else stream.trigger_us
    assert watermark_us <= stream.now_us + trigger_us, "never above the clock when it is in force"
    assert floored(watermark_us, operator, granule_us) == watermark_us, "on an edge where the ledger is exact"
    if order.follow == "stream":
        assert max_us is not None
        assert watermark_us <= max_us - order.bound_us
        return
    active = {name: time_us for name, time_us in newest.items() if name not in activity.idle}
    if order.min_bound_us is not None and active:
        assert watermark_us <= min(active.values()) - order.min_bound_us
    if order.target_ppm is None and active:
        bound_us = order.bound_us
        if order.max_bound_us is not None:
            bound_us = min(bound_us, order.max_bound_us)
        assert watermark_us <= min(active.values()) - bound_us
    for name in activity.behind:
        bound_us = 0 if order.target_ppm is not None else order.bound_us
        assert watermark_us <= newest[name] - bound_us, "never beyond what is not read yet"
    unlimited = not activity.behind and order.min_bound_us is None
    if unlimited and order.max_bound_us is not None and active:
        floor_us = min(min(active.values()) - granule_us - order.max_bound_us, stream.now_us)
        assert watermark_us > floor_us - granule_us, "and no further behind than is allowed"


@pytest.mark.parametrize("bound_s", [5, 600])
def test_a_partition_whose_backlog_is_not_read_holds_a_stream_with_a_target_as_well(bound_s: int) -> None:
    """The policy knows late rows, not unread ones; how late they are it knows better than the bound."""
    order = Order(bound_us=bound_s * SECOND, target_ppm=900_000)
    stream = FastStream(TEN_SECONDS, SECOND)
    for _ in range(300):
        stream.batch([("a", stream.now_us - SECOND), ("b", stream.now_us - SECOND)], order)
    stopped_us = stream.now_us - 2 * SECOND
    for _ in range(60):
        stream.batch([("a", stream.now_us - SECOND)], order, {"a": 0, "b": 9})
    wanted = stream.decide(order)

    assert wanted.watermark_us is not None
    assert stopped_us - SECOND <= wanted.watermark_us <= stopped_us
    assert wanted.activity.behind == ("b",)
    assert wanted.reason.startswith("1 partition has unread rows: 0 s behind them")


def test_a_partition_that_was_never_seen_and_has_a_backlog_leaves_the_watermark_where_it_is() -> None:
    stream, order = FastStream(TEN_SECONDS), Order(bound_us=0)
    stream.batch([("a", stream.now_us)], order, {"a": 0, "b": 4})
    wanted = stream.decide(order)

    assert wanted.watermark_us is None
    assert wanted.reason == "partition b has unread rows, and none was read yet"


def test_a_session_whose_gap_is_no_whole_millisecond_still_gets_a_watermark_that_spark_can_hold() -> None:
    stream, order = FastStream(SessionWindow(1_500)), Order(bound_us=0)
    stream.batch([("a", stream.now_us)], order)
    watermark_us = stream.decide(order).watermark_us

    assert watermark_us is not None
    assert watermark_us % 1_000 == 0


# -- future-dated rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
@given(
    batches=st.lists(st.tuples(rows_ago, st.lists(st.sampled_from("abcd"), max_size=3)), min_size=1),
    bound_ms=bounds_ms,
)
def test_rows_dated_ahead_do_not_move_the_watermark(
    operator: Operator, batches: list[tuple[list[tuple[str, int]], list[str]]], bound_ms: int
) -> None:
    """Set back to the clock they are counted where they land, and say nothing of where their partition is."""
    order = Order(bound_us=bound_ms * 1_000)
    with_them, without = FastStream(operator), FastStream(operator)
    for ago, ahead in batches:
        rows = [(name, with_them.now_us - ms * 1_000) for name, ms in ago]
        with_them.batch(rows, order, ahead=ahead)
        without.batch(rows, order)

        assert with_them.decide(order) == without.decide(order)


def test_a_row_dated_ahead_by_less_than_the_allowance_moves_its_partition_to_the_clock_and_no_further() -> (
    None
):
    stream, order = FastStream(TEN_SECONDS), Order(bound_us=0)
    clock_us = stream.now_us
    stream.batch([("a", clock_us + 50 * SECOND)], order)

    assert stream.decide(order).watermark_us == clock_us


# -- orders ----------------------------------------------------------------------------------------------------------


def test_a_job_held_to_its_ceiling_is_left_where_it_is() -> None:
    stream, order = FastStream(TEN_SECONDS), Order(bound_us=0, follow="ceiling", pin="Ceiling")
    stream.batch([("a", stream.now_us)], order)

    assert stream.decide(order).watermark_us is None
    assert "the ceiling holds" in stream.decide(order).reason


def test_a_job_out_of_live_follows_the_maximum_event_time_as_without_tidemark() -> None:
    stream, order = FastStream(TEN_SECONDS), Order(bound_us=10 * SECOND, follow="stream")
    newest_us = stream.now_us
    stream.batch([("a", newest_us), ("b", newest_us - 60 * SECOND)], order, {"b": 5})
    wanted = stream.decide(order)

    assert wanted.watermark_us == newest_us - 10 * SECOND
    assert wanted.reason == "10 s behind the stream's maximum event time, as without Tidemark"


@pytest.mark.parametrize(
    ("order", "body"),
    [
        (Order(bound_us=10 * SECOND), ["10 s behind partition slow"]),
        (
            Order(bound_us=0, min_bound_us=30 * SECOND),
            ["at least 30 s behind, the minimum bound allowed", "0 s behind partition slow"],
        ),
        (
            Order(bound_us=90 * SECOND, max_bound_us=20 * SECOND),
            ["at most 20 s behind, the maximum bound allowed", "90 s behind partition slow"],
        ),
        (
            Order(bound_us=0, target_ppm=990_000),
            ["it waits for ", "window's end", " later still"],
        ),
        (
            Order(bound_us=0, target_ppm=990_000, latency_cap_us=SECOND, min_bound_us=100 * SECOND),
            ["at least 1", "it waits for ", " later still"],
        ),
    ],
)
def test_it_says_why_and_which_limit_was_met(order: Order, body: list[str]) -> None:
    stream = FastStream(TEN_SECONDS)
    for _ in range(60):
        stream.batch([("fast", stream.now_us), ("slow", stream.now_us - 20 * SECOND)], order)
    reason = stream.decide(order).reason

    assert [part for part in body if part not in reason] == []


def test_a_person_is_told_in_one_sentence_what_it_waits_for_what_that_costs_and_what_it_loses() -> None:
    """The figures that lead to it are for the log."""
    stream, order = FastStream(TEN_SECONDS), Order(bound_us=0, target_ppm=990_000)
    for _ in range(60):
        stream.batch([("fast", stream.now_us), ("slow", stream.now_us - 20 * SECOND)], order)
    wanted = stream.decide(order)
    assert [word for word in ("price", "pairs", "half-life", "rule", "e+") if word in wanted.reason] == []
    assert len(wanted.reason) < 250
    assert re.fullmatch(
        r"it waits for (no row after a window's end|rows that come within .+ of a window's end, so that results come "
        r".+ later)(, and longer for rows that are missing)?; "
        r"(no row has come later still|about [\d.,]+ rows of a window come later still and are lost)",
        wanted.reason,
    )
    assert [name for name in ("budget: ", "rule: ", "age: ", "hold: ") if name not in wanted.details] == []


def test_a_stream_that_is_idle_is_said_to_go_on_with_the_clock() -> None:
    stream, order = FastStream(TEN_SECONDS), Order(bound_us=10 * SECOND)
    for _ in range(10):
        stream.batch([("a", stream.now_us - 2 * SECOND)], order)
    stream.now_us += 60 * SECOND
    wanted = stream.decide(order)

    assert wanted.activity.holder is None
    assert wanted.watermark_us == stream.now_us - 2 * SECOND - 10 * SECOND
    assert "the stream, which is idle and moves with the clock" in wanted.reason


def test_the_reports_of_a_whole_query_keep_the_watermark_behind_every_partition_that_is_not_idle() -> None:
    """The reports that the controller's tests use, one slow partition by 30 s."""
    order = Order(bound_us=5 * SECOND)
    policy = FastPolicy(TEN_SECONDS, CEILING_US)
    newest_us: dict[str, int] = {}
    for report in query_reports(exponential_batches(60, 40, slow=2), granule_us=SECOND):
        newest = {part.partition: max(part.granules) for part in report.counts.by_partition()}
        policy.observe(report, newest, {}, SECOND, order)
        newest_us.update(_maximum(report.counts.by_partition(), newest_us))
        watermark_us = policy.decide(report.started_us + SECOND, order).watermark_us

        assert watermark_us == min(newest_us.values()) - order.bound_us


def _maximum(parts: Iterable[PartitionCounts], known_us: Mapping[str, int]) -> dict[str, int]:
    found = {
        part.partition: int(granule_first_us(np.array([max(part.granules)], np.int64), SECOND, "left")[0])
        for part in parts
    }
    return {name: max(first, known_us.get(name, first)) for name, first in found.items()}
