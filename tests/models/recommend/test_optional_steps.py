"""Steps that only some SLOs or policies need: what each does, and that it is left out otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.completeness import EvidenceCounts
from tidemark.models.evidence.curve import Curve, ExactNeeds
from tidemark.models.evidence.progress import Progress
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.recommend.inputs import Inputs, WindowCounts, Windows
from tidemark.models.recommend.recommendation import recommend
from tidemark.models.recommend.steps import Conflict, Recommendation
from tidemark.models.recommend.transition import Situation
from tidemark.models.specs.slo import Policy, Slo

MS = 1_000
STEADY = Progress(
    batch_gap_us=1_000 * MS,
    silent_us=500 * MS,
    pace_ppm=1_000_000,
    recent_pace_ppm=1_000_000,
    lag_us=600 * MS,
    usual_lag_us=500 * MS,
    silent_partitions=0,
)
GOOD = WindowCounts(closed=100, good=100, maybe_good=100, worst_ppm=999_000)
BAD = WindowCounts(closed=100, good=90, maybe_good=95, worst_ppm=800_000)
AT_FLOOR = WindowCounts(closed=100, good=90, maybe_good=95, worst_ppm=900_000)
NONE_YET = WindowCounts(closed=0, good=0, maybe_good=0, worst_ppm=None)


def inputs(
    *,
    slo: Slo | None = None,
    policy: Policy | None = None,
    in_use_bound_ms: int | None = None,
    windows: Windows | None = None,
    state_rows: int | None = None,
    downstream: Downstream | None = None,
) -> Inputs:
    """Needs of 1 to 1,000 ms, of which 99 % at 95 % requires 998 ms."""
    need = np.arange(1, 1_001, dtype=np.int64) * MS
    curve = Curve(ExactNeeds(need, np.ones_like(need)), None)
    situation = None
    if state_rows is not None:
        # A window of 1 s, a base 1 s ahead of the watermark and a step of 1 s: state in proportion to 2 s + the bound.
        situation = Situation(
            at_us=0,
            bound_us=(in_use_bound_ms or 0) * MS,
            watermark_us=10_000 * MS,
            base_us=11_000 * MS,
            pace_ppm=1_000_000,
            batch_gap_us=1_000 * MS,
            operator=tumbling("1 second"),
            drops_state=True,
            state_rows=state_rows,
            state_bytes=0,
            open_end_us=np.array([], np.int64),
            open_rows=np.array([], np.int64),
            curve=curve,
            confidence_ppm=950_000,
            rows_per_event=1.0,
            downstream=downstream,
        )
    return Inputs(
        curve=curve,
        slo=slo or Slo(target_ppm=990_000),
        policy=policy or Policy(max_narrowing_ppm=None),
        evidence=EvidenceCounts(
            rows=1_000, unknown_rows=0, missing_batches=0, batches=1, partitions=1, from_us=0, to_us=0
        ),
        in_use_bound_ms=in_use_bound_ms,
        progress=STEADY,
        situation=situation,
        downstream=downstream,
        windows=windows,
    )


def step(found: Recommendation, name: str) -> tuple[int | None, str]:
    ((bound_ms, reason),) = [(step.bound_ms, step.reason) for step in found.steps if step.kind.label == name]
    return bound_ms, reason


def test_steps_without_a_setting_are_left_out() -> None:
    names = [step.kind.label for step in recommend(inputs()).steps]
    assert not {"timeslices", "worst window", "margin", "state cap", "directions", "narrowing step"} & set(
        names
    )


def test_a_margin_is_added_before_the_limits() -> None:
    found = recommend(inputs(policy=Policy(margin_ppm=150_000)))
    assert (found.bound_ms, found.required_ms) == (1_150, 998)
    assert recommend(inputs(policy=Policy(margin_ppm=150_000, max_bound_ms=1_000))).bound_ms == 1_000


@pytest.mark.parametrize(
    ("only", "in_use_bound_ms", "bound_ms"),
    [("Widen", 500, 998), ("Widen", 5_000, 5_000), ("Narrow", 5_000, 998), ("Narrow", 500, 500)],
)
def test_a_direction_that_is_not_allowed_leaves_the_bound_in_use(
    only: Any, in_use_bound_ms: int, bound_ms: int
) -> None:
    assert (
        recommend(
            inputs(policy=Policy(directions=(only,), max_narrowing_ppm=None), in_use_bound_ms=in_use_bound_ms)
        ).bound_ms
        == bound_ms
    )


def test_a_limit_goes_before_the_directions() -> None:
    policy = Policy(directions=("Widen",), max_bound_ms=2_000, max_narrowing_ppm=None)
    assert recommend(inputs(policy=policy, in_use_bound_ms=5_000)).bound_ms == 2_000


def test_one_rollout_narrows_by_no_more_than_its_step() -> None:
    policy = Policy(max_narrowing_ppm=250_000)
    assert recommend(inputs(policy=policy, in_use_bound_ms=4_000)).bound_ms == 3_000
    assert recommend(inputs(policy=policy, in_use_bound_ms=1_200)).bound_ms == 998
    assert recommend(inputs(policy=policy, in_use_bound_ms=10)).bound_ms == 998


def test_by_default_a_bound_is_at_most_halved_and_the_chain_says_so() -> None:
    found = recommend(inputs(policy=Policy(), in_use_bound_ms=600_000))
    assert step(found, "narrowing step") == (300_000, "one rollout narrows by at most 50 %: to 5 min")
    assert found.bound_ms == 300_000


@pytest.mark.parametrize(
    ("on_conflict", "bound_ms"),
    [("exceed_state_cap", 998), ("miss_target", 500), ("exceed_latency_cap", None), (None, None)],
)
def test_a_state_cap_that_is_exceeded_is_resolved_as_the_slo_says(
    on_conflict: Any, bound_ms: int | None
) -> None:
    """2,000 rows now for 2 s of open event time, so a bound of 500 ms holds 2,500 rows of state."""
    slo = Slo(target_ppm=990_000, state_cap_rows=2_500, on_conflict=on_conflict)
    found = recommend(inputs(slo=slo, state_rows=2_000))
    assert found.bound_ms == bound_ms
    assert "about 2,998 rows of state, above the cap of 2,500" in step(found, "state cap")[1]
    assert found.conflicts == (Conflict("state", required_bound_ms=998),)


def test_a_state_cap_that_is_met_or_cannot_be_judged_changes_nothing() -> None:
    slo = Slo(target_ppm=990_000, state_cap_rows=2_998)
    assert step(recommend(inputs(slo=slo, state_rows=2_000)), "state cap") == (
        998,
        "about 2,998 rows of state, the cap is 2,998",
    )
    assert "no state is known yet" in step(recommend(inputs(slo=slo)), "state cap")[1]


def test_no_cap_holds_a_bound_for_state_that_spark_never_forgets() -> None:
    never = Downstream(state_unforeseen="Spark never forgets a key of dropDuplicates(id)", state_grows=True)
    found = recommend(
        inputs(slo=Slo(target_ppm=990_000, state_cap_rows=1), state_rows=2_000, downstream=never)
    )
    assert found.bound_ms == 998
    assert found.conflicts == ()
    assert step(found, "state cap")[1].endswith("Spark never forgets a key of dropDuplicates(id)")


@pytest.mark.parametrize(
    ("windows", "in_use_bound_ms", "bound_ms", "body"),
    [
        (Windows(GOOD, GOOD), 2_000, 998, "the worst window admitted 99.9 %"),
        (Windows(BAD, GOOD), 2_000, 2_000, "is not narrowed"),
        (Windows(AT_FLOOR, AT_FLOOR), 800, 998, "the worst window admitted 90 %, the floor is 90 %"),
        (Windows(BAD, BAD), 800, 1_000, "the worst window under the bound in use admitted 80 %"),
        (Windows(BAD, BAD), 400, 998, "the worst window under the bound in use admitted 80 %"),
        (Windows(BAD, BAD), 2_000, 2_000, "no row of known need exceeds the bound in use"),
        (Windows(NONE_YET, NONE_YET), 2_000, 2_000, "no window has closed yet"),
        (None, 2_000, 2_000, "no window has closed yet"),
    ],
)
def test_a_worst_window_below_its_floor_widens_a_step_and_holds_every_narrowing(
    windows: Windows | None, in_use_bound_ms: int, bound_ms: int, body: str
) -> None:
    slo = Slo(target_ppm=990_000, worst_window_ppm=900_000)
    found = recommend(inputs(slo=slo, windows=windows, in_use_bound_ms=in_use_bound_ms))
    assert found.bound_ms == bound_ms
    assert body in step(found, "worst window")[1]


@pytest.mark.parametrize(
    ("windows", "in_use_bound_ms", "bound_ms", "body"),
    [
        (Windows(GOOD, GOOD), 2_000, 998, "100 of 100 windows did"),
        (Windows(BAD, GOOD), 2_000, 2_000, "90 of 100 windows did"),
        (Windows(BAD, BAD), 800, 1_000, "90 of the 100 windows closed under the bound in use did"),
        (Windows(BAD, NONE_YET), 2_000, 2_000, "90 of 100 windows did"),
        (None, 2_000, 2_000, "no window has closed yet"),
    ],
)
def test_under_timeslices_too_few_good_windows_widen_a_step_and_hold_every_narrowing(
    windows: Windows | None, in_use_bound_ms: int, bound_ms: int, body: str
) -> None:
    slo = Slo(target_ppm=990_000, objective="timeslices", good_windows_ppm=950_000)
    found = recommend(inputs(slo=slo, windows=windows, in_use_bound_ms=in_use_bound_ms))
    assert found.bound_ms == bound_ms
    assert body in step(found, "timeslices")[1]
