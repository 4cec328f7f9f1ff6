"""Counting a trace: nothing is lost, however it is cut into parts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from tidemark.models.backtest.arrivals import Arrivals, Maxima
from tidemark.models.backtest.arrivals_builder import ArrivalsBuilder, _Percentile
from tidemark.models.base.operators import Operator, RowLevel, SessionWindow, TimeWindow
from tidemark.models.live.policy import Setup

from support.backtests import Row, arrivals_of, granule_start, keys_of, random_rows

SECOND = 1_000_000
MINUTE = 60 * SECOND
OPERATORS: tuple[Operator, ...] = (
    TimeWindow(50 * SECOND, 50 * SECOND, 7 * SECOND),
    TimeWindow(90 * SECOND, 40 * SECOND),
    TimeWindow(44 * MINUTE, 22 * MINUTE),  # granules longer than a minute, and not whole minutes
    SessionWindow(5 * SECOND),
    RowLevel(),
)


def setup_of(operator: Operator, trigger_us: int = 30 * SECOND) -> Setup:
    return Setup(operator=operator, trigger_us=trigger_us, target_ppm=990_000)


def trace(seed: int) -> list[Row]:
    return random_rows(np.random.default_rng(seed), 300, 10 * MINUTE, MINUTE, 3)


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
def test_every_pair_is_counted_by_slot_partition_granule_key_and_minute(operator: Operator) -> None:
    rows, setup = trace(1), setup_of(operator)
    first = rows[0][1]
    expected = Counter(
        ((arrival - first) // setup.trigger_us, part, granule_start(event, setup), key, event // MINUTE)
        for event, arrival, part in rows
        for key in keys_of(event, operator)
    )

    found = arrivals_of(rows, setup, 3)

    columns = (found.slot, found.partition, found.event_us, found.key_us, found.minute)
    body = list(zip(*(column.tolist() for column in columns), strict=True))
    assert body == sorted(expected)
    assert found.count.tolist() == [expected[what] for what in body]
    assert (found.rows, found.pairs) == (300, expected.total())
    np.testing.assert_array_equal(found.keys_us[found.key_index], found.key_us)
    np.testing.assert_array_equal(found.minutes[found.minute_index], found.minute)
    by_key = Counter(key for event, _, _ in rows for key in keys_of(event, operator))
    assert dict(zip(found.keys_us.tolist(), found.pairs_by_key.tolist(), strict=True)) == by_key
    assert found.pairs_by_minute.sum() == found.pairs


def test_slots_and_maxima_are_those_of_the_rows() -> None:
    rows, setup = trace(2), setup_of(OPERATORS[0])
    first = rows[0][1]
    slots = Counter((arrival - first) // setup.trigger_us for _, arrival, _ in rows)
    highest: dict[tuple[int, int], int] = {}
    for event, arrival, part in rows:
        place = ((arrival - first) // setup.trigger_us, part)
        highest[place] = max(event, highest.get(place, event))

    found = arrivals_of(rows, setup, 3)

    assert dict(zip(found.occupied.tolist(), found.occupied_rows.tolist(), strict=True)) == slots
    assert (found.slots, found.first_us, found.last_us) == (max(slots) + 1, first, rows[-1][1])
    maxima = found.maxima
    places = zip(found.occupied[maxima.occupied].tolist(), maxima.partition.tolist(), strict=True)
    assert dict(zip(places, maxima.event_time_us.tolist(), strict=True)) == highest


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
def test_parts_count_as_the_whole_wherever_they_are_cut(operator: Operator) -> None:
    rows, setup = trace(3), setup_of(operator)
    whole = arrivals_of(rows, setup, 3)
    for cuts in ((150,), (1, 2, 3, 4, 5, 120, 121, 122, 299), tuple(range(0, 300, 7))):
        assert_equal(arrivals_of(rows, setup, 3, cuts), whole)


def assert_equal(one: object, other: object) -> None:
    for name in type(one).__slots__:  # type: ignore[attr-defined]
        left, right = getattr(one, name), getattr(other, name)
        if isinstance(left, Maxima):
            assert_equal(left, right)
        else:
            np.testing.assert_array_equal(left, right, err_msg=name)


def test_partitions_may_become_known_on_the_way() -> None:
    setup = setup_of(OPERATORS[0])
    builder = ArrivalsBuilder(setup)
    builder.add(np.array([5]), np.array([10]), np.array([0]), 1)
    builder.add(np.array([6, 7]), np.array([11, 12]), np.array([1, 0]), 2)
    found = builder.build()

    assert found.partitions == 2
    assert found.maxima.partition.tolist() == [0, 1]
    assert found.maxima.event_time_us.tolist() == [7, 6]


def test_a_row_dated_a_million_years_ahead_is_counted_like_any_other() -> None:
    rows = [*trace(4)[:-1], (2**59, trace(4)[-1][1], 0)]
    for operator in OPERATORS:
        found = arrivals_of(rows, setup_of(operator), 3)
        assert found.pairs == sum(len(keys_of(event, operator)) for event, _, _ in rows)
        assert found.keys_us[-1] == max(keys_of(2**59, operator))


def test_arrivals_that_go_back_are_rejected_across_parts_too() -> None:
    builder = ArrivalsBuilder(setup_of(OPERATORS[0]))
    with pytest.raises(ValueError, match="in order"):
        builder.add(np.array([1, 2]), np.array([10, 9]), np.array([0, 0]), 1)
    builder.add(np.array([1]), np.array([10]), np.array([0]), 1)
    with pytest.raises(ValueError, match="in order"):
        builder.add(np.array([1]), np.array([9]), np.array([0]), 1)


def test_a_trace_without_rows_is_no_trace() -> None:
    builder = ArrivalsBuilder(setup_of(OPERATORS[0]))
    builder.add(*(np.empty(0, np.int64),) * 3, 0)
    with pytest.raises(ValueError, match="no arrival"):
        builder.build()


def scored_until(values: list[int]) -> int:
    rows = [(event, index, 0) for index, event in enumerate(values)]
    found: Arrivals = arrivals_of(rows, setup_of(RowLevel()), 1)
    return found.scored_until_us


def test_the_98th_percentile_is_numpys_rounded_down() -> None:
    dice = np.random.default_rng(6)
    for size in (1, 2, 3, 50, 51, 52, 101, 998, 1001):
        values = dice.integers(0, 10**15, size).tolist()
        assert scored_until(values) == pytest.approx(float(np.quantile(np.array(values), 0.98)), abs=2)
    assert scored_until(list(range(51))) == 49
    assert scored_until([0, 100]) == 98


def test_the_98th_percentile_is_exact_while_it_is_among_the_highest_that_are_kept() -> None:
    dice = np.random.default_rng(7)
    values = dice.permutation(np.arange(0, 10_000_000, 1_000))
    percentile = _Percentile(grid_us=500, max_stored=250)
    for part in np.split(values, 40):
        percentile.add(part)

    assert percentile.value_us() == int(np.quantile(values, 0.98))


def test_beyond_what_is_kept_the_98th_percentile_is_the_end_of_its_trigger() -> None:
    dice = np.random.default_rng(8)
    values = dice.permutation(np.arange(0, 10_000_000, 1_000))
    percentile = _Percentile(grid_us=7_777, max_stored=100)
    for part in np.split(values, 40):
        percentile.add(part)

    exact = int(np.quantile(values, 0.98))
    assert exact <= percentile.value_us() <= exact + 1_000 + 7_777
    assert (percentile.value_us() + 1) % 7_777 == 0


def test_what_was_let_go_of_a_stream_that_runs_backwards_is_not_forgotten() -> None:
    values = np.arange(990_000, 0, -1_000)
    percentile = _Percentile(grid_us=10, max_stored=15)
    for part in np.split(values, 99):
        percentile.add(part)

    # The 20th highest is not among the 15 that are kept, while some of the lowest still are.
    exact = int(np.quantile(values, 0.98))
    assert exact <= percentile.value_us() <= exact + 1_000 + 10
