"""Grace: early windows that are mended, against a replay that counts row by row."""

from __future__ import annotations

import numpy as np
import pytest

from tidemark.models.backtest.grace import GracePoint, with_grace
from tidemark.models.curve import Curve
from tidemark.models.operators import TimeWindow
from tidemark.models.replay import replay_per_row

from support.backtests import keys_of

SECOND = 1_000_000
WINDOW = TimeWindow(10 * SECOND, 10 * SECOND)
BOUND = 5 * SECOND
GRACES = (0, 5, 15, 30)


def stream() -> tuple[list[int], list[int]]:
    """Event and arrival times of rows that are up to a minute late, some of them."""
    dice = np.random.default_rng(5)
    event = np.sort(dice.integers(0, 600 * SECOND, 3_000))
    arrival = event + dice.exponential(6 * SECOND, len(event)).astype(np.int64)
    order = np.argsort(arrival, kind="stable")
    return event[order].tolist(), arrival[order].tolist()


def curve() -> Curve:
    event, arrival = (np.array(times) for times in stream())
    return Curve.of_replay(replay_per_row(event, arrival, WINDOW), WINDOW)


def _wall_us(point: GracePoint) -> float:
    assert point.latency_wall is not None
    assert not point.latency_wall.censored
    return point.latency_wall.mean_us


def counted(grace_us: int) -> tuple[int, int, int, float]:
    """Count row by row: on time, in the grace, to the side output; and the mean base at first emission past the end."""
    on_time = in_grace = side = 0
    base: int | None = None
    emitted: dict[int, int] = {}
    open_windows: set[int] = set()
    for event in stream()[0]:
        for end in keys_of(event, WINDOW):
            if base is None or base - BOUND < end:
                on_time += 1
            elif base - BOUND < end + grace_us:
                in_grace += 1
            else:
                side += 1
            open_windows.add(end)
        base = event if base is None else max(base, event)
        for end in open_windows:
            if end <= base - BOUND:
                emitted.setdefault(end, base)
    return on_time, in_grace, side, float(np.mean([at - end for end, at in emitted.items()]))


@pytest.mark.parametrize("grace", GRACES)
def test_a_grace_keeps_and_loses_what_a_replay_counts(grace: int) -> None:
    on_time, in_grace, side, latency = counted(grace * SECOND)

    found = with_grace(curve(), BOUND, grace * SECOND)

    assert (found.on_time, found.in_grace, found.side_output) == (on_time, in_grace, side)
    assert found.pairs == on_time + in_grace + side
    assert found.completeness == (on_time + in_grace) / found.pairs
    assert found.first_completeness == on_time / found.pairs
    assert found.latency_base_us == pytest.approx(latency)


@pytest.mark.parametrize("grace", GRACES[1:])
def test_a_bound_with_a_grace_reaches_the_completeness_of_one_large_bound_at_less_latency(grace: int) -> None:
    small = with_grace(curve(), BOUND, grace * SECOND)
    large = with_grace(curve(), BOUND + grace * SECOND, 0)

    assert small.completeness == large.completeness == large.first_completeness
    assert small.side_output == large.side_output
    assert (small.latency_base_us or 0) < (large.latency_base_us or 0)
    assert _wall_us(small) < _wall_us(large)
    # The price: what the first emission shows is less whole.
    assert small.in_grace > 0
    assert small.on_time < large.on_time


def test_a_longer_grace_loses_less_and_leaves_the_first_emission_as_it_is() -> None:
    points = [with_grace(curve(), BOUND, grace * SECOND) for grace in GRACES]

    assert [point.side_output for point in points] == sorted({p.side_output for p in points}, reverse=True)
    assert len({(point.on_time, point.latency_base_us, point.latency_wall) for point in points}) == 1
    assert points[0].in_grace == 0


def test_a_grace_below_0_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        with_grace(curve(), BOUND, -1)


def test_without_pairs_there_is_no_completeness() -> None:
    nothing = GracePoint(0, 0, 0, 0, 0, 0, None, None)

    assert nothing.completeness is nothing.first_completeness is None
