"""The curve: the textbook's table, exactly, and both latencies by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import RowLevel, SessionWindow, tumbling
from tidemark.models.evidence.curve import Curve, CurvePoint, Emissions, MeanLatency
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.recommend.choice import percent

from support.examples import examples
from support.streams import SECOND, TEXTBOOK_TABLE, row_replay, textbook_stream


@pytest.fixture(scope="module")
def textbook() -> Curve:
    event, arrival = textbook_stream()
    return Curve.of_replay(row_replay(event, arrival, tumbling("10s")), tumbling("10s"))


@pytest.mark.parametrize("bound_s", TEXTBOOK_TABLE)
def test_the_textbooks_table_comes_out_exactly(textbook: Curve, bound_s: int) -> None:
    """Completeness, late rows and mean emit latency (base minus end) ."""
    completeness, late, latency = TEXTBOOK_TABLE[bound_s]
    point = textbook.at(bound_s * SECOND)
    assert point.latency_base_us is not None
    assert (percent(point), point.late, f"{point.latency_base_us / SECOND:.2f}") == (
        completeness,
        late,
        latency,
    )


@given(st.lists(st.integers(-10, 60 * SECOND), min_size=2, max_size=8))
@examples(30)
def test_completeness_and_both_latencies_grow_with_the_bound(textbook: Curve, bounds: list[int]) -> None:
    """The choice and its bisection rest on it; the base latency may shrink only by windows that are emitted no more."""
    points = [textbook.at(bound) for bound in sorted(bounds)]
    for narrow, wide in pairwise(points):
        assert narrow.late >= wide.late
        assert narrow.windows_emitted >= wide.windows_emitted
        assert narrow.latency_wall is not None
        assert wide.latency_wall is not None
        if narrow.windows_emitted == wide.windows_emitted:
            assert narrow.latency_wall.mean_us <= wide.latency_wall.mean_us


def test_the_two_latencies_are_those_of_their_names() -> None:
    """Windows end at 10, 20, 30 s; steps emit by 12, 21, 25 s at wall times 15, 22, 40 s.

    Bound 0: the first is emitted at 12 (2 after its end; wall 5), the second at 21 (1; wall 2), the third never:
    it has been open for 10 s by wall and is left out of the base latency. Bound 1.5 s: the first at 12 (2; wall 5),
    the second at 25 (5; wall 20), the third never. Bound -8 s: 12 emits the second too, before its end.
    """
    at = np.array([10, 20, 30], np.int64) * SECOND
    emissions = Emissions(at, np.array([12, 21, 25]) * SECOND, np.array([15, 22, 40]) * SECOND)
    assert emissions.latency(0) == (1.5 * SECOND, MeanLatency(17 / 3 * SECOND, censored=True), 2)
    assert emissions.latency(1_500_000) == (3.5 * SECOND, MeanLatency(35 / 3 * SECOND, censored=True), 2)
    base, wall, emitted = emissions.latency(-8 * SECOND)
    assert base == pytest.approx((2 - 8 - 5) / 3 * SECOND)
    assert (wall, emitted) == (MeanLatency((5 + 0 + 10) / 3 * SECOND, censored=False), 3)


def test_while_no_window_has_closed_the_mean_latency_is_a_floor_and_no_measurement() -> None:
    """Ten windows have been open for 55 s on average, and wait for 10 min of event time: nothing is measured."""
    ends, steps = np.arange(0, 100, 10, dtype=np.int64) * SECOND, np.arange(101, dtype=np.int64) * SECOND

    base, wall, emitted = Emissions(ends, steps, steps).latency(600 * SECOND)

    assert (base, emitted) == (None, 0)
    assert wall is not None
    assert wall == MeanLatency(600 * SECOND, censored=True)
    assert (wall.measured_us, wall.text()) == (None, "at least 10 min")
    assert (wall.is_above(599 * SECOND), wall.is_above(600 * SECOND)) == (True, None)


@given(
    bound_s=st.integers(0, 120),
    gaps=st.lists(st.integers(1, 30), min_size=1, max_size=40),
    ahead_s=st.integers(-300, 60),
)
def test_a_mean_latency_is_never_less_than_what_windows_wait_for(
    bound_s: int, gaps: list[int], ahead_s: int
) -> None:
    """By event time they wait for the bound, less what event times may be ahead of the clock."""
    walls = np.cumsum(np.array(gaps, np.int64)) * SECOND
    ends = np.arange(0, int(walls[-1]) + 1, 10 * SECOND)

    wall = Emissions(ends, walls + ahead_s * SECOND, walls).latency(bound_s * SECOND)[1]

    assert wall is not None
    assert wall.mean_us >= (bound_s - max(ahead_s, 0)) * SECOND


def test_the_mean_of_the_windows_that_closed_is_measured_once_nine_in_ten_have() -> None:
    """Under a bound of 1 s each takes 1 s; one window in twenty, still open, changes nothing of that."""
    ends, steps = np.arange(1, 21, dtype=np.int64) * SECOND, np.arange(21, dtype=np.int64) * SECOND

    _, wall, emitted = Emissions(ends, steps, steps).latency(SECOND)

    assert wall is not None
    assert (wall, emitted) == (MeanLatency(SECOND, censored=False), 19)
    assert (wall.measured_us, wall.text()) == (SECOND, "1 s")
    assert (wall.is_above(SECOND), wall.is_above(SECOND - 1)) == (False, True)


def test_a_window_that_has_been_open_for_an_hour_is_not_hidden_by_those_that_closed() -> None:
    """Of twenty windows nineteen took 1 s; the base has stood still since, and the last has been open for an hour."""
    ends = np.arange(1, 21, dtype=np.int64) * SECOND
    base = np.r_[np.arange(21), 20].astype(np.int64) * SECOND
    wall_us = np.r_[np.arange(21), 3_620].astype(np.int64) * SECOND

    _, wall, emitted = Emissions(ends, base, wall_us).latency(SECOND)

    assert (wall, emitted) == (MeanLatency((19 + 3_600) / 20 * SECOND, censored=True), 19)


def test_without_windows_or_steps_there_is_no_latency() -> None:
    """The empty stream."""
    nothing = np.empty(0, np.int64)
    assert Emissions(nothing, nothing, nothing).latency(0) == (None, None, 0)
    point = Curve.of_replay(row_replay(nothing, nothing, tumbling("10s")), tumbling("10s")).at(0)
    assert point == CurvePoint(0, 0, 0, None, None, 0)
    assert point.completeness is None


@pytest.mark.parametrize("operator", [SessionWindow(5), RowLevel()])
def test_operators_without_windows_have_completeness_and_no_latency(
    operator: SessionWindow | RowLevel,
) -> None:
    """A session's end moves with its rows, and row-level state emits at once."""
    times = np.array([10, 20, 5], np.int64)
    point = Curve.of_replay(row_replay(times, times, operator), operator).at(0)
    assert (point.rows, point.late, point.latency_base_us, point.latency_wall) == (3, 1, None, None)


def test_a_curve_from_a_sketch_never_promises_more_than_the_exact_one(textbook: Curve) -> None:
    """The live curve rests on sketches; what it shows must be a lower bound, and a close one."""
    event, arrival = textbook_stream()
    sketch = Sketch()
    sketch.add(row_replay(event, arrival, tumbling("10s")).needs_us())
    sketched = Curve(sketch, textbook.emissions)
    for bound in np.linspace(0, 45 * SECOND, 91).astype(int).tolist():
        exact, found = textbook.at(bound), sketched.at(bound)
        wider = textbook.at(round(bound / 1.0102))
        assert exact.late <= found.late <= wider.late
        assert found.latency_base_us == exact.latency_base_us
