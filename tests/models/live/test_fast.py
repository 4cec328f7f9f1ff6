"""The fast policy: inside every limit whatever arrives, without an SLO the partitions' minimum, and with reasons."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.models.granule_counts import GranuleCounts, PartitionCounts
from tidemark.models.granules import granule_first_us, granule_index
from tidemark.models.live.fast import FastPolicy, Order, WatermarkTarget
from tidemark.models.operators import Operator, SessionWindow, TimeWindow, row_level, session, tumbling
from tidemark.models.policies.reports import PartitionBases, observation_of
from tidemark.models.policies.setup import Setup
from tidemark.models.policies.tidemark import Tidemark
from tidemark.models.wire import Report

from support.reports import exponential_batches, query_reports
from support.streams import SECOND, Row, operators, report_of, slow_keys

pytestmark = pytest.mark.slow

NOW_US = 1_767_225_600 * SECOND
CEILING_US = 7_200 * SECOND
TEN_SECONDS = tumbling("10 s")
OPERATORS: tuple[Operator, ...] = (TEN_SECONDS, session("7 s"), row_level())
READ_TO_THE_END: Mapping[str, int] = {}


def _granule(time_us: int, operator: Operator, granule_us: int) -> int:
    (index,) = granule_index(np.array([time_us], np.int64), granule_us, operator.closed).tolist()
    return int(index)


def _newest(rows: Iterable[Row], operator: Operator, granule_us: int) -> dict[str, int]:
    newest: dict[str, int] = {}
    for name, time_us in rows:
        index = _granule(time_us, operator, granule_us)
        newest[name] = max(index, newest.get(name, index))
    return newest


@dataclass
class _Stream:
    """A stream as the driver sees it: each batch is a report and the newest granule of each partition."""

    operator: Operator
    granule_us: int = 1_000
    trigger_us: int = SECOND
    idle_timeout_us: int | None = None
    now_us: int = NOW_US

    def __post_init__(self) -> None:
        self.policy = FastPolicy(self.operator, CEILING_US, self.idle_timeout_us)
        self.batches = 0

    def batch(
        self,
        rows: Iterable[Row],
        order: Order,
        backlog: Mapping[str, int] | None = READ_TO_THE_END,
        *,
        after_us: int = SECOND,
        ahead: Iterable[str] = (),
        watermark_ms: int = 0,
    ) -> None:
        """Show a batch; ``ahead`` names the partitions of future-dated rows, which the quarantine set back."""
        rows, clock_us = list(rows), self.now_us
        report = report_of(
            [*rows, *((name, clock_us) for name in ahead)],
            self.operator,
            late_watermark_ms=0,
            granule_us=self.granule_us,
            started_us=clock_us,
            batch_id=self.batches,
            watermark_ms=watermark_ms,
            min_event_time_us=min((time for _, time in rows), default=None),
            max_event_time_us=max((time for _, time in rows), default=None),
        )
        future = list(ahead)
        counts = replace(
            report.counts, future_rows=tuple(future.count(name) for name in report.counts.partitions)
        )
        newest = _newest(rows, self.operator, self.granule_us)
        self.policy.observe(replace(report, counts=counts), newest, backlog, self.trigger_us, order)
        self.batches += 1
        self.now_us += after_us

    def decide(self, order: Order) -> WatermarkTarget:
        return self.policy.decide(self.now_us, order, in_force_us=self.now_us + self.trigger_us)


def _floored(watermark_us: int, operator: Operator, granule_us: int) -> int:
    if operator == TEN_SECONDS:
        return watermark_us // 1_000 * 1_000
    reach_us = operator.gap_us if isinstance(operator, SessionWindow) else 0
    return (watermark_us - reach_us) // granule_us * granule_us + reach_us


# -- without an SLO ------------------------------------------------------------------------------------------------

rows_ago = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 300_000)), max_size=6)
"""Rows by partition and the milliseconds by which they lie before the batch."""
bounds_ms = st.integers(0, 100_000)


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
@given(batches=st.lists(rows_ago, min_size=1, max_size=8), bound_ms=bounds_ms)
@settings(deadline=None)
def test_without_a_target_the_watermark_is_the_least_of_the_partitions_less_the_bound(
    operator: Operator, batches: list[list[tuple[str, int]]], bound_ms: int
) -> None:
    """To the millisecond: what the README says of Live, and what no Spark job has by itself."""
    stream, order = _Stream(operator), Order(bound_us=bound_ms * 1_000)
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
@settings(deadline=None)
def test_a_coarse_granule_holds_the_watermark_back_by_a_granule_at_the_most_and_never_moves_it_forward(
    operator: Operator, batches: list[list[tuple[str, int]]], bound_ms: int, granule_s: int
) -> None:
    granule_us = granule_s * SECOND if 10 % granule_s == 0 else SECOND
    stream, order = _Stream(operator, granule_us), Order(bound_us=bound_ms * 1_000)
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
    stream, order = _Stream(TEN_SECONDS), Order(bound_us=10 * SECOND)
    for _ in range(30):
        stream.batch([("fast", stream.now_us), ("slow", stream.now_us - 60 * SECOND)], order)
    slow_us = stream.now_us - SECOND - 60 * SECOND

    assert stream.decide(order).watermark_us == slow_us - 10 * SECOND
    assert "10 s behind partition slow" in stream.decide(order).reason


def test_before_the_first_row_the_watermark_is_left_where_it_is() -> None:
    stream, order = _Stream(TEN_SECONDS), Order(bound_us=0)
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
@settings(deadline=None, max_examples=50)
def test_no_limit_is_ever_passed_whatever_arrives_and_whatever_is_ordered(
    operator: Operator,
    batches: list[tuple[list[tuple[str, int]], dict[str, int] | None, int]],
    order: Order,
    waited_s: int,
    data: st.DataObject,
) -> None:
    """A watermark that was too high is in the checkpoint and cannot be taken back."""
    granule_us = data.draw(st.sampled_from([1_000, SECOND]))
    stream = _Stream(operator, granule_us, idle_timeout_us=data.draw(st.none() | st.just(20 * SECOND)))
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
    assert _floored(watermark_us, operator, granule_us) == watermark_us, (
        "on an edge where the ledger is exact"
    )
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
        assert watermark_us <= newest[name] - order.bound_us, "never beyond what is not read yet"
    unlimited = not activity.behind and order.min_bound_us is None
    if unlimited and order.max_bound_us is not None and active:
        floor_us = min(min(active.values()) - granule_us - order.max_bound_us, stream.now_us)
        assert watermark_us > floor_us - granule_us, "and no further behind than is allowed"


def test_a_partition_whose_backlog_is_not_read_holds_a_stream_with_a_target_as_well() -> None:
    """The policy knows late rows, not unread ones."""
    order = Order(bound_us=5 * SECOND, target_ppm=900_000)
    stream = _Stream(TEN_SECONDS, SECOND)
    for _ in range(300):
        stream.batch([("a", stream.now_us - SECOND), ("b", stream.now_us - SECOND)], order)
    stopped_us = stream.now_us - 2 * SECOND
    for _ in range(60):
        stream.batch([("a", stream.now_us - SECOND)], order, {"a": 0, "b": 9})
    wanted = stream.decide(order)

    assert wanted.watermark_us is not None
    assert stopped_us - 6 * SECOND <= wanted.watermark_us <= stopped_us - 5 * SECOND
    assert wanted.activity.behind == ("b",)
    assert wanted.reason.startswith("1 partition has unread rows: 5 s behind them")


def test_a_partition_that_was_never_seen_and_has_a_backlog_leaves_the_watermark_where_it_is() -> None:
    stream, order = _Stream(TEN_SECONDS), Order(bound_us=0)
    stream.batch([("a", stream.now_us)], order, {"a": 0, "b": 4})
    wanted = stream.decide(order)

    assert wanted.watermark_us is None
    assert wanted.reason == "partition b has unread rows, and none was read yet"


# -- future-dated rows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
@given(
    batches=st.lists(st.tuples(rows_ago, st.lists(st.sampled_from("abcd"), max_size=3)), min_size=1),
    bound_ms=bounds_ms,
)
@settings(deadline=None)
def test_rows_dated_ahead_do_not_move_the_watermark(
    operator: Operator, batches: list[tuple[list[tuple[str, int]], list[str]]], bound_ms: int
) -> None:
    """Set back to the clock they are counted where they land, and say nothing of where their partition is."""
    order = Order(bound_us=bound_ms * 1_000)
    with_them, without = _Stream(operator), _Stream(operator)
    for ago, ahead in batches:
        rows = [(name, with_them.now_us - ms * 1_000) for name, ms in ago]
        with_them.batch(rows, order, ahead=ahead)
        without.batch(rows, order)

        assert with_them.decide(order) == without.decide(order)


def test_a_row_dated_ahead_by_less_than_the_allowance_moves_its_partition_to_the_clock_and_no_further() -> (
    None
):
    stream, order = _Stream(TEN_SECONDS), Order(bound_us=0)
    clock_us = stream.now_us
    stream.batch([("a", clock_us + 50 * SECOND)], order)

    assert stream.decide(order).watermark_us == clock_us


# -- with an SLO ---------------------------------------------------------------------------------------------------


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
    stream, compared = _Stream(operator, granule_us), 0
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
        assert wanted.watermark_us == _floored(min(expected, stream.now_us + SECOND), operator, granule_us)
        # Batches back to back: the next one may come at once.
        unknown_us = stream.policy.decide(stream.now_us, order).watermark_us
        assert unknown_us == _floored(min(expected, stream.now_us), operator, granule_us)

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
        newest = _newest(rows, TEN_SECONDS, granule_us)
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
    streams = {kind: _Stream(TEN_SECONDS, SECOND) for kind in ("steady", "piled up", "behind")}
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
                newest = _newest([("a", now_us)], TEN_SECONDS, SECOND)
                shown, backlog = (kind != "piled up"), ({"a": 5} if kind == "behind" else {})
                stream.policy.observe(old, newest, backlog, SECOND, order, representative=shown)
            stream.batch(rows, order)
    wanted = {kind: stream.decide(order).watermark_us for kind, stream in streams.items()}

    assert len(set(wanted.values())) == 1
    assert None not in wanted.values()


def test_until_the_trigger_is_known_the_bound_decides_whatever_the_target() -> None:
    """The policy counts ages in triggers."""
    order = Order(bound_us=9 * SECOND, target_ppm=990_000)
    stream = _Stream(TEN_SECONDS, trigger_us=0)
    stream.batch([("a", stream.now_us)], order, None)

    assert stream.decide(order).watermark_us == stream.now_us - SECOND - 9 * SECOND


def test_in_a_replay_of_old_rows_the_bound_decides_whatever_the_target() -> None:
    """By the clock every row of last week is late by a week."""
    order = Order(bound_us=9 * SECOND, target_ppm=990_000)
    stream = _Stream(TEN_SECONDS)
    old_us = stream.now_us - 7 * 86_400 * SECOND
    for second in range(60):
        stream.batch([("a", old_us + second * 60 * SECOND)], order)
    wanted = stream.decide(order)

    assert wanted.watermark_us == old_us + 59 * 60 * SECOND - 9 * SECOND
    assert "so this is a replay" in wanted.reason


# -- orders ----------------------------------------------------------------------------------------------------------


def test_a_job_held_to_its_ceiling_is_left_where_it_is() -> None:
    stream, order = _Stream(TEN_SECONDS), Order(bound_us=0, follow="ceiling", pin="Ceiling")
    stream.batch([("a", stream.now_us)], order)

    assert stream.decide(order).watermark_us is None
    assert "the ceiling holds" in stream.decide(order).reason


def test_a_job_out_of_live_follows_the_maximum_event_time_as_without_tidemark() -> None:
    stream, order = _Stream(TEN_SECONDS), Order(bound_us=10 * SECOND, follow="stream")
    newest_us = stream.now_us
    stream.batch([("a", newest_us), ("b", newest_us - 60 * SECOND)], order, {"b": 5})
    wanted = stream.decide(order)

    assert wanted.watermark_us == newest_us - 10 * SECOND
    assert wanted.reason == "10 s behind the stream's maximum event time, as without Tidemark"


def test_another_target_begins_a_policy_of_its_own_and_a_slower_trigger_does_not() -> None:
    """What an age means must not change under a policy; what it aims at may."""
    stream, order = _Stream(TEN_SECONDS, SECOND), Order(bound_us=0, target_ppm=990_000)
    stream.batch([("a", stream.now_us)], order)
    first = stream.policy._policy
    stream.trigger_us = 5 * SECOND
    stream.batch([("a", stream.now_us)], order)
    assert stream.policy._policy is first

    stream.batch([("a", stream.now_us)], replace(order, target_ppm=999_000))
    assert stream.policy._policy is not first

    stream.batch([("a", stream.now_us)], replace(order, target_ppm=None))
    assert stream.policy._policy is None


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
        (Order(bound_us=0, target_ppm=990_000), ["target 0.99", "budget:", "rule:", "age:", "hold:"]),
        (
            Order(bound_us=0, target_ppm=990_000, latency_cap_us=SECOND, min_bound_us=100 * SECOND),
            ["at least 1", "target 0.99", "latency cap:"],
        ),
    ],
)
def test_it_says_why_and_which_limit_was_met(order: Order, body: list[str]) -> None:
    stream = _Stream(TEN_SECONDS)
    for _ in range(60):
        stream.batch([("fast", stream.now_us), ("slow", stream.now_us - 20 * SECOND)], order)
    reason = stream.decide(order).reason

    assert [part for part in body if part not in reason] == []


def test_a_stream_that_is_idle_is_said_to_go_on_with_the_clock() -> None:
    stream, order = _Stream(TEN_SECONDS), Order(bound_us=10 * SECOND)
    for _ in range(10):
        stream.batch([("a", stream.now_us - 2 * SECOND)], order)
    stream.now_us += 60 * SECOND
    wanted = stream.decide(order)

    assert wanted.activity.holder is None
    assert wanted.watermark_us == stream.now_us - 2 * SECOND - 10 * SECOND
    assert "the stream, which is idle and moves with the clock" in wanted.reason


# -- keys ------------------------------------------------------------------------------------------------------------


@given(st.lists(st.lists(st.integers(0, 90), max_size=6), min_size=1, max_size=6), st.integers(0, 60))
@settings(deadline=None)
def test_the_open_keys_are_those_of_the_rows_that_the_watermark_in_force_has_not_closed(
    batches: list[list[int]], watermark_s: int
) -> None:
    stream, order = _Stream(TEN_SECONDS, SECOND), Order(bound_us=0)
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
@settings(deadline=None)
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
    stream, order = _Stream(TEN_SECONDS, SECOND), Order(bound_us=10 * SECOND)
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


def test_a_session_whose_gap_is_no_whole_millisecond_still_gets_a_watermark_that_spark_can_hold() -> None:
    stream, order = _Stream(SessionWindow(1_500)), Order(bound_us=0)
    stream.batch([("a", stream.now_us)], order)
    watermark_us = stream.decide(order).watermark_us

    assert watermark_us is not None
    assert watermark_us % 1_000 == 0


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
