"""What verifies a bound that is in effect, and what rolls it back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.confidence import interval_ppm
from tidemark.models.base.defaults import VERIFY_MS
from tidemark.models.rollout.evidence import Judged
from tidemark.models.rollout.gate import DAY_US
from tidemark.models.rollout.machine import advance, restores_previous
from tidemark.models.rollout.verification import needed_event_us, needed_rows
from tidemark.models.specs.slo import Slo

from support.rollouts import NOW_US, SLO, facts, moved, promise, rollout


def test_the_event_time_needed_holds_ten_windows_and_the_wider_bound() -> None:
    assert needed_event_us(10_000_000, 60_000, 5_000) == 160_000_000
    assert needed_event_us(10_000_000, 5_000, 60_000) == 160_000_000
    assert needed_event_us(0, None, 7) == 7_000
    assert needed_event_us(10_000_000) == needed_event_us(10_000_000, None) == 100_000_000


def test_the_rows_needed_hold_ten_late_rows_of_the_budget_and_ten_batches() -> None:
    assert [needed_rows(ppm, 0, 1.0) for ppm in (900_000, 990_000, 999_999)] == [100, 1_000, 10_000_000]
    assert [needed_rows(990_000, rows, 1.0) for rows in (100, 101)] == [1_000, 1_010]


def test_the_rows_needed_are_those_of_as_many_independent_events() -> None:
    assert [needed_rows(990_000, rows, 20.5) for rows in (0, 3_000)] == [20_500, 30_000]


def test_a_bound_is_verified_once_enough_rows_were_at_risk_and_says_how_many_before() -> None:
    move = moved(rollout("Effective"), facts(judged=Judged(9_999, 5, 5), at_risk=Judged(999, 5, 5)))
    assert (move.state, move.reason) == ("Effective", "in effect; rows at risk: 999, needed 1,000")
    assert moved(rollout("Effective"), facts(at_risk=Judged(1_000, 5, 5))).state == "Verified"


def test_a_bound_is_verified_once_enough_event_time_has_passed_and_says_how_much_before() -> None:
    one = rollout("Effective", needed_event_ms=160_000)
    early = facts(judged=Judged(1_452, 0, 0), event_us=40_000_000)
    move = moved(one, early)
    assert (move.state, move.reason) == (
        "Effective",
        "in effect; rows at risk: 1,452, needed 1,000, which is enough; event time: 40 s, needed 2 min 40 s",
    )
    assert moved(one, replace(early, event_us=160_000_000)).state == "Verified"


def test_before_a_bound_is_in_effect_nothing_was_judged_under_it() -> None:
    assert facts().judged == facts().at_risk == Judged(0, 0, 0)


def test_without_a_prediction_the_verdict_says_so() -> None:
    known = facts(judged=Judged(1_000, 5, 5))
    assert moved(rollout("Effective"), known).reason == (
        "99.50 % of 1,000 rows at risk were admitted, as predicted"
    )
    unpredicted = moved(rollout("Effective", predicted=promise(None)), known)
    assert unpredicted.reason.endswith(" were admitted; nothing could be predicted")


def test_a_rollout_that_needs_more_than_a_week_of_event_time_gets_it() -> None:
    one = rollout("Effective", acknowledged_us=NOW_US, needed_event_ms=10 * DAY_US // 1_000)
    late_us = NOW_US + VERIFY_MS * 1_000 + 10 * DAY_US
    assert moved(one, facts(), late_us).state == "Effective"
    assert moved(one, facts(), late_us + 1).state == "Expired"


def test_a_narrowing_that_loses_more_than_predicted_and_than_the_budget_is_rolled_back() -> None:
    move = moved(rollout("Effective"), facts(judged=Judged(1_000, 30, 30)))
    assert (move.state, move.failure) == ("RolledBack", "Completeness")
    assert move.reason == (
        "97.00 % of 1,000 rows were admitted: fewer than predicted (at least 99.10 %) and than the target, 0.99"
    )


def test_a_narrowing_is_rolled_back_for_what_was_judged_before_rows_were_at_risk() -> None:
    """A rollback is prompt: it does not wait until whole windows have come and gone."""
    judged = facts(judged=Judged(5_000, 500, 500), at_risk=Judged(0, 0, 0))
    assert moved(rollout("Effective"), judged).state == "RolledBack"


def test_a_narrowing_is_rolled_back_for_the_rows_at_risk_alone_and_not_for_what_was_predicted() -> None:
    losing = facts(judged=Judged(100_000, 30, 30), at_risk=Judged(1_000, 30, 30))
    assert moved(rollout("Effective"), losing).state == "RolledBack"
    assert moved(rollout("Effective", predicted=promise(950_000)), losing).state == "Verified"


def test_a_narrowing_within_the_target_is_verified_though_worse_than_predicted() -> None:
    one = rollout("Effective", predicted=promise(999_000))
    move = moved(one, facts(judged=Judged(1_000, 9, 9)))
    assert move.state == "Verified"
    assert "fewer than predicted (at least 99.90 %), but not below the target" in move.reason


def test_a_share_whose_certain_maximum_is_just_what_was_predicted_is_as_predicted() -> None:
    _, max_ppm = interval_ppm(9, 9, 1_000, SLO.confidence_ppm)
    assert max_ppm is not None
    for min_ppm, said in ((max_ppm, ", as predicted"), (max_ppm + 1, "fewer than predicted")):
        move = moved(rollout("Effective", predicted=promise(min_ppm)), facts(judged=Judged(1_000, 9, 9)))
        assert said in move.reason


def test_rows_that_may_have_been_admitted_cause_no_rollback_and_verify_nothing() -> None:
    assert moved(rollout("Effective"), facts(judged=Judged(1_394, 5, 400))).state == "Effective"
    verified = moved(rollout("Effective"), facts(judged=Judged(1_395, 5, 400)))
    assert verified.state == "Verified"
    assert verified.reason == (
        "71.33 % to 99.64 % of 1,395 rows at risk were admitted (of 395 it is unknown); whether that is "
        "as predicted is unknown, too"
    )


def test_rows_of_which_it_is_unknown_make_no_verdict_that_they_could_turn() -> None:
    """A widening whose known rows were all lost: the others can have been admitted, as far as anybody knows."""
    one = rollout("Effective", direction="Widen")
    assert moved(one, facts(judged=Judged(150_000, 1_000, 150_000))).reason == (
        "0.00 % to 99.33 % of 150,000 rows at risk were admitted (of 149,000 it is unknown); whether that "
        "is as predicted is unknown, too"
    )
    few = moved(one, facts(judged=Judged(1_005, 5, 10))).reason
    assert few == "99.00 % to 99.50 % of 1,005 rows at risk were admitted (of 5 it is unknown), as predicted"
    many = moved(one, facts(judged=Judged(1_005, 500, 505))).reason
    assert "(of 5 it is unknown), fewer than predicted (at least 99.10 %)" in many


def test_a_narrowing_is_not_rolled_back_for_a_first_handful_of_rows_that_the_rest_may_outweigh() -> None:
    """Half of 20 rows is not certain to be more than 1 % of the 1,000 that decide; 40 are, whatever follows."""
    assert moved(rollout("Effective"), facts(judged=Judged(20, 10, 10))).state == "Effective"
    assert moved(rollout("Effective"), facts(judged=Judged(40, 40, 40))).state == "RolledBack"


@given(judged=st.integers(1, 999), late=st.integers(0, 999), rest=st.integers(0, 999))
def test_an_early_verdict_is_the_one_that_all_rows_would_give(judged: int, late: int, rest: int) -> None:
    late, rest = min(late, judged), min(rest, 1_000 - judged)
    early = moved(rollout("Effective"), facts(judged=Judged(judged, late, late)))
    if early.state == "RolledBack":
        whole = Judged(1_000, late + rest, late + rest)
        assert moved(rollout("Effective"), facts(judged=whole)).state == "RolledBack"
    else:
        assert early.state == "Effective"


def test_a_widening_is_never_rolled_back_for_lost_rows() -> None:
    one = rollout("Effective", direction="Widen")
    move = moved(one, facts(judged=Judged(1_000, 500, 500)))
    assert move.state == "Verified"
    assert "a rollback to a narrower bound would admit even fewer" in move.reason


def test_a_verified_narrowing_that_misses_its_target_is_rolled_back() -> None:
    verified = rollout("Verified")
    assert advance(verified, facts(judged=Judged(100_000, 900, 900)), NOW_US) is None
    move = moved(verified, facts(judged=Judged(100_000, 3_000, 3_000)))
    assert (move.state, move.failure) == ("RolledBack", "Completeness")
    assert move.reason == (
        "after it was verified, 97.00 % of 100,000 rows were admitted: fewer than predicted (at least 99.10 %) "
        "and than the target, 0.99; the previous bound is published again"
    )
    assert restores_previous("Verified", move, verified)


def test_a_verified_widening_that_misses_its_target_stays_and_says_so_once() -> None:
    verified, missing = rollout("Verified", direction="Widen"), facts(judged=Judged(100_000, 3_000, 3_000))
    move = moved(verified, missing)
    assert (move.state, move.failure) == ("Verified", "Completeness")
    assert move.reason.endswith("it stays: a narrower bound would lose more")
    assert not restores_previous("Verified", move, verified)
    missed = replace(verified, missed_us=NOW_US)
    assert advance(missed, missing, NOW_US) is None
    # No longer certain is not enough: the share itself is back.
    assert advance(missed, facts(judged=Judged(100_000, 1_001, 1_001)), NOW_US) is None
    recovered = moved(missed, facts(judged=Judged(100_000, 1_000, 1_000)))
    assert (recovered.state, recovered.failure) == ("Verified", None)


def test_a_verified_rollout_is_judged_for_the_slos_window_and_not_under_a_pin() -> None:
    missing = facts(judged=Judged(100_000, 3_000, 3_000))
    end_us = NOW_US + SLO.window_ms * 1_000
    assert moved(rollout("Verified"), missing, end_us).state == "RolledBack"
    assert advance(rollout("Verified"), missing, end_us + 1) is None
    assert advance(rollout("Verified"), replace(missing, pinned="by INC-1"), NOW_US) is None


@pytest.mark.parametrize(
    ("slo", "changes", "failure"),
    [
        (Slo(target_ppm=990_000, latency_cap_ms=9), {"latency_us": 9_001.0}, "Latency"),
        (Slo(target_ppm=990_000, state_cap_rows=9), {"state_rows": 10}, "State"),
        (
            Slo(target_ppm=990_000, latency_cap_ms=9, on_conflict="exceed_latency_cap"),
            {"latency_us": 9_001.0},
            None,
        ),
        (Slo(target_ppm=990_000, state_cap_rows=9, on_conflict="exceed_state_cap"), {"state_rows": 10}, None),
        (Slo(target_ppm=990_000, latency_cap_ms=9), {"latency_us": 9_000.0}, None),
        (Slo(target_ppm=990_000), {"latency_us": 9_001.0, "state_rows": 10}, None),
        (Slo(target_ppm=990_000, state_cap_rows=9), {"state_rows": 9}, None),
        (Slo(target_ppm=990_000, latency_cap_ms=9, state_cap_rows=9), {}, None),
    ],
)
def test_a_widening_beyond_a_cap_is_rolled_back_unless_the_slo_allows_it(
    slo: Slo, changes: dict[str, Any], failure: str | None
) -> None:
    one = rollout("Effective", direction="Widen")
    move = moved(one, facts(slo=slo, judged=Judged(1_000, 5, 5), **changes))
    assert (move.state, move.failure) == ("RolledBack" if failure else "Verified", failure)
    narrowing = moved(rollout("Effective"), facts(slo=slo, judged=Judged(1_000, 5, 5), **changes))
    assert narrowing.state == "Verified"
    early = moved(one, facts(slo=slo, judged=Judged(999, 5, 5), **changes))
    assert early.state == "Effective", "the mean of a few rows says nothing"
