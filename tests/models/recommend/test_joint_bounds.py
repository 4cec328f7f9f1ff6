"""Bounds for the sides of a join, chosen together: the SLO holds, and the state is never more than with one bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.confidence import certified_rank, certified_share
from tidemark.models.base.operators import row_level
from tidemark.models.evidence.joint_needs import JointNeeds
from tidemark.models.recommend.joint_bounds import JointBounds, choose_joint_bounds, estimated_common_ms

from support.examples import examples
from support.joined_streams import JoinedStreams
from support.reports import START_US, query_reports

SECOND_MS, SECOND_US = 1_000, 1_000_000
RETENTION_US = (6 * SECOND_US, 4 * SECOND_US, 0)


@st.composite
def joined_streams(draw: st.DrawFn) -> JoinedStreams:
    """Return two or three sides whose lead alternates, with delays of several kinds."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    sides, size = draw(st.integers(2, 3)), draw(st.integers(1, 900))
    trigger_us = draw(st.sampled_from([SECOND_US, 5 * SECOND_US]))
    times, batches = [], []
    for _ in range(sides):
        behind_us = draw(st.sampled_from([0, 3, 50])) * SECOND_US
        phase_us = draw(st.sampled_from([1, 60, 10_000])) * SECOND_US
        times_us = np.sort(rng.integers(0, 600 * SECOND_US, size))
        delay_us = rng.exponential(draw(st.sampled_from([0.1, 2.0, 20.0])), size) * SECOND_US
        arrival_us = times_us + delay_us + behind_us * (times_us // phase_us % 2)
        times.append(times_us.astype(np.int64))
        batches.append((arrival_us // trigger_us).astype(np.int64))
    return JoinedStreams(times, batches)


def lost_share(streams: JoinedStreams, bounds_ms: tuple[int, ...], needs: JointNeeds) -> float:
    """Return the sum of the sides' shares of late rows, of the rows that a watermark judges."""
    late = streams.replay(bounds_ms, RETENTION_US[: len(bounds_ms)]).late
    rows = needs.rows_by_side.tolist()
    return sum(float(some / every) for some, every in zip(late, rows, strict=True))


@pytest.mark.slow
@given(joined_streams(), st.sampled_from([900_000, 990_000]))
def test_the_slo_holds_whenever_one_common_bound_meets_it_and_the_state_is_never_more(
    streams: JoinedStreams, target_ppm: int
) -> None:
    needs, sides = streams.needs(), len(streams.times_us)
    chosen = choose_joint_bounds(needs, target_ppm, 950_000)
    if chosen is None:
        everything = [certified_share(rows, rows, 1 - 0.05 / sides) for rows in needs.rows_by_side.tolist()]
        assert sum(1 - share for share in everything) > 1 - target_ppm / 1e6, "any bound would do"
        return
    common = (chosen.common_ms,) * sides
    retention_us = RETENTION_US[:sides]
    state, with_common = (
        streams.replay(bounds, retention_us).state_rows for bounds in (chosen.bounds_ms, common)
    )

    assert lost_share(streams, chosen.bounds_ms, needs) <= 1 - target_ppm / 1e6
    assert state.mean() <= with_common.mean()
    assert (state <= with_common).all() or max(chosen.bounds_ms) > chosen.common_ms


@given(joined_streams(), st.lists(st.integers(0, 90_000), min_size=3, max_size=3))
def test_at_least_the_rows_said_to_be_admitted_are(streams: JoinedStreams, bounds_ms: list[int]) -> None:
    """And at most those that need a hundredth more are not said to be."""
    needs, sides = streams.needs(), len(streams.times_us)
    late = np.array(streams.replay(bounds_ms[:sides], RETENTION_US[:sides]).late)
    wider = [bound_ms * 102 // 100 + 2 for bound_ms in bounds_ms[:sides]]

    assert (needs.admitted(bounds_ms[:sides]) <= needs.rows_by_side - late).all()
    assert (needs.admitted(wider) >= needs.rows_by_side - late).all()


def of_needs(*rows: tuple[int, tuple[int, ...], int]) -> JointNeeds:
    """Return rows given as (side, needs in seconds, how many)."""
    side, needs, counts = (np.array(each, np.int64) for each in zip(*rows, strict=True))
    return JointNeeds.counted(("left", "right"), side, needs * SECOND_US, counts)


def chosen_of(needs: JointNeeds) -> JointBounds:
    chosen = choose_joint_bounds(needs, 990_000, 950_000)
    assert chosen is not None
    return chosen


def near(bound_ms: int, seconds: int) -> bool:
    return seconds * SECOND_MS <= bound_ms <= seconds * SECOND_MS * 1.011


def test_a_side_that_always_trails_is_waited_for_once_and_nothing_is_lowered_for_no_gain() -> None:
    """Against its own base the right side needs 40 s; against the group's, which the left side holds back, nothing."""
    needs = of_needs((0, (2, 52), 10_000), (1, (-10, 40), 10_000))
    chosen = chosen_of(needs)

    assert near(chosen.common_ms, 2)
    assert chosen.bounds_ms == (chosen.common_ms, chosen.common_ms)


def test_where_the_lead_alternates_each_side_waits_for_what_the_other_does_not_cover() -> None:
    """Half of the time the left side trails by 50 s, and then rows of both sides need little against its base."""
    needs = of_needs(
        (0, (1, 51), 5_000), (1, (1, 51), 5_000), (0, (1, 1), 5_000), (1, (30, 30), 1_000), (1, (1, 1), 4_000)
    )
    chosen = chosen_of(needs)

    assert near(chosen.common_ms, 30)
    assert near(chosen.bounds_ms[0], 1)
    assert near(chosen.bounds_ms[1], 30)


@given(joined_streams(), st.sampled_from([900_000, 990_000]))
def test_the_estimate_of_the_common_bound_meets_the_target_and_is_at_most_the_certified_one(
    streams: JoinedStreams, target_ppm: int
) -> None:
    needs, sides = streams.needs(), len(streams.times_us)
    found, chosen = estimated_common_ms(needs, target_ppm), choose_joint_bounds(needs, target_ppm, 950_000)
    if found is None:
        assert not needs.rows_by_side.all()
        return
    late = [needs.late(side, [found] * sides) / needs.rows_by_side[side] for side in range(sides)]
    assert sum(late) <= 1 - target_ppm / 1e6 + 1e-12
    assert chosen is None or found <= chosen.common_ms


def test_too_few_rows_of_one_side_certify_nothing() -> None:
    assert choose_joint_bounds(of_needs((0, (1, 1), 10**6), (1, (1, 1), 100)), 990_000, 950_000) is None
    assert choose_joint_bounds(of_needs((0, (1, 1), 10**6)), 990_000, 950_000) is None


@given(st.lists(joined_streams(), min_size=1, max_size=3))
@examples(20)
def test_counts_of_several_spans_add_up_in_any_order(spans: list[JoinedStreams]) -> None:
    needs = [each.needs() for each in spans if len(each.times_us) == len(spans[0].times_us)]
    one, other = JointNeeds.merged(needs), JointNeeds.merged([JointNeeds.merged(needs[::-1])])

    assert np.array_equal(one.needs_ms, other.needs_ms)
    assert np.array_equal(one.rows, other.rows)
    assert one.rows.sum() == sum(each.rows.sum() for each in needs)


def test_a_batch_counts_once_every_side_has_a_base_and_only_with_the_reports_of_one_batch() -> None:
    left, right = (
        query_reports([[("0", START_US + n * SECOND_US)] for n in range(4)], row_level(), stream=side)
        for side in ("left", "right")
    )
    bases_ms = [left[3].late_base_ms, left[3].late_base_ms]

    assert JointNeeds.of_batch([left[3], right[3]], bases_ms).rows_by_side.tolist() == [1, 1]
    assert JointNeeds.of_batch([left[3], right[3]], [bases_ms[0], None]).rows_by_side.tolist() == [0, 0]
    with pytest.raises(ValueError, match="of one batch"):
        JointNeeds.of_batch([left[3], right[2]], bases_ms)


def test_needs_of_other_sides_cannot_merge() -> None:
    nothing = np.empty((0, 2), np.int64)
    with pytest.raises(ValueError, match="different sides"):
        JointNeeds.merged(
            [JointNeeds(("a", "b"), nothing, nothing), JointNeeds(("b", "a"), nothing, nothing)]
        )


@given(st.integers(1, 5_000), st.floats(0.5, 0.9999), st.data())
def test_a_share_is_certified_by_as_many_as_the_certified_rank(
    samples: int, share: float, data: st.DataObject
) -> None:
    admitted = data.draw(st.integers(0, samples))
    rank = certified_rank(samples, share, 0.95)

    assert (certified_share(admitted, samples, 0.95) >= share - 1e-12) >= (
        rank is not None and admitted >= rank
    )
    assert (certified_share(admitted, samples, 0.95) > share + 1e-12) <= (
        rank is not None and admitted >= rank
    )
