"""Names in the margin, ticks and thinned lines. Matplotlib is imported when a test runs: it takes long."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.duration import MICROSECONDS


@given(st.lists(st.floats(0, 1), max_size=15), st.floats(0.01, 0.06))
def test_names_are_a_line_apart_in_their_order_and_inside(wanted: list[float], gap: float) -> None:
    from tidemark.controller.tools.backtest.chart import spread

    places = spread(wanted, gap)

    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
    order = np.argsort(wanted, kind="stable")
    assert (np.diff(np.array(places)[order]) >= gap - 1e-9).all()


def test_names_with_room_stay_where_they_are_and_too_many_share_what_there_is() -> None:
    from tidemark.controller.tools.backtest.chart import spread

    assert spread([0.5, 0.1], 0.1) == [0.5, 0.1]
    assert spread([0.5] * 5, 0.5) == [0.0, 0.25, 0.5, 0.75, 1.0]


@pytest.mark.parametrize("high_us", [10, 900, 40_000, 7 * 10**6, 3 * 10**9, 5 * MICROSECONDS["d"], 10**15])
@pytest.mark.parametrize("low", [0.0, -0.4])
def test_a_duration_axis_has_some_ticks_with_their_units(high_us: int, low: float) -> None:
    from matplotlib.figure import Figure

    from tidemark.controller.tools.backtest.chart import duration_axis

    axis = Figure().add_subplot().yaxis
    axis.axes.set_ylim(low * high_us, high_us)
    duration_axis(axis, low * high_us, high_us)
    texts = [axis.get_major_formatter()(tick, 0) for tick in axis.get_majorticklocs()]

    assert 3 <= len(texts) <= 12
    assert len(set(texts)) == len(texts)
    assert all(text.split()[-1] in {"us", "ms", "s", "min", "h", "d"} for text in texts)


@pytest.mark.parametrize(("low", "high"), [(1e5, 9e6), (2e3, 6e10), (1.1e6, 8.9e6)])
def test_an_axis_of_durations_far_apart_has_ticks_too(low: float, high: float) -> None:
    from matplotlib.figure import Figure

    from tidemark.controller.tools.backtest.chart import duration_scale

    axes = Figure().add_subplot()
    duration_scale(axes, low, high, far_apart=True)

    assert axes.get_xscale() == "log"
    assert axes.get_xlim() == (low, high)
    assert 3 <= len(axes.xaxis.get_majorticklocs()) <= 8


def test_the_lowest_loss_reads_none() -> None:
    from matplotlib.figure import Figure

    from tidemark.controller.tools.backtest.chart import loss_axis

    axes = Figure().add_subplot()
    loss_axis(axes, 0.0004, 0.2)
    texts = [axes.yaxis.get_major_formatter()(tick, 0) for tick in axes.yaxis.get_majorticklocs()]

    assert texts == ["none", "0.1 %", "0.2 %", "0.5 %", "1 %", "2 %", "5 %", "10 %", "20 %"]


@given(st.lists(st.tuples(st.integers(-3, 3), st.floats(-9, 9) | st.just(np.nan))))
def test_a_line_has_the_median_of_each_span(points: list[tuple[int, float]]) -> None:
    from tidemark.controller.tools.backtest.chart import medians

    group, values = (
        np.array([point[0] for point in points], np.int64),
        np.array([point[1] for point in points]),
    )
    found, median = medians(group, values)
    known = {at: [value for one, value in points if one == at and not np.isnan(value)] for at in range(-3, 4)}

    assert found.tolist() == [at for at, own in known.items() if own]
    assert median.tolist() == pytest.approx([float(np.median(own)) for own in known.values() if own])
