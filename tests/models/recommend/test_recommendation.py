"""The recommendation's chain: what each step does, that the limits come last, and that each reason has its figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.evidence.curve import Curve
from tidemark.models.evidence.events import NO_BATCHES, LateBatches, Overdispersion
from tidemark.models.evidence.progress import UNKNOWN_PROGRESS
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.recommend.recommendation import recommend
from tidemark.models.recommend.steps import StepKind, deciding_step
from tidemark.models.specs.slo import Policy, Slo

from support.examples import examples
from support.recommendations import IN_ONE_STEP, MS, STEADY, THOUSAND, capped, inputs, step

# -- the estimate ------------------------------------------------------------------------------------------------


def test_the_estimate_is_the_certified_order_statistic() -> None:
    """Rank 998 of 1,000, not 990: that one is too small half of the time."""
    asked = inputs(THOUSAND)
    found = recommend(replace(asked, evidence=replace(asked.evidence, to_us=3_600_000_000)))
    assert found.bound_ms == 998
    reason = step(found, "quantile").reason
    assert reason == (
        "998 of 1,000 rows need at most 998 ms, which certifies 99 % of the rows at 95 % confidence at every look; "
        "what comes seldomer than every 6 min 33 s is not covered by 1 h of evidence"
    )


def test_a_need_is_rounded_up_to_a_whole_millisecond() -> None:
    """Rounded down it would lose the row it was made for."""
    assert recommend(inputs([7.001] * 500)).bound_ms == 8


def test_a_negative_need_gives_a_bound_of_0() -> None:
    """Spark's delay cannot be negative outside Live."""
    found = recommend(inputs([-5_000] * 500))
    assert (found.bound_ms, found.required_ms) == (0, 0)


@pytest.mark.parametrize("rows", [0, 2, 416])
def test_without_enough_evidence_there_is_no_bound_and_the_figures_say_why(rows: int) -> None:
    """No bound, not 0: and no later step may invent one, the policy's minimum included."""
    found = recommend(inputs([5] * rows, policy=Policy(min_bound_ms=1_000), in_use_bound_ms=7))
    assert found.bound_ms is None
    assert [step.kind.label for step in found.steps] == ["quantile"]
    assert found.reason == (
        f"not enough evidence: {rows} rows; 417 rows are needed to certify 99 % at 95 % confidence at every look; "
        "counted over the horizon of 1 d, of which 0 s has been reported: more rows are to come"
    )


def test_an_hour_of_a_backfill_does_not_narrow_a_bound_below_what_the_other_batches_need() -> None:
    """Twenty batches of 3,000 rows on time, and 400 of 6 rows of which one needs 50 s: 0.6 % of all, a sixth of theirs.

    By rows alone it would be narrowed to half a second.
    """
    needs_ms = [[-1_000] * 3_000] * 20 + [[500] * 5 + [50_000]] * 400
    batches = [
        LateBatches.of_batch(Sketch().buckets_of(np.array(each) * MS), np.ones(len(each)))
        for each in needs_ms
    ]
    asked = inputs([need for each in needs_ms for need in each], policy=IN_ONE_STEP, in_use_bound_ms=90_000)
    by_rows, found = (
        recommend(replace(asked, curve=Curve(asked.curve.needs, None, overdispersion)))
        for overdispersion in (None, Overdispersion.of([sum(batches, NO_BATCHES)]))
    )
    assert by_rows.bound_ms == 500
    assert found.bound_ms is None or 50_000 <= found.bound_ms < 70_000
    assert "a few batches hold nearly all rows" in found.reason


def test_in_a_replay_a_batch_is_one_event_and_nothing_is_widened_without_a_certificate() -> None:
    """One batch of 1,000 rows was taken for 910 independent events, which certified hours."""
    replay = replace(STEADY, pace_ppm=200_000_000)
    asked = inputs([5_000] * 1_000, in_use_bound_ms=100, progress=replay)
    many = replace(asked, evidence=replace(asked.evidence, batches=417))
    by_order = replace(many, progress=STEADY, evidence=replace(asked.evidence, replayed_rows=1))
    assert [recommend(each).bound_ms for each in (asked, many, by_order)] == [None, 5_000, None]
    assert "event time moved at 200.00 times the clock, as in a replay" in recommend(asked).reason
    assert "1 row read out of order: nothing is widened by less" in recommend(by_order).reason
    assert recommend(replace(asked, progress=STEADY)).bound_ms == 5_000


def test_where_events_are_too_few_a_bound_is_widened_by_the_rows_and_neither_set_nor_narrowed() -> None:
    """Eight uploads certify nothing, but their rows were late all the same."""
    asked = inputs(range(1, 601))
    buckets = [Sketch().buckets_of(np.full(75, 75 * upload * MS)) for upload in range(1, 9)]
    uploads = [LateBatches.of_batch(each, np.ones(75)) for each in buckets]
    overdispersion = Overdispersion.of([sum(uploads, NO_BATCHES)])
    asked = replace(asked, curve=Curve(asked.curve.needs, None, overdispersion))
    found = {
        in_use_ms: recommend(replace(asked, in_use_bound_ms=in_use_ms)) for in_use_ms in (None, 100, 700)
    }
    assert {in_use_ms: each.bound_ms for in_use_ms, each in found.items()} == {
        None: None,
        100: 600,
        700: None,
    }
    assert step(found[100], "quantile").reason == (
        "600 of 600 rows need at most 600 ms, and the bound in use is narrower; not enough evidence: 600 rows (as 3 "
        "independent events); 72,722 rows (as 417 independent events) are needed to certify 99 % at 95 % confidence at "
        "every look"
    )


def test_the_confidence_is_the_slos() -> None:
    """At 99.9 % a thousand rows must all be on time, and at 99.99 % they are not enough."""
    at = {
        ppm: recommend(inputs(THOUSAND, slo=Slo(target_ppm=990_000, confidence_ppm=ppm))).bound_ms
        for ppm in (500_000, 950_000, 999_000, 999_900)
    }
    assert at == {500_000: 995, 950_000: 998, 999_000: 1_000, 999_900: None}


# -- round up ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("need_ms", "bound_ms"), [(0, 0), (7, 7), (999, 999), (1_001, 1_010), (2_526_701, 2_530_000)]
)
def test_a_bound_is_rounded_up_to_three_digits_so_that_no_row_is_lost_by_it(
    need_ms: int, bound_ms: int
) -> None:
    """The last digits of a sample are no knowledge, and each would be a new generation."""
    found = recommend(inputs([need_ms] * 1_000))

    assert found.bound_ms == bound_ms


# -- unknown rows ------------------------------------------------------------------------------------------------


def test_unknown_rows_beyond_a_tenth_of_the_budget_never_narrow() -> None:
    """2 of 1,002 rows are more than 0.1 %: they may all have needed more."""
    found = recommend(inputs(THOUSAND, unknown_rows=2, in_use_bound_ms=5_000))
    assert found.bound_ms == 5_000
    assert step(found, "unknown rows").reason == (
        "2 rows of unknown need: the bound in use, 5 s, is not narrowed"
    )


def test_unknown_rows_within_a_tenth_of_the_budget_are_mentioned_and_allowed() -> None:
    """1 of 1,001 rows is within a tenth of 1 %."""
    found = recommend(inputs(THOUSAND, unknown_rows=1, in_use_bound_ms=5_000))
    assert found.bound_ms == 998
    assert step(found, "unknown rows").reason == "1 row of unknown need, too few to matter"


def test_unknown_rows_of_just_a_tenth_of_the_budget_are_allowed() -> None:
    """1 of 1,000 rows."""
    assert recommend(inputs(range(1, 1_000), unknown_rows=1, in_use_bound_ms=5_000)).bound_ms == 997


def test_where_every_need_is_known_the_step_says_so() -> None:
    assert step(recommend(inputs(THOUSAND)), "unknown rows").reason == "the need of every row is known"


def test_a_lost_batch_never_narrows() -> None:
    """Nobody knows how many rows it held."""
    found = recommend(inputs(THOUSAND, missing_batches=1, in_use_bound_ms=5_000))
    assert found.bound_ms == 5_000
    assert "1 batch never reported" in found.reason


@pytest.mark.parametrize("in_use_bound_ms", [None, 500, 998])
def test_unknown_rows_do_not_keep_a_bound_from_being_widened(in_use_bound_ms: int | None) -> None:
    """What is known already requires more, and the rest can only add to it."""
    assert recommend(inputs(THOUSAND, missing_batches=9, in_use_bound_ms=in_use_bound_ms)).bound_ms == 998


# -- what holds a narrowing back ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changes", "body"),
    [
        (
            "no data",
            {"silent_us": 10_001 * MS},
            "no report for 10 s when this was decided, where 1 s between batches is typical",
        ),
        ("catching up", {"recent_pace_ppm": 1_510_000}, "event time moves at 1.51 times the clock"),
        ("catching up", {"lag_us": 10_501 * MS}, "event time is 10 s further behind the clock than usual"),
        ("catching up", {"recent_pace_ppm": None}, "too few batches to tell whether the stream keeps up"),
        ("catching up", {"lag_us": None}, "too few batches to tell whether the stream keeps up"),
        ("catching up", {"usual_lag_us": None}, "too few batches to tell whether the stream keeps up"),
        ("catching up", {"batch_gap_us": None}, "too few batches to tell whether the stream keeps up"),
        (
            "silent partitions",
            {"silent_partitions": 2},
            "2 partitions that used to report are silent, and may come late",
        ),
    ],
)
def test_nothing_is_narrowed_on_delays_that_may_not_be_the_streams_own_but_it_is_widened(
    name: str, changes: dict[str, Any], body: str
) -> None:
    """No data, a catch-up, a replay, a stall or a silent partition: each by itself, with its figures."""
    progress = replace(STEADY, **changes)
    held = recommend(inputs(THOUSAND, in_use_bound_ms=5_000, progress=progress))
    assert held.bound_ms == 5_000
    assert body in step(held, name).reason
    assert step(held, name).reason.endswith("the bound in use, 5 s, is not narrowed")
    assert recommend(inputs(THOUSAND, in_use_bound_ms=500, progress=progress)).bound_ms == 998
    assert recommend(inputs(THOUSAND, progress=progress)).bound_ms == 998


@pytest.mark.parametrize(
    "changes",
    [{"silent_us": 10_000 * MS}, {"recent_pace_ppm": 1_500_000}, {"lag_us": 10_500 * MS}, {"pace_ppm": None}],
    ids=str,
)
def test_at_the_edge_of_each_guard_rail_a_narrowing_passes(changes: dict[str, Any]) -> None:
    """Ten gaps, one and a half times the clock and ten gaps of lag are still usual; the long pace holds nothing."""
    assert (
        recommend(inputs(THOUSAND, in_use_bound_ms=5_000, progress=replace(STEADY, **changes))).bound_ms
        == 998
    )


def test_while_nothing_is_known_of_a_streams_progress_nothing_is_narrowed() -> None:
    """Until there is evidence the bound in use stays."""
    assert recommend(inputs(THOUSAND, in_use_bound_ms=5_000, progress=UNKNOWN_PROGRESS)).bound_ms == 5_000


def test_it_is_narrowed_to_the_widest_bound_required_recently_and_widened_at_once() -> None:
    """1,200 ms was required within five minutes: 998 ms comes later; 900 ms holds nothing."""
    found = recommend(inputs(THOUSAND, in_use_bound_ms=5_000, recent_bounds_ms=(900, 1_200, 1_000)))
    assert (found.bound_ms, found.required_ms) == (1_200, 998)
    assert step(found, "narrow late").reason == (
        "1.2 s was required in the last 5 min: not narrowed further yet"
    )
    assert recommend(inputs(THOUSAND, in_use_bound_ms=5_000, recent_bounds_ms=(900,))).bound_ms == 998
    assert recommend(inputs(THOUSAND, in_use_bound_ms=10, recent_bounds_ms=(20,))).bound_ms == 998


def test_the_required_bound_is_that_before_any_guard_rail() -> None:
    """So that what is held does not hold itself for ever; without evidence nothing is required."""
    held = recommend(inputs(THOUSAND, in_use_bound_ms=5_000, missing_batches=1))
    assert (held.bound_ms, held.required_ms) == (5_000, 998)
    assert recommend(inputs([1] * 10)).required_ms is None


@pytest.mark.parametrize("recent", [(), (4_000,)], ids=str)
def test_the_latency_cap_narrows_what_a_guard_rail_held(recent: tuple[int, ...]) -> None:
    """Caps come last: where the target may be missed, 5 s may not stay above a cap of 2 s."""
    stalled = replace(STEADY, silent_partitions=1)
    slo = capped("miss_target", cap_ms=2_000)
    asked = inputs(THOUSAND, slo=slo, in_use_bound_ms=5_000, progress=stalled, recent_bounds_ms=recent)
    assert recommend(asked).bound_ms == 1_000


# -- limits and dead band ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "bound_ms", "reason"),
    [
        (Policy(min_bound_ms=2_000), 2_000, "limited by the policy: the minimum bound is 2 s"),
        (Policy(max_bound_ms=300), 300, "limited by the policy: the maximum bound is 300 ms"),
        (Policy(min_bound_ms=998, max_bound_ms=998), 998, "within the policy's limits"),
    ],
)
def test_the_policys_limits_hold(policy: Policy, bound_ms: int, reason: str) -> None:
    """Whatever the rows require."""
    found = recommend(inputs(THOUSAND, policy=policy))
    assert found.bound_ms == bound_ms
    assert step(found, "limits").reason == reason


HALF_A_SECOND = Slo(target_ppm=990_000, window_ms=500)


@pytest.mark.parametrize(
    ("in_use_bound_ms", "policy", "bound_ms", "reason"),
    [
        (None, Policy(), 500, "limited to 500 ms, the SLO's window: set max_bound_ms to allow more"),
        (400, Policy(), 500, "limited to 500 ms, the SLO's window: set max_bound_ms to allow more"),
        (700, Policy(), 700, "limited to 700 ms, the bound in use: set max_bound_ms to allow more"),
        (5_000, Policy(max_narrowing_ppm=None), 998, "within the policy's limits"),
        (None, Policy(max_bound_ms=2_000), 998, "within the policy's limits"),
    ],
)
def test_nothing_wider_than_the_slos_window_is_recommended_unless_a_person_allows_it(
    in_use_bound_ms: int | None, policy: Policy, bound_ms: int, reason: str
) -> None:
    """By a maximum, or by a bound in use that is wider: what nobody chose narrows no bound."""
    asked = inputs(THOUSAND, slo=HALF_A_SECOND, policy=policy, in_use_bound_ms=in_use_bound_ms)
    found = recommend(asked)
    assert found.bound_ms == bound_ms
    assert step(found, "limits").reason == reason


@pytest.mark.parametrize(
    ("in_use_bound_ms", "bound_ms"), [(1_108, 1_108), (1_109, 998), (998, 998), (997, 998)]
)
def test_narrowing_by_less_than_a_tenth_is_not_worth_a_change_but_any_widening_is(
    in_use_bound_ms: int, bound_ms: int
) -> None:
    """1,108 - 998 is 9.93 % of 1,108; widening guards rows and has no dead band."""
    assert recommend(inputs(THOUSAND, in_use_bound_ms=in_use_bound_ms)).bound_ms == bound_ms


def test_the_dead_band_says_how_much_it_left() -> None:
    """So that nobody wonders why the bound does not move."""
    found = recommend(inputs(THOUSAND, in_use_bound_ms=1_050))
    assert (
        step(found, "dead band").reason == "narrowing by 52 ms is less than a tenth: the bound in use stays"
    )


def test_the_dead_band_does_not_keep_a_bound_above_the_policys_maximum() -> None:
    """A limit is a limit, by however little it is broken."""
    bounds_ms = {
        max_ms: recommend(
            inputs(THOUSAND, policy=Policy(max_bound_ms=max_ms), in_use_bound_ms=1_000)
        ).bound_ms
        for max_ms in (990, 999, 1_000)
    }
    assert bounds_ms == {990: 990, 999: 998, 1_000: 1_000}


@pytest.mark.parametrize(
    ("on_conflict", "cap_ms", "bound_ms"),
    [("miss_target", 1_950, 950), (None, 1_999, 998), ("exceed_latency_cap", 1_950, 1_000)],
)
def test_the_dead_band_does_not_keep_a_bound_above_the_latency_cap(
    on_conflict: Any, cap_ms: int, bound_ms: int
) -> None:
    """1,000 ms wait 2 s: within a tenth of the recommendation, but above the cap; only exceed_latency_cap allows it."""
    assert (
        recommend(inputs(THOUSAND, slo=capped(on_conflict, cap_ms), in_use_bound_ms=1_000)).bound_ms
        == bound_ms
    )


maybe_ms = st.none() | st.integers(0, 3_000)


@given(
    minimum=st.integers(0, 2_000),
    room=maybe_ms,
    in_use=maybe_ms,
    cap=maybe_ms,
    on_conflict=st.sampled_from(["miss_target", "exceed_latency_cap"]),
    unknown=st.integers(0, 30),
    missing=st.integers(0, 1),
)
@examples(200)
def test_no_step_undoes_a_limit(
    *,
    minimum: int,
    room: int | None,
    in_use: int | None,
    cap: int | None,
    on_conflict: Any,
    unknown: int,
    missing: int,
) -> None:
    """Whatever came before, the result is within the policy, and within the cap unless the SLO lets it be exceeded."""
    maximum = None if room is None else minimum + room
    policy = Policy(min_bound_ms=minimum, max_bound_ms=maximum, max_narrowing_ppm=None)
    slo = Slo(target_ppm=990_000, latency_cap_ms=cap, on_conflict=on_conflict)
    asked = inputs(
        THOUSAND,
        slo=slo,
        policy=policy,
        in_use_bound_ms=in_use,
        unknown_rows=unknown,
        missing_batches=missing,
    )
    bound = recommend(asked).bound_ms
    assert bound is not None
    assert bound >= minimum
    assert policy.max_bound_ms is None or bound <= policy.max_bound_ms
    if cap is not None and on_conflict == "miss_target":
        assert bound + 1_000 <= cap or bound == minimum


def test_the_steps_come_in_the_order_of_their_power() -> None:
    """The estimate first, what limits it last."""
    found = recommend(inputs(THOUSAND, in_use_bound_ms=10))
    assert [step.kind.label for step in found.steps] == [
        "quantile",
        "round up",
        "unknown rows",
        "no data",
        "catching up",
        "silent partitions",
        "narrow late",
        "latency cap",
        "limits",
        "dead band",
    ]
    assert found.reason == "; ".join(step.reason for step in found.steps)
    assert found.bound_ms == found.steps[-1].bound_ms


def test_the_same_inputs_give_the_same_recommendation() -> None:
    """No clock, no chance."""
    assert recommend(inputs(THOUSAND, in_use_bound_ms=10)) == recommend(inputs(THOUSAND, in_use_bound_ms=10))


# -- the kinds of steps ------------------------------------------------------------------------------------------


def test_labels_are_plain_lower_case_words() -> None:
    """They are what people read."""
    assert StepKind.ROUND_UP.label == "round up"
    assert all(kind.label == kind.label.lower().strip() for kind in StepKind)


@pytest.mark.parametrize(
    ("given", "decider"),
    [
        ({"in_use_bound_ms": 998}, "quantile"),
        ({"in_use_bound_ms": 5_000}, "quantile"),
        ({"in_use_bound_ms": 5_000, "missing_batches": 1}, "unknown rows"),
        ({"in_use_bound_ms": 5_000, "progress": replace(STEADY, silent_partitions=2)}, "silent partitions"),
        ({"in_use_bound_ms": 5_000, "recent_bounds_ms": (1_200,)}, "narrow late"),
        ({"in_use_bound_ms": 1_050}, "dead band"),
        ({"in_use_bound_ms": 5_000, "missing_batches": 1, "policy": Policy(max_bound_ms=990)}, "limits"),
    ],
)
def test_the_step_that_decides_is_named_and_a_bound_that_is_held_is_not_called_right(
    given: dict[str, Any], decider: str
) -> None:
    found = recommend(inputs(THOUSAND, **given))
    assert deciding_step(found.steps).kind.label == decider
    needs = found.steps[0].reason
    why = step(found, decider).reason
    assert found.because == (needs if why == needs else f"{needs}; {why}")
    assert "is right" not in found.reason


def test_in_live_the_bound_that_is_held_is_called_the_published_one() -> None:
    """The plan of a job in Live has the ceiling, so that the bound in use is another."""
    held = replace(inputs(THOUSAND, in_use_bound_ms=5_000, missing_batches=1), bound_is_published=True)
    assert recommend(held).because.endswith("the published bound, 5 s, is not narrowed")
    assert "the bound in use" not in recommend(held).reason
