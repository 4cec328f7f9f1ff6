"""Which alerts hold: the rules of the notifier at their thresholds, and where they must not hold."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.alerts.findings import Finding, findings
from tidemark.controller.alerts.table import ALERTS, MIN_LATE_ROWS
from tidemark.controller.stream_state.partition_standing import PartitionStanding
from tidemark.controller.stream_state.recent_rows import UNKNOWN_LATELY, Lately, Rows
from tidemark.controller.stream_state.standing import Newest, Standing, Told, Wish

NOW_US = 1_767_225_600_000_000
MINUTE_US = 60_000_000

NEWEST = Newest(
    report_id=1,
    seen_us=NOW_US,
    started_us=NOW_US,
    ended_us=NOW_US,
    received_us=NOW_US,
    bound_ms=10_000,
    watermark_ms=NOW_US // 1_000 - 10_000,
    base_ms=NOW_US // 1_000,
    effective_bound_ms=10_000,
    gap_us=10_000_000,
    state_rows=0,
    state_bytes=0,
    dropped_reports=0,
)

WELL = Standing(
    stream_id=1,
    job="shop",
    stream="clicks",
    mode="OnRestart",
    paused=False,
    max_bound_ms=None,
    objective="occurrences",
    target_ppm=990_000,
    window_ms=30 * 86_400_000,
    horizon_ms=86_400_000,
    reports=100,
    duplicates=0,
    pairs=100_000,
    late_max=100,
    unjudged_rows=0,
    future_rows=0,
    remaining_ppm=900_000,
    missing_batches=0,
    newest=NEWEST,
    live=None,
    wish=Wish(bound_ms=10_000, wanted_ms=9_000, saturated=False, conflict=False),
    told=Told(generation=1, mode="OnRestart", bound_ms=10_000, published_us=NOW_US, before_ms=None),
    applied_bound_ms=10_000,
    applied_generation=1,
    applied_mode="OnRestart",
    ceiling_ms=None,
    rollout=None,
    predicted=None,
    needs=None,
)

GOOD = Rows(10_000, 10)
WINDOWS_S = sorted(
    {length for alert in ALERTS for burn in alert.burns for length in (burn.long_s, burn.short_s)}
)
CALM = Lately(
    by_window_s=dict.fromkeys(WINDOWS_S, GOOD),
    watermark_then_ms=NOW_US // 1_000 - 900_000,
    judged=1_000,
    future_rows=0,
    uncounted_rows=0,
)


def found(
    stream: Standing = WELL, *partitions: PartitionStanding, lately: Lately = CALM, now_us: int = NOW_US
) -> list[Finding]:
    return list(findings(stream, partitions, lately, now_us))


def names(*given: Any, **more: Any) -> list[str]:
    return [f"{each.alert.name} {each.alert.severity}" for each in found(*given, **more)]


def with_rows(**rows: Rows) -> Lately:
    """Return rows by window, named as in ``h1`` or ``m5``; the others are good."""
    unit = {"m": 60, "h": 3_600, "d": 86_400}
    changed = {int(name[1:]) * unit[name[0]]: counted for name, counted in rows.items()}
    return replace(CALM, by_window_s={**CALM.by_window_s, **changed})


def newest(**changes: Any) -> Standing:
    return replace(WELL, newest=replace(NEWEST, **changes))


def test_nothing_holds_where_all_is_well() -> None:
    assert names() == []
    assert names(replace(WELL, newest=None, wish=None, told=None, objective=None, target_ppm=None)) == []
    assert names(lately=UNKNOWN_LATELY) == []


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ({"h1": Rows(1_000, 145), "m5": Rows(100, 15)}, "page"),
        ({"h1": Rows(1_000, 143), "m5": Rows(100, 15)}, None),
        ({"h1": Rows(1_000, 145), "m5": Rows(100, 14)}, None),
        ({"h6": Rows(1_000, 61), "m30": Rows(100, 7)}, "page"),
        ({"h6": Rows(1_000, 61), "m30": Rows(100, 6)}, None),
        ({"d1": Rows(1_000, 31), "h2": Rows(100, 4)}, "ticket"),
        ({"d3": Rows(1_000, 11), "h6": Rows(1_000, 11)}, "ticket"),
        ({"d3": Rows(1_000, 10), "h6": Rows(1_000, 10)}, None),
    ],
)
def test_the_budget_burns_when_both_windows_of_a_pair_do(rows: dict[str, Rows], expected: str | None) -> None:
    said = names(lately=with_rows(**rows))
    assert said == ([] if expected is None else [f"TidemarkCompletenessBudgetBurn {expected}"])


def test_three_late_rows_of_a_quiet_stream_burn_no_budget() -> None:
    for late in (3, MIN_LATE_ROWS - 1):
        quiet = Rows(late, late)
        assert names(lately=replace(CALM, by_window_s=dict.fromkeys(WINDOWS_S, quiet))) == []
    loud = Rows(MIN_LATE_ROWS, MIN_LATE_ROWS)
    assert len(names(lately=replace(CALM, by_window_s=dict.fromkeys(WINDOWS_S, loud)))) == 2


def test_over_a_short_window_the_target_itself_burns_nothing() -> None:
    day = replace(WELL, window_ms=86_400_000)
    kept = replace(CALM, by_window_s=dict.fromkeys(WINDOWS_S, Rows(1_000, 10)))
    assert names(day, lately=kept) == []
    lost = replace(CALM, by_window_s=dict.fromkeys(WINDOWS_S, Rows(1_000, 11)))
    assert len(names(day, lately=lost)) == 2


def test_windows_that_are_asked_for_one_by_one_burn_no_share_of_rows() -> None:
    bad = replace(CALM, by_window_s=dict.fromkeys(WINDOWS_S, Rows(1_000, 900)))
    assert names(replace(WELL, objective="timeslices"), lately=bad) == []


def test_a_budget_is_spent_below_nothing_and_by_ten_rows() -> None:
    assert names(replace(WELL, remaining_ppm=-1)) == ["TidemarkCompletenessBudgetSpent ticket"]
    assert names(replace(WELL, remaining_ppm=0)) == []
    assert names(replace(WELL, remaining_ppm=-2_000_000, late_max=3)) == []


def test_partitions_are_told_by_name() -> None:
    said = found(
        WELL,
        PartitionStanding("6", "Active", False, 90_000, 0),
        PartitionStanding("7", "Active", True, 18_000, 0),
        PartitionStanding("8", "Idle", False, None, 0),
        PartitionStanding("9", "Behind", False, 400_000, 0),
        PartitionStanding("new", None, False, None, 0),
    )
    assert [(each.alert.name, dict(each.labels)["partition"]) for each in said] == [
        ("TidemarkPartitionSkewed", "7"),
        ("TidemarkPartitionIdle", "8"),
    ]
    assert said[0].description == "Without partition 7 the bound would be 18 s narrower."
    assert said[0].summary == "Partition 7 slows shop/clicks down"


@pytest.mark.parametrize(
    ("gap_s", "silent_s", "holds"),
    [(10, 301, True), (10, 299, False), (60, 599, False), (60, 601, True), (None, 10_000, False)],
)
def test_reports_are_absent_after_ten_gaps_and_five_minutes(
    gap_s: int | None, silent_s: int, holds: bool
) -> None:
    stream = newest(
        gap_us=None if gap_s is None else gap_s * 1_000_000, received_us=NOW_US - silent_s * 1_000_000
    )
    assert (names(stream, lately=replace(CALM, judged=0)) == ["TidemarkReportsAbsent ticket"]) == holds


def test_a_paused_stream_is_not_missed_and_need_not_take_its_bound() -> None:
    stream = replace(newest(received_us=0), applied_generation=None, mode="Restart", paused=True)
    late = replace(stream, told=replace(WELL.told, published_us=0))  # type: ignore[type-var]  # it is told something
    assert names(late) == []
    assert len(names(replace(late, paused=False))) == 2


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
    body = Told(
        generation=2, mode=mode, bound_ms=5_000, published_us=NOW_US - minutes * MINUTE_US, before_ms=None
    )
    stream = replace(WELL, mode=mode, told=body)
    assert (names(stream) == ["TidemarkBoundNotAdopted ticket"]) == holds


def test_a_bound_is_saturated_and_constraints_conflict_where_the_decision_says_so() -> None:
    held = Wish(bound_ms=5_000, wanted_ms=9_000, saturated=True, conflict=True)
    assert names(replace(WELL, wish=held)) == [
        "TidemarkBoundSaturated ticket",
        "TidemarkConstraintsConflict ticket",
    ]


STOOD = NEWEST.watermark_ms


@pytest.mark.parametrize(
    ("why", "stream", "lately", "holds"),
    [
        ("it stood", WELL, replace(CALM, watermark_then_ms=STOOD), True),
        ("it moved", WELL, CALM, False),
        ("there was none", WELL, replace(CALM, watermark_then_ms=None), False),
        ("no rows came", WELL, replace(CALM, watermark_then_ms=STOOD, judged=0), False),
        ("a wider bound", newest(bound_ms=60_000), replace(CALM, watermark_then_ms=STOOD), False),
        (
            "the ceiling of a live job explains nothing",
            replace(newest(bound_ms=60_000), mode="Live"),
            replace(CALM, watermark_then_ms=STOOD),
            True,
        ),
    ],
)
def test_a_watermark_stands_still_when_rows_come_and_no_wider_bound_explains_it(
    why: str, stream: Standing, lately: Lately, holds: bool
) -> None:
    assert ("TidemarkWatermarkStandsStill ticket" in names(stream, lately=lately)) == holds, why


def test_rows_from_the_future_and_rows_without_room_are_told_in_numbers() -> None:
    said = found(lately=replace(CALM, future_rows=3, uncounted_rows=4_000))
    assert [(each.alert.name, each.value) for each in said] == [
        ("TidemarkFutureDatedRows", "3"),
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
        window: Rows(judged, min(late, judged * (1_000_000 - target_ppm) // 1_000_000))
        for window, (judged, late) in zip(WINDOWS_S, rows, strict=True)
    }
    stream = replace(WELL, target_ppm=target_ppm, window_ms=window_ms)
    assert names(stream, lately=replace(CALM, by_window_s=kept)) == []


@given(st.text(min_size=1), st.text(min_size=1), st.text(min_size=1))
def test_names_with_braces_are_told_as_they_are(job: str, stream: str, partition: str) -> None:
    named = replace(WELL, job=job, stream=stream)
    (said,) = found(named, PartitionStanding(partition, "Idle", False, None, 0))
    assert said.summary == f"Partition {partition} of {job}/{stream} is silent"
