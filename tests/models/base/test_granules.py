"""Granules: a grid without gaps or overlaps, and exact for windows just when it says so."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.granules import default_granule_us, granule_first_us, granule_index, granule_last_us
from tidemark.models.base.operators import (
    Closed,
    Operator,
    RowLevel,
    SessionWindow,
    TimeWindow,
    sliding,
    tumbling,
)

from support.streams import operators, slow_keys

closed_edges = st.sampled_from(["left", "right"])
times = st.integers(-(10**15), 10**15)
widths = st.integers(1, 5_000)


@given(times, widths, closed_edges)
def test_a_time_lies_between_the_first_and_the_last_of_its_granule(
    time: int, width: int, closed: Closed
) -> None:
    """First, last and index are one grid."""
    index = granule_index(np.array([time], np.int64), width, closed)
    (first,), (last,) = granule_first_us(index, width, closed), granule_last_us(index, width, closed)
    assert first <= time <= last
    assert last - first == width - 1
    edges = np.array([first - 1, first, last, last + 1])
    assert granule_index(edges, width, closed).tolist() == [index[0] - 1, index[0], index[0], index[0] + 1]


def test_the_closed_edge_decides_whose_a_time_on_an_edge_is() -> None:
    """[0, 10) and [10, 20) if closed on the left; (0, 10] and (10, 20] on the right."""
    time = np.array([-10, 0, 1, 10, 11], np.int64)
    assert granule_index(time, 10, "left").tolist() == [-1, 0, 0, 1, 1]
    assert granule_index(time, 10, "right").tolist() == [-2, -1, 0, 0, 1]


@given(operators().filter(lambda operator: isinstance(operator, TimeWindow)), st.integers(1, 15))
def test_times_of_a_granule_share_their_windows_if_and_only_if_it_fits(
    operator: Operator, width: int
) -> None:
    """If it did not fit, counts would be booked on the wrong window; if it were refused in vain, it would be finer."""
    assert isinstance(operator, TimeWindow)
    period = math.lcm(operator.slide_us, width)
    keys = [slow_keys(operator, time) for time in range(period)]
    granule = granule_index(np.arange(period), width, "left").tolist()
    uncut = all(keys[at] == keys[at - 1] for at in range(1, period) if granule[at] == granule[at - 1])
    assert operator.granule_fits(width) == uncut


@given(operators(1_000))
def test_the_default_granule_fits_and_is_of_whole_milliseconds(operator: Operator) -> None:
    """The tap needs no thought by the user."""
    granule = default_granule_us(operator)
    assert operator.granule_fits(granule)
    assert granule >= 1_000
    assert granule % 1_000 == 0


@pytest.mark.parametrize(
    ("operator", "granule_us"),
    [
        (tumbling("10s"), 1_000_000),
        (tumbling("7ms"), 1_000),
        (tumbling("11ms"), 11_000),
        (tumbling("10s", "3s"), 100_000),
        (sliding("10s", "4s"), 200_000),
        (SessionWindow(5_000_000), 100_000),
        (RowLevel(), 100_000),
    ],
)
def test_the_default_granule_cuts_a_window_into_at_most_ten(operator: Operator, granule_us: int) -> None:
    """11 ms has no whole-millisecond part but itself; 10 s with a start of 3 s has a grid of 1 s."""
    assert default_granule_us(operator) == granule_us


@pytest.mark.parametrize(
    ("operator", "granule_us"),
    [
        (tumbling("1 minute"), 6_000_000),
        (tumbling("45s"), 5_000_000),
        (tumbling("5s"), 1_000_000),
        (SessionWindow(5_000_000), 1_000_000),
        (RowLevel(), 1_000_000),
    ],
)
def test_made_of_granules_of_a_second_the_default_granule_is_whole_seconds(
    operator: Operator, granule_us: int
) -> None:
    """So that a report of a window of an hour is as small as if the operator had been declared."""
    assert default_granule_us(operator, 1_000_000) == granule_us


def test_windows_finer_than_sparks_watermark_have_no_granule() -> None:
    """Said by name, since the tap would have to guess."""
    with pytest.raises(ValueError, match="whole milliseconds"):
        default_granule_us(TimeWindow(1_500, 1_500))
    with pytest.raises(ValueError, match="whole multiples of 1 s"):
        default_granule_us(tumbling("500 ms"), 1_000_000)
