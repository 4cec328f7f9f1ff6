"""One side of a join: what it is narrowed to leaves the joined output enough, whatever is decided about the others."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.evidence.joint_needs import JointNeeds
from tidemark.models.recommend.joint_bounds import (
    JoinSide,
    JointBounds,
    JointChoice,
    bounds_to_use,
    choose_joint_bounds,
    lost_ppm,
)
from tidemark.models.specs.slo import JoinSlo

pytestmark = pytest.mark.slow

SECOND_US = 1_000_000
SLO = JoinSlo(streams=("left", "right"), target_ppm=990_000)
BOUNDS = st.integers(0, 60_000)
PAIRS = st.tuples(st.integers(0, 5), st.integers(0, 5))


def side_of(side: int, chosen: tuple[int, int], least: tuple[int | None, ...]) -> JoinSide:
    bounds, nothing = JointBounds(chosen, max(chosen)), JointNeeds.nothing(SLO.streams)
    return JoinSide(
        join="j", slo=SLO, side=side, needs=nothing, choice=JointChoice(bounds, 0), least_ms=least
    )


@given(PAIRS, st.lists(st.tuples(PAIRS, st.integers(0, 1), st.booleans()), max_size=30))
def test_however_choices_alternate_both_sides_together_have_what_one_of_them_needs(
    first: tuple[int, int], decisions: list[tuple[tuple[int, int], int, bool]]
) -> None:
    """Each decision is about one side alone, and a job takes up what was published at some later time."""
    in_use, published, chosen = [*first], [*first], [first]
    for wanted, side, taken_up in decisions:
        chosen.append(wanted)
        narrower = side_of(side, wanted, tuple(map(min, in_use, published))).narrower
        may = wanted[side] >= in_use[side] or narrower is None
        published[side] = wanted[side] if may else in_use[side]
        if taken_up:
            in_use = [*published]
        assert any(in_use[0] >= left and in_use[1] >= right for left, right in chosen)


@st.composite
def joint_needs(draw: st.DrawFn) -> JointNeeds:
    """Return some thousand rows of two sides, of which each needs less against one of the bases."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.integers(2_000, 4_000))
    ahead_s = draw(st.sampled_from([0, 20, 60])) * rng.choice([-1, 1], size)
    need_s = rng.exponential(draw(st.sampled_from([1.0, 10.0])), size)
    needs_us = (np.column_stack([need_s, need_s + ahead_s]) * SECOND_US).astype(np.int64)
    return JointNeeds.counted(SLO.streams, rng.integers(0, 2, size), needs_us, np.ones(size, np.int64))


@given(joint_needs(), joint_needs(), st.booleans())
def test_bounds_chosen_before_stay_while_they_meet_the_slo_and_others_save_little(
    before: JointNeeds, after: JointNeeds, due: bool
) -> None:
    held, anew = (choose_joint_bounds(needs, 990_000, 950_000) for needs in (before, after))
    found = bounds_to_use(after, held, 990_000, 950_000, choose_anew=due)

    if found is not held:
        assert found == anew
    if held is not None and found is held:
        late = 1 - after.admitted(held.bounds_ms) / after.rows_by_side
        assert late.sum() <= 0.01
        assert (
            not due
            or anew is None
            or after.watermark_lag_ms(anew.bounds_ms) >= 0.95 * after.watermark_lag_ms(held.bounds_ms)
        )


@given(joint_needs(), BOUNDS, BOUNDS)
def test_rows_late_under_a_bound_are_those_that_no_side_admits(
    needs: JointNeeds, bound_ms: int, other_ms: int
) -> None:
    for side in (0, 1):
        bounds_ms = (bound_ms, other_ms) if side == 0 else (other_ms, bound_ms)
        one = JoinSide(
            join="j", slo=SLO, side=side, needs=needs, choice=JointChoice(JointBounds(bounds_ms, 0), 0)
        )
        admitted = (needs.needs_ms <= np.array(bounds_ms)).any(axis=1)
        assert one.late_under(bound_ms) == needs.rows[~admitted, side].sum()
        assert one.late_under(bound_ms + 1_000) <= one.late_under(bound_ms), "a wider bound loses no more"


@given(st.lists(st.integers(1, 50), min_size=2, max_size=4), st.data())
def test_the_pairs_that_are_lost_are_within_what_is_said_of_them(
    partners: list[int], data: st.DataObject
) -> None:
    """Each row of a side is in equally many pairs: here tuples with one row of each side."""
    late = [data.draw(st.sets(st.integers(0, rows - 1))) for rows in partners]
    # Row i of the first side is joined with row i modulo the size of each other one, as often as it takes.
    size = int(np.lcm.reduce(partners))
    lost = sum(any(i % rows in some for rows, some in zip(partners, late, strict=True)) for i in range(size))
    found = lost_ppm([(rows, len(some), len(some)) for rows, some in zip(partners, late, strict=True)])
    assert found is not None
    share_ppm = Fraction(lost, size) * 1_000_000

    assert found[0] <= share_ppm <= found[1] <= 1_000_000


@pytest.mark.parametrize("sides", [[], [(10, 1, 1), (0, 0, 0)]])
def test_while_a_side_has_no_rows_nothing_is_said(sides: list[tuple[int, int, int]]) -> None:
    assert lost_ppm(sides) is None
