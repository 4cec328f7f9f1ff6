"""A side of a join: the output's SLO decides in place of its own need, and the other sides hold its narrowing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tidemark.models.evidence.joint_needs import JointNeeds
from tidemark.models.recommend.joint_bounds import JoinSide, JointBounds, JointChoice
from tidemark.models.recommend.recommendation import recommend
from tidemark.models.recommend.steps import Recommendation
from tidemark.models.specs.slo import JoinSlo

from support.recommendations import THOUSAND, inputs, step

NEEDS = JointNeeds.counted(
    ("clicks", "views"), np.array([0, 1]), np.array([[1, 1], [1, 1]]) * 1_000_000, np.array([100, 90])
)
SIDE = JoinSide(
    join="enriched",
    slo=JoinSlo(streams=("clicks", "views"), target_ppm=990_000),
    side=0,
    needs=NEEDS,
    choice=JointChoice(JointBounds((3_000, 7_000), 7_000), 0),
    least_ms=(9_000, 7_000),
)


def found(in_use_bound_ms: int | None = 9_000, **changes: Any) -> Recommendation:
    asked = replace(inputs(THOUSAND, in_use_bound_ms=in_use_bound_ms), join=replace(SIDE, **changes))
    return recommend(asked)


def test_the_bound_chosen_for_the_side_takes_the_place_of_its_own_need() -> None:
    assert found().bound_ms == 3_000
    assert step(found(), "join").reason.startswith(
        "the joined output of enriched needs 3 s of clicks for 99 % "
    )
    assert found(in_use_bound_ms=7_000, side=1).bound_ms == 7_000
    assert "quantile" not in {each.kind.label for each in found().steps}
    assert "other sides" not in {each.kind.label for each in recommend(inputs(THOUSAND)).steps}


def test_without_bounds_for_all_sides_there_is_none_for_this_one() -> None:
    nothing = found(choice=None)
    assert nothing.bound_ms is None
    assert nothing.reason == (
        "the output of join enriched decides, and not enough evidence: rows 100 of clicks, 90 of views, and at least "
        "1,004 of each to certify 99 %: the bound in use is held"
    )
    assert "views is stopped" in found(choice=None, unknown="views is stopped").reason


@pytest.mark.parametrize(
    ("changes", "bound_ms", "reason"),
    [
        ({}, 3_000, "every side reported every batch, and no other side has less than the join needs of it"),
        ({"missing_batches": 1}, 9_000, "1 batch of the join not reported by all sides"),
        ({"missing_batches": 2}, 9_000, "2 batches of the join not reported by all sides"),
        ({"least_ms": (9_000, 6_999)}, 9_000, "views has 6.999 s, and the join needs 7 s of it"),
        # What this side itself has does not hold it, nor does what nobody knows.
        ({"least_ms": (1, None)}, 3_000, "every side reported every batch, and no other side has less"),
    ],
)
def test_it_is_not_narrowed_before_the_other_sides_have_what_its_own_bound_rests_on(
    changes: dict[str, Any], bound_ms: int, reason: str
) -> None:
    assert found(**changes).bound_ms == bound_ms
    assert step(found(**changes), "other sides").reason.startswith(reason)
    assert found(in_use_bound_ms=1_000, **changes).bound_ms == 3_000
