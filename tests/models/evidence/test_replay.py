"""Replay against slow, literal simulations of the engines: every row, every batch, one bound at a time."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import Operator, RowLevel, TimeWindow, tumbling
from tidemark.models.evidence.curve import Curve, Replay, batches_of_slots, replay_spark

from support.oracles import replay_reports
from support.streams import operators, report_of, slow_keys

times = st.integers(0, 60_000)
"""Microseconds: a few of Spark's milliseconds, so that flooring matters."""
batches = st.lists(st.lists(times, max_size=6), min_size=1, max_size=7)
bounds_ms = st.integers(0, 50)
Pair = tuple[int, int]
"""A step and a key."""


def late_pairs(replay: Replay, bound_us: int) -> Counter[Pair]:
    late = replay.needs_us() > bound_us
    return Counter(zip(replay.step[late].tolist(), replay.key_us[late].tolist(), strict=True))


def all_pairs(replay: Replay) -> Counter[Pair]:
    pairs: Counter[Pair] = Counter()
    for step, key, count in zip(
        replay.step.tolist(), replay.key_us.tolist(), replay.count.tolist(), strict=True
    ):
        pairs[step, key] += count
    return pairs


def emitted_in(replay: Replay, operator: Operator, bound_us: int) -> dict[int, int | None]:
    """Return by window end the step that emits it, None when none does, as the curve sees it."""
    curve = Curve.of_replay(replay, operator)
    assert curve.emissions is not None
    found = {}
    for end in curve.emissions.end_us.tolist():
        step = int(np.searchsorted(curve.emissions.emit_base_us, end + bound_us))
        found[end] = step if step < len(curve.emissions.wall_us) else None
    return found


def spark_watermarks(stream: list[list[int]], bound_us: int) -> list[int | None]:
    """Return W(n) in microseconds: the highest floor_ms(m(k)) - L over the batches k < n, None before any row."""
    marks: list[int | None] = []
    for number in range(len(stream)):
        seen = [max(batch) // 1_000 * 1_000 - bound_us for batch in stream[:number] if batch]
        marks.append(max(seen, default=None))
    return marks


@given(operators(1_000), batches, bounds_ms)
def test_spark_judges_a_batch_by_the_watermark_of_the_batch_before(
    operator: Operator, stream: list[list[int]], bound_ms: int
) -> None:
    """The batch rule, literally: late iff ``key <= W(n-1)``; emitted by the first batch with ``W(n) >= end``."""
    bound_us = bound_ms * 1_000
    marks = spark_watermarks(stream, bound_us)
    late: Counter[Pair] = Counter()
    ends: dict[int, int | None] = {}
    for number, batch in enumerate(stream):
        before = marks[number - 1] if number else None
        for key in (key for time in batch for key in slow_keys(operator, time)):
            late[number, key] += before is not None and key <= before
            ends[key] = next((n for n, mark in enumerate(marks) if mark is not None and mark >= key), None)
    replay = replay_spark(
        np.array([time for batch in stream for time in batch], np.int64),
        np.array([number for number, batch in enumerate(stream) for _ in batch], np.int64),
        np.arange(len(stream), dtype=np.int64),
        operator,
    )
    assert late_pairs(replay, bound_us) == +late
    if isinstance(operator, TimeWindow):
        assert emitted_in(replay, operator, bound_us) == ends


@given(operators(1_000), batches)
def test_recorded_reports_replay_as_their_rows_do(operator: Operator, stream: list[list[int]]) -> None:
    """At millisecond granules the counts lose nothing: each pair has the need that its row has."""
    reports = [
        report_of([("p", time) for time in batch], operator, late_watermark_ms=0, batch_id=5 + number)
        for number, batch in enumerate(stream)
    ]
    replay = replay_reports(reports)
    rows = replay_spark(
        np.array([time for batch in stream for time in batch], np.int64),
        np.array([number for number, batch in enumerate(stream) for _ in batch], np.int64),
        replay.wall_us,
        operator,
    )
    assert np.array_equal(replay.late_base_us, rows.late_base_us)
    assert np.array_equal(replay.emit_base_us, rows.emit_base_us)
    assert sorted(np.repeat(replay.needs_us(), replay.count).tolist()) == sorted(rows.needs_us().tolist())
    if operator.closed == "left":
        assert all_pairs(replay) == all_pairs(rows)


def test_reports_that_leave_a_gap_cannot_be_replayed() -> None:
    """The base of the lost batch is unknown, so every need after it would be."""
    reports = [report_of([("p", 5)], RowLevel(), late_watermark_ms=0, batch_id=number) for number in (3, 5)]
    with pytest.raises(ValueError, match="expected batch 4 of query, got 5"):
        replay_reports(reports)
    with pytest.raises(ValueError, match="expected batch 4 of query, got 3"):
        replay_reports(reports[:1] * 2)


def test_reports_of_two_queries_cannot_be_replayed_as_one() -> None:
    """Each query has its own base."""
    reports = [
        report_of([], RowLevel(), late_watermark_ms=0, batch_id=0, query_id="one"),
        report_of([], RowLevel(), late_watermark_ms=0, batch_id=1, query_id="two"),
    ]
    with pytest.raises(ValueError, match="of one"):
        replay_reports(reports)


def test_reports_with_uncounted_rows_or_none_at_all_cannot_be_replayed() -> None:
    """What was not counted has no need."""
    with pytest.raises(ValueError, match="batch 0: 1 rows were not counted"):
        replay_reports([report_of([], RowLevel(), late_watermark_ms=0, uncounted=[("p", 5)])])
    with pytest.raises(ValueError, match="no report"):
        replay_reports([])


def test_nothing_replays_as_nothing() -> None:
    """An idle stream is no error."""
    nothing = np.empty(0, np.int64)
    assert len(replay_spark(nothing, nothing, nothing, tumbling("10s")).needs_us()) == 0


# -- from slots to batches -----------------------------------------------------------------------------------


def slow_batches(rows: list[tuple[int, int]], trigger: int) -> list[tuple[int, list[int]]]:
    """Return (wall time, rows) of each batch, going through every slot in turn."""
    first = min(arrival for _, arrival in rows)
    last_slot = (max(arrival for _, arrival in rows) - first) // trigger
    done: list[tuple[int, list[int]]] = []
    base: int | None = None
    moved = False
    for slot in range(last_slot + 2):
        start = first + slot * trigger
        inside = [row for row, (_, arrival) in enumerate(rows) if start <= arrival < start + trigger]
        if not inside and not moved:
            continue
        done.append((start + trigger, inside))
        top = max((rows[row][0] // 1_000 for row in inside), default=None)
        moved = top is not None and (base is None or top > base)
        base = top if moved else base
    return done


@given(
    st.lists(st.tuples(st.integers(-9_000, 9_000), st.integers(0, 80)), min_size=1, max_size=12),
    st.integers(1, 12),
    st.integers(-(10**15), 10**15),
)
def test_slots_become_batches_as_spark_would_run_them(
    rows: list[tuple[int, int]], trigger: int, epoch: int
) -> None:
    """A no-data batch in the very next slot when the watermark moved; other empty slots hold none."""
    rows = sorted(((event, epoch + arrival) for event, arrival in rows), key=lambda row: row[1])
    event, arrival = np.array(rows, np.int64).T
    batch, wall = batches_of_slots(event, arrival, trigger)
    found = [(at, np.flatnonzero(batch == number).tolist()) for number, at in enumerate(wall.tolist())]
    assert found == slow_batches(rows, trigger)


@given(
    st.lists(st.tuples(st.integers(0, 9_000), st.integers(0, 80)), min_size=1, max_size=12),
    st.integers(1, 12),
    st.integers(0, 20),
)
def test_which_slots_hold_batches_does_not_depend_on_the_bound(
    rows: list[tuple[int, int]], trigger: int, bound_ms: int
) -> None:
    """So one replay serves every bound: under each, the batches that move W are followed by another batch."""
    rows = sorted(rows, key=lambda row: row[1])
    event, arrival = np.array(rows, np.int64).T
    batch, wall = batches_of_slots(event, arrival, trigger)
    stream = [event[batch == number].tolist() for number in range(len(wall))]
    marks = spark_watermarks([*stream, []], bound_ms * 1_000)
    for number, (before, after) in enumerate(pairwise(marks)):
        slot_after = wall[number] + trigger
        assert (before != after) <= (slot_after in wall)
        if not stream[number]:
            assert before == after


def test_idle_slots_hold_one_batch_that_closes_windows_and_no_more() -> None:
    """Trigger 10: rows in slots 0 and 5. Slot 1 closes what slot 0 allowed; 2, 3, 4 are idle; 6 closes again."""
    event, arrival = np.array([1_000, 2_000], np.int64), np.array([100, 155], np.int64)
    batch, wall = batches_of_slots(event, arrival, 10)
    assert batch.tolist() == [0, 2]
    assert wall.tolist() == [110, 120, 160, 170]


def test_a_batch_of_old_rows_is_followed_by_none() -> None:
    """The second batch does not move the watermark, by less than a millisecond included."""
    event, arrival = np.array([1_000, 1_999], np.int64), np.array([0, 50], np.int64)
    batch, wall = batches_of_slots(event, arrival, 10)
    assert batch.tolist() == [0, 2]
    assert wall.tolist() == [10, 20, 60]


def test_no_arrivals_make_no_batch_and_a_trigger_of_nothing_is_rejected() -> None:
    """The edges of the definition."""
    nothing = np.empty(0, np.int64)
    batch, wall = batches_of_slots(nothing, nothing, 10)
    assert (len(batch), len(wall)) == (0, 0)
    with pytest.raises(ValueError, match="trigger must be above 0, not 0 s"):
        batches_of_slots(nothing, nothing, 0)
