"""The curve: the textbook's table, exactly, and both latencies by hand."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidemark.models.choice import percent
from tidemark.models.curve import Curve, CurvePoint, Emissions
from tidemark.models.operators import RowLevel, SessionWindow, tumbling
from tidemark.models.replay import replay_per_row
from tidemark.models.sketch import Sketch

from support.streams import SECOND, TEXTBOOK_TABLE, textbook_stream


@pytest.fixture(scope="module")
def textbook() -> Curve:
    event, arrival = textbook_stream()
    return Curve.of_replay(replay_per_row(event, arrival, tumbling("10s")), tumbling("10s"))


@pytest.mark.parametrize("bound_s", TEXTBOOK_TABLE)
def test_the_textbooks_table_comes_out_exactly(textbook: Curve, bound_s: int) -> None:
    """Completeness, late rows and mean emit latency (base minus end) of the per-row engine."""
    completeness, late, latency = TEXTBOOK_TABLE[bound_s]
    point = textbook.at(bound_s * SECOND)
    assert point.latency_base_us is not None
    assert (percent(point), point.late, f"{point.latency_base_us / SECOND:.2f}") == (
        completeness,
        late,
        latency,
    )


@given(st.lists(st.integers(-10, 60 * SECOND), min_size=2, max_size=8))
@settings(deadline=None, max_examples=30)
def test_completeness_and_both_latencies_grow_with_the_bound(textbook: Curve, bounds: list[int]) -> None:
    """The choice and its bisection rest on it; the base latency may shrink only by windows that are emitted no more."""
    points = [textbook.at(bound) for bound in sorted(bounds)]
    for narrow, wide in pairwise(points):
        assert narrow.late >= wide.late
        assert narrow.windows_emitted >= wide.windows_emitted
        assert narrow.latency_wall_us is not None
        assert wide.latency_wall_us is not None
        assert narrow.latency_wall_us <= wide.latency_wall_us


def test_the_two_latencies_are_those_of_their_names() -> None:
    """Windows end at 10, 20, 30 s; steps emit by 12, 21, 25 s at wall times 15, 22, 40 s.

    Bound 0: the first is emitted at 12 (2 after its end; wall 5), the second at 21 (1; wall 2), the third never:
    it counts by wall as emitted at 40 (10) and is left out of the base latency. Bound 1.5 s: the first at 12 (2;
    wall 5), the second at 25 (5; wall 20), the third never. Bound -8 s: 12 emits the second too, before its end.
    """
    at = np.array([10, 20, 30], np.int64) * SECOND
    emissions = Emissions(at, np.array([12, 21, 25]) * SECOND, np.array([15, 22, 40]) * SECOND)
    assert emissions.latency_us(0) == (1.5 * SECOND, 17 / 3 * SECOND, 2)
    assert emissions.latency_us(1_500_000) == (3.5 * SECOND, 35 / 3 * SECOND, 2)
    base, wall, emitted = emissions.latency_us(-8 * SECOND)
    assert base == pytest.approx((2 - 8 - 5) / 3 * SECOND)
    assert (wall, emitted) == ((5 + 0 + 10) / 3 * SECOND, 3)


def test_when_nothing_is_emitted_there_is_no_base_latency() -> None:
    """None, not 0: a job that emits nothing is not fast."""
    emissions = Emissions(np.array([10], np.int64), np.array([5], np.int64), np.array([12], np.int64))
    assert emissions.latency_us(0) == (None, 2.0, 0)


def test_without_windows_or_steps_there_is_no_latency() -> None:
    """The empty stream."""
    nothing = np.empty(0, np.int64)
    assert Emissions(nothing, nothing, nothing).latency_us(0) == (None, None, 0)
    point = Curve.of_replay(replay_per_row(nothing, nothing, tumbling("10s")), tumbling("10s")).at(0)
    assert point == CurvePoint(0, 0, 0, None, None, 0)
    assert point.completeness is None


@pytest.mark.parametrize("operator", [SessionWindow(5), RowLevel()])
def test_operators_without_windows_have_completeness_and_no_latency(
    operator: SessionWindow | RowLevel,
) -> None:
    """A session's end moves with its rows, and row-level state emits at once."""
    times = np.array([10, 20, 5], np.int64)
    point = Curve.of_replay(replay_per_row(times, times, operator), operator).at(0)
    assert (point.rows, point.late, point.latency_base_us, point.latency_wall_us) == (3, 1, None, None)


def test_a_curve_from_a_sketch_never_promises_more_than_the_exact_one(textbook: Curve) -> None:
    """The live curve rests on sketches; what it shows must be a lower bound, and a close one."""
    event, arrival = textbook_stream()
    sketch = Sketch()
    sketch.add(replay_per_row(event, arrival, tumbling("10s")).needs_us())
    sketched = Curve(sketch, textbook.emissions)
    for bound in np.linspace(0, 45 * SECOND, 91).astype(int).tolist():
        exact, found = textbook.at(bound), sketched.at(bound)
        wider = textbook.at(round(bound / 1.0102))
        assert exact.late <= found.late <= wider.late
        assert found.latency_base_us == exact.latency_base_us
