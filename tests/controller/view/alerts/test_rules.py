"""Which alerts hold: the rules of the notifier at their thresholds, and where they must not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.base.alert_table import (
    ALERTS,
    MIN_FUTURE_ROWS,
    MIN_LATE_ROWS,
    MIN_MISDATED_ROWS,
    MIN_SKEW_MS,
)
from tidemark.controller.base.db.tables import PredictionRow, RolloutRow
from tidemark.controller.view.alerts.rules import ActiveAlert, active_alerts
from tidemark.controller.view.state.partition_rows import PartitionFacts
from tidemark.controller.view.state.recent_reports import NO_RECENT_ROWS, JudgedRows, RecentRows
from tidemark.controller.view.state.state import StreamState
from tidemark.models.evidence.losses import LostOfValue, LostSummary

from support.recommendations import expected
from support.stream_states import NOW_US, newest_windows, stream_state

MINUTE_US = 60_000_000

GOOD = JudgedRows(10_000, 10)
WINDOWS_S = sorted(
    {length for alert in ALERTS for burn in alert.burns for length in (burn.long_s, burn.short_s)}
)
QUIET = RecentRows(
    by_window_s=dict.fromkeys(WINDOWS_S, GOOD),
    watermark_then_ms=NOW_US // 1_000 - 900_000,
    judged=1_000,
    future_rows=0,
    misdated_rows=0,
    uncounted_rows=0,
)


WELL = stream_state()
PARTITION = PartitionFacts(
    first_seen_us=0,
    last_seen_us=NOW_US,
    batches=1_000,
    partition="7",
    behind_us=0,
    last_future_us=None,
    last_misdated_us=None,
    misdated_event_us=None,
    skewed=False,
    costs_ms=None,
    without_bound_ms=None,
    state="Active",
)


def found(
    state: StreamState = WELL, *partitions: PartitionFacts, recent: RecentRows = QUIET
) -> list[ActiveAlert]:
    return list(active_alerts(state, partitions, recent, NOW_US))


def names(*given: Any, **more: Any) -> list[str]:
    return [f"{each.alert.name} {each.alert.severity}" for each in found(*given, **more)]


def with_rows(**rows: JudgedRows) -> RecentRows:
    """Return rows by window, named as in ``h1`` or ``m5``; the others are good."""
    unit = {"m": 60, "h": 3_600, "d": 86_400}
    changed = {int(name[1:]) * unit[name[0]]: counted for name, counted in rows.items()}
    return replace(QUIET, by_window_s={**QUIET.by_window_s, **changed})


def test_nothing_holds_where_all_is_well() -> None:
    assert names() == []
    assert (
        names(stream_state(newest=None, recommendation=None, steps=(), published=None, target_ppm=None)) == []
    )
    assert names(recent=NO_RECENT_ROWS) == []


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({"h1": JudgedRows(1_000, 145), "m5": JudgedRows(100, 15)}, "page"),
        ({"h1": JudgedRows(1_000, 143), "m5": JudgedRows(100, 15)}, None),
        ({"h1": JudgedRows(1_000, 145), "m5": JudgedRows(100, 14)}, None),
        ({"h6": JudgedRows(1_000, 61), "m30": JudgedRows(100, 7)}, "page"),
        ({"h6": JudgedRows(1_000, 61), "m30": JudgedRows(100, 6)}, None),
        ({"d1": JudgedRows(1_000, 31), "h2": JudgedRows(100, 4)}, "ticket"),
        ({"d3": JudgedRows(1_000, 11), "h6": JudgedRows(1_000, 11)}, "ticket"),
        ({"d3": JudgedRows(1_000, 10), "h6": JudgedRows(1_000, 10)}, None),
    ],
)
def test_the_budget_burns_when_both_windows_of_a_pair_do(
    rows: dict[str, JudgedRows], expected: str | None
) -> None:
    active = names(recent=with_rows(**rows))
    assert active == ([] if expected is None else [f"TidemarkCompletenessBudgetBurn {expected}"])


def test_three_late_rows_of_a_quiet_stream_burn_no_budget() -> None:
    for late in (3, MIN_LATE_ROWS - 1):
        quiet = JudgedRows(late, late)
        assert names(recent=replace(QUIET, by_window_s=dict.fromkeys(WINDOWS_S, quiet))) == []
    loud = JudgedRows(MIN_LATE_ROWS, MIN_LATE_ROWS)
    assert len(names(recent=replace(QUIET, by_window_s=dict.fromkeys(WINDOWS_S, loud)))) == 2


def test_over_a_short_window_the_target_itself_burns_nothing() -> None:
    day = stream_state(window_ms=86_400_000)
    kept = replace(QUIET, by_window_s=dict.fromkeys(WINDOWS_S, JudgedRows(1_000, 10)))
    assert names(day, recent=kept) == []
    lost = replace(QUIET, by_window_s=dict.fromkeys(WINDOWS_S, JudgedRows(1_000, 11)))
    assert len(names(day, recent=lost)) == 2


def test_an_objective_on_windows_has_no_burn_alert() -> None:
    bad = replace(QUIET, by_window_s=dict.fromkeys(WINDOWS_S, JudgedRows(1_000, 900)))
    assert names(stream_state(objective="timeslices"), recent=bad) == []


def test_a_biased_loss_is_an_alert_and_a_loss_that_hits_all_alike_is_none() -> None:
    lost = LostSummary("region", (LostOfValue("south", 1_000, 70),), "region 'south' loses rows")
    assert names(stream_state(lost=lost)) == ["TidemarkLossIsBiased ticket"]
    assert names(stream_state(lost=replace(lost, bias=None))) == []


def test_a_window_is_below_the_target_for_sure_and_by_ten_rows() -> None:
    def alerts(rows: int, late_min: int, late_max: int, **changes: Any) -> list[ActiveAlert]:
        return found(stream_state(windows=newest_windows(rows, late_min, late_max), **changes))

    (active,) = alerts(1_000, 11, 11)
    assert (active.alert.name, active.alert.severity) == ("TidemarkWindowBelowTarget", "ticket")
    assert active.value == "2025-12-31 23:00:00 UTC"
    assert alerts(1_000, 10, 10) == [], "as many as the target allows"
    assert alerts(500, MIN_LATE_ROWS - 1, 20) == [], "of a small window"
    assert alerts(1_000, 10, 500) == [], "of which it is not known whether they were late"
    assert alerts(1_000, 11, 11, target_ppm=None) == []
    assert alerts(1_000, 11, 11, worst_window_ppm=950_000) == [], "which a single window may lose"
    assert len(alerts(1_000, 51, 51, worst_window_ppm=950_000)) == 1


def test_a_budget_is_spent_below_nothing_and_by_ten_rows() -> None:
    assert names(stream_state(remaining_ppm=-1)) == ["TidemarkCompletenessBudgetSpent ticket"]
    assert names(stream_state(remaining_ppm=0)) == []
    assert names(stream_state(remaining_ppm=-2_000_000, late_max=3)) == []
    unknown = stream_state(remaining_ppm=-1, late_max=0, unjudged_rows=10)
    assert names(unknown) == ["TidemarkCompletenessBudgetSpent ticket"], "of which nothing is known"


def test_alerts_on_partitions_name_them() -> None:
    active = found(
        WELL,
        replace(PARTITION, partition="6", costs_ms=90_000),
        replace(PARTITION, skewed=True, costs_ms=18_000),
        replace(PARTITION, partition="8", state="Idle"),
        replace(PARTITION, partition="9", state="Behind", costs_ms=400_000),
        replace(PARTITION, partition="new", state=None),
    )
    assert [(each.alert.name, dict(each.labels)["partition"]) for each in active] == [
        ("TidemarkPartitionSkewed", "7"),
        ("TidemarkPartitionIdle", "8"),
    ]
    assert active[0].description == "Without partition 7 the bound would be 18 s narrower."
    assert active[0].summary == "Partition 7 slows shop/clicks down"


@pytest.mark.parametrize(
    ("gap_s", "silent_s", "holds"),
    [(10, 301, True), (10, 299, False), (60, 599, False), (60, 601, True), (None, 10_000, False)],
)
def test_reports_are_absent_after_ten_gaps_and_five_minutes(
    gap_s: int | None, silent_s: int, holds: bool
) -> None:
    state = stream_state(
        gap_us=None if gap_s is None else gap_s * 1_000_000, received_us=NOW_US - silent_s * 1_000_000
    )
    assert (names(state, recent=replace(QUIET, judged=0)) == ["TidemarkReportsAbsent ticket"]) == holds


def test_a_paused_stream_may_be_silent_and_need_not_apply_its_bound() -> None:
    late = {"received_us": 0, "published_us": 0, "applied_generation": None, "mode": "Restart"}
    assert names(stream_state(**late, paused=True)) == []
    assert len(names(stream_state(**late, paused=False))) == 2


@pytest.mark.parametrize(
    ("mode", "minutes", "holds"),
    [
        ("Restart", 29, False),
        ("Restart", 31, True),
        ("Live", 31, True),
        ("OnRestart", 31, False),
        ("OnRestart", 7 * 1_440 + 1, True),
        ("Off", 7 * 1_440 + 1, False),
    ],
)
def test_a_bound_is_not_adopted_after_a_time_that_depends_on_the_mode(
    mode: Any, minutes: int, holds: bool
) -> None:
    state = stream_state(
        mode=mode, generation=2, published_bound_ms=5_000, published_us=NOW_US - minutes * MINUTE_US
    )
    assert (names(state) == ["TidemarkBoundNotAdopted ticket"]) == holds


def test_a_bound_is_saturated_and_constraints_conflict_where_the_decision_says_so() -> None:
    held = stream_state(required_ms=9_000, recommended_bound_ms=5_000, conflict=True)
    assert names(held) == ["TidemarkBoundSaturated ticket", "TidemarkConstraintsConflict ticket"]


STOOD = NOW_US // 1_000 - 10_000


@pytest.mark.parametrize(
    ("why", "state", "recent", "holds"),
    [
        ("it stood", WELL, replace(QUIET, watermark_then_ms=STOOD), True),
        ("it moved", WELL, QUIET, False),
        ("there was none", WELL, replace(QUIET, watermark_then_ms=None), False),
        ("no rows came", WELL, replace(QUIET, watermark_then_ms=STOOD, judged=0), False),
        (
            "a wider bound",
            stream_state(in_use_bound_ms=60_000),
            replace(QUIET, watermark_then_ms=STOOD),
            False,
        ),
        (
            "the ceiling of a live job explains nothing",
            stream_state(in_use_bound_ms=60_000, mode="Live", applied_generation=1),
            replace(QUIET, watermark_then_ms=STOOD),
            True,
        ),
    ],
)
def test_a_watermark_stands_still_when_rows_come_and_no_wider_bound_explains_it(
    why: str, state: StreamState, recent: RecentRows, holds: bool
) -> None:
    assert ("TidemarkWatermarkStandsStill ticket" in names(state, recent=recent)) == holds, why


def test_a_few_future_dated_or_misdated_rows_and_a_small_skew_call_nobody() -> None:
    assert names(recent=replace(QUIET, misdated_rows=MIN_MISDATED_ROWS - 1)) == []
    assert names(recent=replace(QUIET, future_rows=MIN_FUTURE_ROWS - 1)) == []
    assert names(WELL, replace(PARTITION, skewed=True, costs_ms=MIN_SKEW_MS - 1)) == []
    assert names(WELL, replace(PARTITION, skewed=True, costs_ms=MIN_SKEW_MS)) != []


def test_a_budget_alert_says_how_fast_it_burns_and_how_long_the_rest_lasts() -> None:
    """A quarter late at a target of 99 % is 25 times the pace; nine tenths of 30 days last 25.9 hours so."""
    lost = replace(QUIET, by_window_s=dict.fromkeys(WINDOWS_S, JudgedRows(1_000, 250)))
    page, ticket = found(recent=lost)
    assert page.value == ticket.value == "25"
    assert page.description == (
        "Rows come too late at 25 times the pace that the SLO allows. At this pace what is left of its budget lasts "
        "1 d 1 h."
    )
    spent, *_ = found(stream_state(remaining_ppm=-5), recent=lost)
    assert spent.description.endswith("lasts 0 s.")
    unknown, *_ = found(stream_state(overview=None), recent=lost)
    assert unknown.description.endswith("lasts an unknown time.")


def rollout(state: str, minutes: int, *, vetoed: bool = False) -> StreamState:
    row = RolloutRow(state=state, changed_us=NOW_US - minutes * MINUTE_US, vetoed=vetoed)
    return stream_state(rollout=row)


def test_a_rollout_that_waits_for_a_person_is_an_alert_unless_the_stream_is_paused() -> None:
    (waits,) = found(rollout("AwaitingApproval", 20))
    assert (waits.alert.name, waits.value) == ("TidemarkApprovalPending", "20 min")
    assert names(rollout("Published", 20)) == []
    held = rollout("AwaitingApproval", 20)
    paused = replace(held.policy, value=replace(held.policy.value, paused=True))
    assert names(replace(held, policy=paused)) == []


@pytest.mark.parametrize(
    ("minutes", "vetoed", "holds"),
    [(0, False, True), (1_439, False, True), (1_440, False, False), (5, True, False)],
)
def test_an_automatic_rollback_is_an_alert_for_a_day_and_a_persons_is_none(
    minutes: int, vetoed: bool, holds: bool
) -> None:
    assert (names(rollout("RolledBack", minutes, vetoed=vetoed)) == ["TidemarkRolledBack ticket"]) == holds


@pytest.mark.parametrize(
    ("most", "least", "holds"),
    [(984_999, 985_000, True), (985_000, 985_000, False), (None, 985_000, False), (1, None, False)],
)
def test_a_prediction_is_wrong_when_for_sure_fewer_rows_are_admitted_than_its_interval_allows(
    most: int | None, least: int | None, holds: bool
) -> None:
    """What was counted may fall short by chance; the upper end of its interval holds at every look."""
    realised = None if most is None else 0
    row = PredictionRow(
        expected=expected(60_000, rows=1_000, late=10, min_ppm=least),
        realised_ppm=realised,
        realised_max_ppm=most,
    )
    state = replace(WELL, prediction=row)
    assert (names(state) == ["TidemarkPredictionWrong ticket"]) == holds


def test_future_dated_rows_and_uncounted_rows_are_given_in_numbers() -> None:
    active = found(recent=replace(QUIET, future_rows=30, misdated_rows=20, uncounted_rows=4_000))
    assert [(each.alert.name, each.value) for each in active] == [
        ("TidemarkFutureDatedRows", "30"),
        ("TidemarkMisdatedRows", "20"),
        ("TidemarkTelemetryOverflow", "4,000"),
    ]


@given(
    st.integers(1, 999_999),
    st.integers(60_000, 31 * 86_400_000),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=7, max_size=7),
)
def test_a_stream_that_keeps_its_target_in_every_window_never_burns(
    target_ppm: int, window_ms: int, rows: list[tuple[int, int]]
) -> None:
    kept = {
        window: JudgedRows(judged, min(late, judged * (1_000_000 - target_ppm) // 1_000_000))
        for window, (judged, late) in zip(WINDOWS_S, rows, strict=True)
    }
    state = stream_state(target_ppm=target_ppm, window_ms=window_ms)
    assert names(state, recent=replace(QUIET, by_window_s=kept)) == []


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_names_with_braces_appear_as_they_are(job: str, stream: str, partition: str) -> None:
    named = stream_state(job=job, stream=stream)
    (active,) = found(named, replace(PARTITION, partition=partition, state="Idle"))
    assert active.summary == f"Partition {partition} of {job}/{stream} is silent"
