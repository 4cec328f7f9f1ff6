"""The choice of a bound: the lowest that fits, and why the others do not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import tumbling
from tidemark.models.evidence.curve import Curve, CurvePoint, MeanLatency
from tidemark.models.recommend.choice import choose_bound, needed_rank, percent

from support.streams import SECOND, TEXTBOOK_TABLE, row_replay, textbook_stream


def point(bound_s: int, rows: int, late: int, latency_s: float | None = None) -> CurvePoint:
    latency_us = None if latency_s is None else latency_s * SECOND
    wall = None if latency_us is None else MeanLatency(latency_us, censored=False)
    return CurvePoint(bound_s * SECOND, rows, late, latency_us, wall, 1)


@pytest.fixture(scope="module")
def textbook() -> list[CurvePoint]:
    """The points of the textbook's table, widest first: the order must not matter."""
    event, arrival = textbook_stream()
    curve = Curve.of_replay(row_replay(event, arrival, tumbling("10s")), tumbling("10s"))
    return [curve.at(bound * SECOND) for bound in reversed(TEXTBOOK_TABLE)]


def test_a_cap_of_12_s_at_90_percent_chooses_10_s_and_says_why_5_and_20_fail(
    textbook: list[CurvePoint],
) -> None:
    """On the textbook's curve: 5 s loses too much, 20 s waits too long."""
    choice = choose_bound(textbook, 900_000, 12 * SECOND)
    assert choice.point is not None
    assert choice.point.bound_us == 10 * SECOND
    assert choice.failing == ()
    assert (
        choice.reason == "10 s is the smallest bound that admits 93.47 % of the rows at a latency of 10.871 s"
    )
    why = {
        rejection.bound_us // SECOND: (rejection.constraint, rejection.detail)
        for rejection in choice.rejections
    }
    assert set(why) == {0, 2, 5, 20, 40}
    assert why[5] == ("completeness", "bound 5 s admits 85.00 % of the rows, the target is 90 %")
    assert why[20] == ("latency", "bound 20 s has a mean latency of 20.871 s, the cap is 12 s")


def test_where_no_bound_fits_both_constraints_are_named(textbook: list[CurvePoint]) -> None:
    """95 % needs 20 s and 12 s allows 10 s: the widest that loses too much and the narrowest that waits too long."""
    choice = choose_bound(textbook, 950_000, 12 * SECOND)
    assert choice.point is None
    assert choice.failing == ("completeness", "latency")
    assert choice.reason == (
        "no bound fits: bound 10 s admits 93.47 % of the rows, the target is 95 %; "
        "bound 20 s has a mean latency of 20.871 s, the cap is 12 s"
    )


def test_where_one_constraint_fails_everywhere_only_it_is_named(textbook: list[CurvePoint]) -> None:
    """Without a cap, too narrow candidates fail on completeness alone."""
    choice = choose_bound(textbook[-3:], 900_000)
    assert choice.failing == ("completeness",)
    assert choice.reason == "no bound fits: bound 5 s admits 85.00 % of the rows, the target is 90 %"


def test_a_bound_that_fits_but_is_wider_than_needed_is_no_rejection(textbook: list[CurvePoint]) -> None:
    """It fails nothing."""
    choice = choose_bound(textbook, 900_000)
    assert choice.point is not None
    assert choice.point.bound_us == 10 * SECOND
    assert {rejection.bound_us // SECOND for rejection in choice.rejections} == {0, 2, 5}
    assert choice.reason == "10 s is the smallest bound that admits 93.47 % of the rows"


def test_the_target_is_met_to_the_row() -> None:
    """99 of 100 is 99 %; a float product would ask for 100 of them at some sizes."""
    assert needed_rank(100, 990_000, None) == 99
    assert needed_rank(101, 990_000, None) == 100
    assert needed_rank(1_000, 999_000, None) == 999
    assert choose_bound([point(1, 100, 1)], 990_000).point is not None
    assert choose_bound([point(1, 100, 2)], 990_000).point is None


@given(st.integers(1, 10**12), st.integers(1, 999_999))
def test_the_needed_rank_is_the_least_that_meets_the_target(rows: int, target_ppm: int) -> None:
    """In integers: one row fewer would miss it."""
    rank = needed_rank(rows, target_ppm, None)
    assert rank is not None
    assert rank * 1_000_000 >= target_ppm * rows > (rank - 1) * 1_000_000


def test_under_confidence_the_target_must_be_certified() -> None:
    """Of 1,000 rows 998 must be kept for 99 %, where 990 do without confidence."""
    points = [point(1, 1_000, 10), point(2, 1_000, 3), point(3, 1_000, 2)]
    without, with_it = choose_bound(points, 990_000), choose_bound(points, 990_000, confidence=0.95)
    assert without.point == points[0]
    assert with_it.point == points[2]


def test_too_few_rows_are_not_enough_evidence_under_confidence() -> None:
    """416 rows certify no 99 %, however many were kept; and the message says how many would."""
    choice = choose_bound([point(1, 416, 0), point(9, 416, 0)], 990_000, confidence=0.95)
    assert choice.point is None
    assert choice.failing == ("evidence",)
    assert choice.reason == (
        "not enough evidence: 416 rows; 417 rows are needed to certify 99 % at 95 % confidence at every look"
    )
    assert choose_bound([point(1, 417, 0)], 990_000, confidence=0.95).point is not None


def test_rows_that_share_their_fate_are_fewer_events_and_the_message_says_how_many() -> None:
    choice = choose_bound([point(1, 4_211, 0)], 990_000, confidence=0.95, rows_per_event=20)
    assert choice.reason == (
        "not enough evidence: 4,211 rows (as 210 independent events); 8,340 rows (as 417 independent events) "
        "are needed to certify 99 % at 95 % confidence at every look"
    )
    assert choose_bound([point(1, 8_340, 0)], 990_000, confidence=0.95, rows_per_event=20).point is not None


def test_no_rows_are_no_evidence_with_or_without_confidence() -> None:
    """An idle stream meets no target."""
    for confidence in (None, 0.95):
        choice = choose_bound([point(1, 0, 0)], 990_000, confidence=confidence)
        assert choice.failing == ("evidence",)


def test_the_cap_is_on_the_latency_that_was_asked_for() -> None:
    """Base and wall latency differ by the rows' delay."""
    both = CurvePoint(SECOND, 10, 0, 2.0 * SECOND, MeanLatency(5.0 * SECOND, censored=False), 1)
    assert choose_bound([both], 900_000, 3 * SECOND).point == both
    assert choose_bound([both], 900_000, 3 * SECOND, latency="wall").failing == ("latency",)


def test_a_latency_at_the_cap_is_within_it() -> None:
    """A cap is the highest that is allowed."""
    assert choose_bound([point(1, 10, 0, 3)], 900_000, 3 * SECOND).point is not None
    assert choose_bound([point(1, 10, 0, 3)], 900_000, 3 * SECOND - 1).failing == ("latency",)


def test_an_unknown_latency_breaks_no_cap_and_is_not_called_0() -> None:
    """Row-level operators have no windows to wait for."""
    choice = choose_bound([point(1, 10, 0)], 900_000, 3 * SECOND)
    assert choice.reason == "1 s is the smallest bound that admits 100.00 % of the rows"


def test_without_candidates_that_is_said() -> None:
    """And no constraint is blamed."""
    choice = choose_bound([], 900_000)
    assert (choice.point, choice.failing, choice.reason) == (None, (), "there is no candidate bound")


@pytest.mark.parametrize(
    ("rows", "late", "text"),
    [
        (10, 0, "100.00 %"),
        (10, 10, "0.00 %"),
        (1_000_000, 1, "99.99 %"),
        (100_000, 5, "99.99 %"),
        (20_000, 105, "99.48 %"),
        (0, 0, "unknown"),
    ],
)
def test_100_percent_is_shown_only_when_nothing_was_late(rows: int, late: int, text: str) -> None:
    """Rounding must not turn a lost row into a perfect score."""
    assert percent(point(1, rows, late)) == text
