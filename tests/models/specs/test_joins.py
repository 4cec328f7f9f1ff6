"""What is said about joins, given what Spark makes of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.specs.findings import (
    Finding,
    FindingCode,
    JoinedQuery,
    JoinInput,
    JoinType,
    Severity,
    StreamJoin,
    judge_joins,
)

from support.join_state import predicted_state_rows

LEFT = JoinInput("lts", 10_000, 6_001, "lts")
RIGHT = JoinInput("rts", 5_000, 4_001, "rts")
NO_WATERMARK = JoinInput(None, None, None)
RANGES = ("rts >= lts - INTERVAL '04' SECOND", "rts <= lts + INTERVAL '06' SECOND")
BOTH = StreamJoin("inner", LEFT, RIGHT, ("lk = rk",), RANGES)


def endless(side: JoinInput) -> JoinInput:
    return replace(side, retention_ms=None, evicted_by=None)


def judged(join: StreamJoin, *, watermarks: int = 1, refused: str | None = None) -> list[Finding]:
    return judge_joins(JoinedQuery((join,), watermarks, "min", refused))


def kinds(findings: list[Finding]) -> list[tuple[Severity, FindingCode, str | None]]:
    return [(finding.severity, finding.code, finding.side) for finding in findings]


@pytest.mark.parametrize("kind", ["inner", "left_outer", "right_outer", "full_outer", "left_semi"])
def test_nothing_is_said_about_a_join_whose_two_sides_are_evicted_under_one_watermark(kind: JoinType) -> None:
    assert judged(replace(BOTH, type=kind)) == []


@pytest.mark.parametrize(
    ("kind", "outer"),
    [
        ("inner", ()),
        ("left_semi", ()),
        ("left_outer", ("left",)),
        ("right_outer", ("right",)),
        ("full_outer", ("left", "right")),
    ],
)
def test_a_side_that_is_never_evicted_is_an_error_where_its_rows_without_a_partner_should_come_out(
    kind: JoinType, outer: tuple[str, ...]
) -> None:
    join = StreamJoin(kind, endless(LEFT), endless(RIGHT), ("lk = rk",))
    found = {finding.side: finding for finding in judged(join)}

    assert set(found) == {"left", "right"}
    for side, finding in found.items():
        error = side in outer
        assert (finding.severity, finding.code) == (
            ("error", "outer_rows_never_come") if error else ("warning", "never_evicted")
        )


@pytest.mark.parametrize(
    ("left", "right", "ranges", "instead"),
    [
        (endless(LEFT), RIGHT, RANGES[:1], "add to the join's condition rts <= lts + interval <N> seconds"),
        (
            NO_WATERMARK,
            endless(RIGHT),
            RANGES[1:],
            'call withWatermark("<event time>", "<delay>") on the left input',
        ),
        (
            endless(LEFT),
            NO_WATERMARK,
            (),
            (
                'call withWatermark("<event time>", "<delay>") on the right input; '
                "see that the join's condition has <right event time> <= lts + interval <N> seconds"
            ),
        ),
        (
            JoinInput("ts", 1, None),
            JoinInput("ts", 1, None),
            (),
            "add to the join's condition right.ts <= left.ts + interval <N> seconds",
        ),
        (
            JoinInput("w1", 1, None, is_window=True),
            JoinInput("w2", 1, None, is_window=True),
            (),
            "add to the join's condition w1 = w2",
        ),
    ],
    ids=["no upper end", "no own watermark", "no watermark of the other", "one name", "windows"],
)
def test_what_is_to_be_written_for_the_left_side_names_what_is_missing_alone(
    left: JoinInput, right: JoinInput, ranges: tuple[str, ...], instead: str
) -> None:
    first = next(
        f for f in judged(StreamJoin("left_outer", left, right, ("lk = rk",), ranges)) if f.side == "left"
    )

    assert first.code == "outer_rows_never_come"
    assert first.instead == instead


def test_a_refused_query_says_sparks_words_and_the_cure_and_nothing_that_follows_from_running() -> None:
    join = StreamJoin("left_outer", endless(LEFT), RIGHT, ("lk = rk",), RANGES[:1])
    (finding,) = judged(join, watermarks=2, refused="not without a watermark")

    assert (finding.severity, finding.code) == ("error", "refused")
    assert finding.text.endswith("not without a watermark")
    assert finding.instead == "add to the join's condition rts <= lts + interval <N> seconds"


def test_a_refusal_for_another_reason_is_not_given_the_cure_of_a_watermark() -> None:
    (finding,) = judged(
        StreamJoin("left_outer", endless(LEFT), RIGHT, ()), refused="not in complete output mode"
    )

    assert finding.instead == "change what the message names"


def test_a_join_without_an_equality_is_an_error_with_nothing_else() -> None:
    join = StreamJoin("inner", endless(LEFT), endless(RIGHT), (), refused="no equality")

    assert kinds(judged(join, watermarks=2)) == [("error", "refused_by_first_batch", None)]


def test_a_range_that_spark_cannot_read_is_named_where_a_side_is_never_evicted_and_only_there() -> None:
    text = "unix_timestamp(rts) <= unix_timestamp(lts) + 6"
    evicted = replace(BOTH, unreadable=(text,))
    kept = replace(evicted, left=endless(LEFT), ranges=RANGES[:1])

    assert judged(evicted) == []
    assert kinds(judged(kept)) == [
        ("warning", "unreadable_range", None),
        ("warning", "never_evicted", "left"),
    ]
    assert text in judged(kept)[0].text


def test_a_watermark_that_is_lost_before_the_join_is_named() -> None:
    join = replace(BOTH, left=replace(NO_WATERMARK, lost_watermarks=("lts",)))

    assert kinds(judged(join))[0] == ("warning", "watermark_lost", "left")


def test_with_two_watermarks_min_is_noted_and_max_is_warned_of() -> None:
    assert [f.code for f in judge_joins(JoinedQuery((BOTH,), 2, "min"))] == ["silent_side"]
    assert [f.code for f in judge_joins(JoinedQuery((BOTH,), 2, "max"))] == ["policy_max"]
    assert judge_joins(JoinedQuery((BOTH,), 1, "max")) == []


@pytest.mark.parametrize(
    ("side", "kept"),
    [
        (LEFT, "until the watermark reaches lts + 6.001 s"),
        (replace(LEFT, retention_ms=-3_599_999), "until the watermark reaches lts - 59 min 59.999 s"),
        (replace(LEFT, retention_ms=0), "until the watermark reaches lts"),
        (NO_WATERMARK, "for ever"),
    ],
)
def test_how_long_a_row_is_kept_reads_as_a_sentence(side: JoinInput, kept: str) -> None:
    assert side.retention_text == kept


TIMES = st.lists(st.integers(0, 20_000_000), max_size=30)


@given(TIMES, TIMES, st.integers(0, 20_000), st.integers(-5_000, 9_000) | st.none(), st.integers(0, 9_000))
def test_the_predicted_state_never_grows_as_the_watermark_moves_and_never_evicted_rows_stay(
    left: list[int], right: list[int], watermark_ms: int, retention_ms: int | None, step_ms: int
) -> None:
    sides = [(left, retention_ms), (right, None)]
    now = predicted_state_rows(sides, watermark_ms)

    assert len(right) <= predicted_state_rows(sides, watermark_ms + step_ms) <= now <= len(left) + len(right)


def test_a_row_leaves_the_state_when_the_watermark_is_a_retention_behind_its_time_and_not_a_microsecond_before() -> (
    None
):
    assert predicted_state_rows([([1_000_000], 500)], 1_499) == 1
    assert predicted_state_rows([([1_000_000], 500)], 1_500) == 0
    assert predicted_state_rows([([1_000_001], 500)], 1_500) == 1
