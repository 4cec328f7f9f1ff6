"""The keys of a row, against the definition of each operator taken literally."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import (
    Operator,
    RowLevel,
    SessionWindow,
    TimeWindow,
    row_level,
    session,
    sliding,
    tumbling,
)

from support.streams import SECOND, operators, slow_keys

times = st.lists(st.integers(-200, 200) | st.integers(-(10**15), 10**15), max_size=20)


@given(operators(), times)
def test_keys_are_those_of_the_definition(operator: Operator, event_times: list[int]) -> None:
    """Also where the slide does not divide the size, before 1970, and with a start offset past the slide."""
    row, key = operator.keys(np.array(event_times, np.int64))
    expected = sorted(
        (index, key) for index, time in enumerate(event_times) for key in slow_keys(operator, time)
    )
    assert sorted(zip(row.tolist(), key.tolist(), strict=True)) == expected


@given(operators(), st.integers(-(10**15), 10**15))
def test_no_row_has_more_keys_than_the_operator_says(operator: Operator, time: int) -> None:
    """The bound of an unjudged row's weight."""
    around = range(time, time + 30)
    assert max(len(slow_keys(operator, near)) for near in around) == operator.max_keys


def test_a_row_on_an_edge_belongs_to_the_window_that_starts_there() -> None:
    """Spark's windows are closed on the left."""
    _, key = tumbling("10 seconds").keys(np.array([0, 10 * SECOND - 1, 10 * SECOND], np.int64))
    assert key.tolist() == [10 * SECOND, 10 * SECOND, 20 * SECOND]


def test_a_row_of_a_sliding_window_counts_once_for_each_window_that_holds_it() -> None:
    """10 s every 4 s: at 9 s the windows that start at 0, 4 and 8; at 11 s only those that start at 4 and 8."""
    row, key = sliding("10 seconds", "4 seconds").keys(np.array([9 * SECOND, 11 * SECOND], np.int64))
    pairs = sorted(zip(row.tolist(), (key // SECOND).tolist(), strict=True))
    assert pairs == [(0, 10), (0, 14), (0, 18), (1, 14), (1, 18)]


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (tumbling("10s"), TimeWindow(10 * SECOND, 10 * SECOND)),
        (tumbling("10s", "3s"), TimeWindow(10 * SECOND, 10 * SECOND, 3 * SECOND)),
        (tumbling("10s", "13s"), TimeWindow(10 * SECOND, 10 * SECOND, 3 * SECOND)),
        (tumbling("10s", "-3s"), TimeWindow(10 * SECOND, 10 * SECOND, 7 * SECOND)),
        (sliding("10s", "4s", "5s"), TimeWindow(10 * SECOND, 4 * SECOND, SECOND)),
        (session("5s"), SessionWindow(5 * SECOND)),
        (row_level(), RowLevel()),
    ],
)
def test_operators_are_made_from_what_spark_is_given(made: Operator, expected: Operator) -> None:
    """The start is brought into one slide, where equal grids are equal."""
    assert made == expected


@pytest.mark.parametrize(
    ("size_us", "slide_us"),
    [(10, 11), (10, 0), (10, -1), (0, 0)],
    ids=["above size", "zero", "negative", "nothing"],
)
def test_a_slide_outside_0_and_the_size_is_rejected(size_us: int, slide_us: int) -> None:
    """As Spark does: rows would fall between the windows."""
    with pytest.raises(ValueError, match="slide"):
        TimeWindow(size_us, slide_us)


def test_lengths_of_nothing_are_rejected() -> None:
    """A window or gap of 0 holds no row."""
    for make in (
        lambda: tumbling("0"),
        lambda: sliding("10s", "0"),
        lambda: session("0"),
        lambda: session("-1s"),
    ):
        with pytest.raises(ValueError, match="above 0"):
            make()


@pytest.mark.parametrize(
    ("operator", "name"),
    [
        (tumbling("10s"), "tumbling window of 10 s"),
        (sliding("10s", "5s"), "sliding window of 10 s every 5 s"),
        (session("5min"), "session window with a gap of 5 min"),
        (row_level(), "row-level operator"),
    ],
)
def test_operators_are_named_as_a_person_would(operator: Operator, name: str) -> None:
    """The name goes into reasons and error messages."""
    assert str(operator) == name
