"""Ages: the grid in which rows are counted by how long after their key they came."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.live.ages import BUCKETS, CLOSE_AFTER, WAIT, ZERO, bucket_of
from tidemark.models.live.ages import UPPER as EDGES

GREATEST = float(EDGES[-1])
"""Where the grid ends, in triggers."""
ages = st.floats(-2 * GREATEST, 2 * GREATEST)


def bucket(age: float) -> int:
    return int(bucket_of(np.array([age]))[0])


def test_edges_ascend_and_are_the_same_on_both_sides_of_zero() -> None:
    """A clock that lags makes negative ages, which are counted as finely as positive ones."""
    assert (np.diff(EDGES) > 0).all()
    np.testing.assert_array_equal(EDGES, -EDGES[::-1])
    assert len(CLOSE_AFTER) == len(WAIT) == BUCKETS == len(EDGES)


def test_a_bucket_is_a_quarter_of_a_trigger_near_zero_and_never_wider_than_a_twentieth_of_its_age() -> None:
    width, reach = np.diff(EDGES), np.abs(EDGES)
    nearer = np.minimum(reach[:-1], reach[1:])
    np.testing.assert_allclose(width[nearer < 16], 0.25)
    assert (width[nearer >= 16] <= 0.0501 * nearer[nearer >= 16]).all()


@given(ages)
def test_a_bucket_holds_the_ages_above_its_lower_edge_up_to_its_upper_one(age: float) -> None:
    at = bucket(age)
    assert at == 0 or EDGES[at - 1] < age
    assert at == BUCKETS - 1 or age <= EDGES[at]


def test_an_edge_itself_falls_below_itself_and_the_next_number_above() -> None:
    for at, edge in enumerate(EDGES[:-1].tolist()):
        assert bucket(edge) == at
        assert bucket(np.nextafter(edge, np.inf)) == at + 1


@given(ages, ages)
def test_a_greater_age_never_falls_into_an_earlier_bucket(one: float, other: float) -> None:
    assert bucket(min(one, other)) <= bucket(max(one, other))


def test_the_bucket_of_age_zero_ends_there() -> None:
    """What is in it came by its key's end."""
    assert bucket(0.0) == ZERO
    assert bucket(1e-9) == ZERO + 1
    assert EDGES[ZERO] == CLOSE_AFTER[ZERO + 1] == 0


def test_ages_beyond_the_grid_fall_into_its_ends() -> None:
    assert bucket_of(np.array([-1e18, -GREATEST, GREATEST, 1e18])).tolist() == [
        0,
        0,
        BUCKETS - 1,
        BUCKETS - 1,
    ]


def test_the_grid_reaches_three_days_at_a_trigger_of_one_second() -> None:
    assert GREATEST > 3 * 86_400


@given(st.floats(0.01, GREATEST))
def test_no_age_is_waited_for_longer_than_it_takes(age: float) -> None:
    """But for a bucket wider than a trigger, whose highest age is waited for."""
    at = bucket(age)
    assert WAIT[at] == max(CLOSE_AFTER[at], 0)
    assert WAIT[at] < age or WAIT[at] <= EDGES[at] - 1


def test_to_close_after_a_bucket_s_age_admits_every_row_of_the_bucket() -> None:
    """A row is judged by the watermark of the batch before, when its key was one trigger younger, and not by less."""
    inside = slice(1, BUCKETS - 1)
    assert (EDGES[inside] - CLOSE_AFTER[inside] <= 1 + 1e-9).all()


def test_to_close_before_the_end_costs_nothing() -> None:
    assert (WAIT[: ZERO + 2] == 0).all()
    assert (np.diff(WAIT[ZERO + 1 :]) > 0).all()
