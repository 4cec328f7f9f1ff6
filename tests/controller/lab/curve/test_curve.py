"""``tidemark curve``: the textbook's table from a trace file, Spark's batches, and bad input in one line."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tidemark.controller.lab.traces.format import Trace, write_trace
from tidemark.models.base.confidence import certified_rank
from tidemark.models.base.duration import format_about

from support.laboratory import Command
from support.streams import SECOND, textbook_stream

curve = Command("curve")


def document(*arguments: str | Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(curve.said(*arguments, "--json"))
    return found


def table(text: str) -> list[list[str]]:
    """Return the cells of the rows of all printed tables, which begin with a bound."""
    cells = [re.split(r"  +", line.strip()) for line in text.splitlines()[1:]]
    return [row for row in cells if re.fullmatch(r"[0-9.]+ \w+", row[0])]


def save(path: Path, event_s: list[float], arrival_s: list[float]) -> Path:
    event, arrival = (
        np.array([round(value * SECOND) for value in times], np.int64) for times in (event_s, arrival_s)
    )
    write_trace(path, Trace(event, arrival, np.zeros(len(event), np.int32), ("p",)))
    return path


@pytest.fixture(scope="module")
def textbook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("textbook") / "trace.parquet"
    event, arrival = textbook_stream()
    write_trace(path, Trace(event, arrival, np.zeros(len(event), np.int32), ("only",)))
    return path


BOOK = ("--window", "10s", "--bounds", "0,2,5,10,20,40")
TABLE = {
    0: ("73.52 %", 5295, "1.07"),
    2: ("80.95 %", 3809, "3.09"),
    5: ("88.34 %", 2331, "5.98"),
    10: ("94.91 %", 1018, "11.07"),
    20: ("99.74 %", 52, "21.07"),
    40: ("100.00 %", 0, "41.07"),
}
"""By bound in seconds: completeness, late rows (as in ``literal_native``) and mean emit latency in seconds."""


def test_the_table_of_the_textbooks_stream_is_printed_exactly(textbook: Path) -> None:
    """Bound, completeness, late rows, mean emit latency: figure for figure."""
    rows = table(curve.said(textbook, *BOOK))
    assert [tuple(row[:4]) for row in rows] == [
        (f"{bound} s", completeness, str(late), format_about(float(latency) * SECOND))
        for bound, (completeness, late, latency) in TABLE.items()
    ]


def test_a_cap_of_12_s_chooses_10_s_and_says_why_5_and_20_fail(textbook: Path) -> None:
    """The choice under the table."""
    text = curve.said(textbook, *BOOK, "--target", "0.9", "--latency-cap", "12s")
    assert "chosen (base latency): 10 s is the smallest bound that admits 94.91 % of the rows" in text
    assert "not 5 s: bound 5 s admits 88.34 % of the rows, the target is 90 %" in text
    assert "not 20 s: bound 20 s has a mean latency of 21.067 s, the cap is 12 s" in text


def test_a_bound_is_chosen_only_on_evidence(tmp_path: Path) -> None:
    """Two rows admit anything, and say next to nothing of those to come."""
    two = save(tmp_path / "two.parquet", [0, 30], [1, 31])
    assert "not enough evidence: 2 rows; 417 rows are needed to certify 99 %" in curve.said(two)
    assert "chosen" not in curve.said(two)
    assert "chosen (base latency): 0 s" in curve.said(two, "--confidence", "none")
    assert curve.refused(two, "--confidence", "1") == (
        "tidemark: --confidence '1' must lie between 0 and 1, both excluded"
    )


def test_where_no_bound_fits_both_constraints_are_named(textbook: Path) -> None:
    """And it is no error: it is what was asked."""
    text = curve.said(textbook, *BOOK, "--target", "0.95", "--latency-cap", "12")
    assert "no bound fits: bound 10 s admits 94.91 %" in text
    assert "bound 20 s has a mean latency of 21.067 s" in text
    assert "chosen" not in text


def test_json_has_the_same_figures_as_integers(textbook: Path) -> None:
    """For programs: units in the names, no floats."""
    found = document(textbook, *BOOK, "--target", "0.9", "--latency-cap", "12s")
    assert [(point["bound_us"], point["late"]) for point in found["points"]] == [
        (bound * SECOND, late) for bound, (_, late, _) in TABLE.items()
    ]
    assert found["points"][3]["latency_base_us"] == 11_066_132
    assert found["chosen_bound_us"] == 10 * SECOND
    assert {(one["bound_us"] // SECOND, one["constraint"]) for one in found["rejections"]} == {
        (0, "completeness"),
        (2, "completeness"),
        (5, "completeness"),
        (20, "latency"),
        (40, "latency"),
    }
    assert [point["completeness_ppm"] for point in found["points"]] == [
        (point["rows"] - point["late"]) * 1_000_000 // point["rows"] for point in found["points"]
    ]
    assert not any(isinstance(value, float) for point in found["points"] for value in point.values())


def test_grace_shows_what_a_window_holds_when_it_is_corrected_for_longer(textbook: Path) -> None:
    """A bound with a grace admits what the bound of their sum admits."""
    asked = (*BOOK[:-1], "5", "--grace", "0,5s,15s,30s")
    (point,) = document(textbook, *asked)["points"]
    assert [one["grace_us"] // SECOND for one in point["corrected"]] == [0, 5, 15, 30]
    assert [one["late"] for one in point["corrected"]] == [2_331, 1_018, 52, 0]
    assert table(curve.said(textbook, *asked))[-1] == [
        "5 s",
        "88.34 % (2331)",
        "94.91 % (1018)",
        "99.74 % (52)",
        "100.00 % (0)",
    ]


def test_the_default_bounds_hold_the_smallest_that_meets_the_target(textbook: Path) -> None:
    """A millisecond less does not certify it, so no finer list could do better."""
    found = document(textbook, "--target", "0.97")
    least = found["chosen_bound_us"]
    assert found["points"][0]["bound_us"] == 0
    assert found["points"][-1]["late"] == 0
    (less,) = document(textbook, "--bounds", f"{least - 1_000}us")["points"]
    (enough,) = document(textbook, "--bounds", f"{least}us")["points"]
    rank = certified_rank(enough["rows"], 0.97)
    assert rank is not None
    assert enough["late"] <= enough["rows"] - rank < less["late"]


def test_spark_judges_by_batches_two_back(tmp_path: Path) -> None:
    """Trigger 1 s, windows of 10 s, bound 0. Event times by slot: 5 | 12 | 8, 3 | 25 | - | 9.

    W after the batches: slot 1 runs with the base 5, slot 2 with 12; so the rows 8 and 3 of slot 2 meet W(1) = 5 and
    are admitted, though row 12 came before them. Slot 3 brings 25, slot 4 is a no-data batch, and row 9
    in slot 5 meets W = 25: late. Window [0, 10) is emitted by slot 2 (base 12, wall 3 s after the first arrival),
    [10, 20) by slot 4 (base 25), [20, 30) never.
    """
    path = save(tmp_path / "t", [5, 12, 8, 3, 25, 9], [100, 101, 102, 102.5, 103, 105])
    (spark,) = document(path, "--bounds", "0")["points"]
    assert (spark["rows"], spark["late"], spark["windows_emitted"]) == (6, 1, 2)
    assert spark["latency_base_us"] == (2 + 5) / 2 * SECOND
    assert (spark["latency_wall_us"], spark["latency_at_least_us"]) == (
        None,
        round((93 + 85 + 76) / 3 * SECOND),
    )


def test_the_operators_differ_as_they_are_defined(tmp_path: Path) -> None:
    """Bound 0, times 12, 13, 11, 3, each judged by the rows two batches back."""
    path = save(tmp_path / "t", [12, 13, 11, 3], [20, 21, 22, 23])

    def late(*arguments: str) -> tuple[int, int]:
        (point,) = document(path, "--bounds", "0", *arguments)["points"]
        return point["late"], point["rows"]

    assert late() == (1, 4)
    assert late("--window", "0") == (2, 4)
    assert late("--session-gap", "2s") == (1, 4)
    assert late("--window", "10", "--slide", "5") == (2, 8)


def test_operators_without_windows_show_no_latency(tmp_path: Path) -> None:
    """A dash, not 0.00."""
    path = save(tmp_path / "t", [10, 12], [20, 21])
    assert table(curve.said(path, "--window", "0", "--bounds", "0"))[0][3:5] == ["-", "-"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--window", "soon"), "--window: duration 'soon'"),
        (("--window", "-5s"), "must be above 0"),
        (("--window", "5s", "--slide", "6s"), "slide 6 s must be above 0 and at most the window's size 5 s"),
        (("--window", "0", "--slide", "6s"), "--slide needs a --window above 0"),
        (("--window", "5s", "--session-gap", "6s"), "--session-gap goes without --window"),
        (("--trigger", "0"), "the trigger must be above 0"),
        (("--bounds", "0,,5"), "--bounds: duration ''"),
        (("--bounds", "-1s"), "--bounds: -1 s: a bound is at least 0"),
        (("--bounds", "500us"), "for Spark, of whole milliseconds"),
        (("--target", "99"), "target '99' must lie between 0 and 1"),
        (("--target", "0.9990000000000001"), "finer than one part per million"),
        (("--latency-cap", "1 month"), "--latency-cap: "),
    ],
)
def test_options_that_are_not_valid_are_rejected_in_one_line(
    textbook: Path, arguments: tuple[str, ...], message: str
) -> None:
    """Exit code 2, nothing on the standard output."""
    assert message in curve.refused(textbook, *arguments)


# -- rows that are no evidence -----------------------------------------------------------------------------------

NOON_S = 1_714_564_800


def seconds_among(path: Path, share_of: int, factor: int = 1_000) -> Path:
    """Write rows that are 1 s late, one of each ``share_of`` in a unit that makes it ``factor`` times too small."""
    event = [NOON_S + at / 10 for at in range(2_000)]
    wrong = [time / factor if at % share_of == share_of - 1 else time for at, time in enumerate(event)]
    return save(path, wrong, [time + 1 for time in event])


@pytest.mark.parametrize(
    ("factor", "dated"),
    [
        (1_000, "1970-01-20: seconds read as milliseconds?"),
        (1_000_000, "1970-01-01: seconds read as microseconds?"),
        (10**12, "1970-01-01: is the time missing, or 0?"),
        (2, "1997-03-02, longer ago than any delay (366 d)."),
    ],
)
def test_rows_that_no_delay_explains_choose_no_bound(tmp_path: Path, factor: int, dated: str) -> None:
    """Of one producer that wrote seconds a bound of 86,775 days was made."""
    path = seconds_among(tmp_path / "a.parquet", 20, factor)
    text = curve.said(path)
    assert text.startswith(
        f"left out: 100 rows of partition 'p', 5.00 % of all, are dated {dated} No bound is meant for them\n"
    )
    result = curve.run(path, "--json")
    found = json.loads(result.stdout)
    assert found["chosen_bound_us"] < 60 * SECOND
    assert {point["rows"] for point in found["points"]} == {1_900}
    assert result.stderr.startswith("left out: 100 rows")


def test_a_trace_of_such_rows_alone_is_rejected_with_the_reason(tmp_path: Path) -> None:
    path = seconds_among(tmp_path / "a.parquet", 1)
    assert curve.refused(path) == (
        f"tidemark: {path}: all 2,000 rows are dated 1970-01-20: seconds read as milliseconds? "
        "Make the trace again with the right --unit"
    )


def test_rows_of_the_far_future_choose_no_bound_either(tmp_path: Path) -> None:
    """All rows behind one of them would need 36,000 years; what Spark does with them is said."""
    event = [NOON_S + at / 10 for at in range(2_000)]
    arrival = [time + 1 for time in event]
    event[1_000] = 2**60 / SECOND
    path = save(tmp_path / "a.parquet", event, arrival)
    assert "1 row of partition 'p', 0.05 % of all, is dated in the year 38,504" in curve.said(path)
    assert document(path)["chosen_bound_us"] < 60 * SECOND


@pytest.mark.parametrize("days", [1, 21, 300])
def test_rows_that_are_weeks_late_are_evidence(tmp_path: Path, days: int) -> None:
    event = [NOON_S + at / 10 - (86_400 * days if at % 20 == 0 else 0) for at in range(2_000)]
    path = save(tmp_path / "a.parquet", event, [NOON_S + at / 10 + 1 for at in range(2_000)])
    assert document(path)["chosen_bound_us"] > (days - 1) * 86_400 * SECOND


@pytest.mark.parametrize("rows", [1, 500])
@pytest.mark.parametrize("options", [(), ("--window", "0"), ("--confidence", "none")])
def test_a_trace_of_one_instant_chooses_no_bound_and_says_why(
    tmp_path: Path, rows: int, options: tuple[str, ...]
) -> None:
    """It was 0 s, certified, though none of its rows had met a watermark."""
    path = save(tmp_path / "a.parquet", [NOON_S] * rows, [NOON_S + 1] * rows)
    found = document(path, *options)
    assert found["chosen_bound_us"] is None
    assert found["reason"].startswith(
        "no bound is chosen: every row came before a watermark could have moved"
    )


def test_a_file_that_is_not_a_trace_is_rejected_in_one_line(tmp_path: Path) -> None:
    """With the reason that the format gives."""
    assert "there is no such file" in curve.refused(tmp_path / "none.parquet")
    (tmp_path / "text").write_text("no")
    assert "not a Parquet file" in curve.refused(tmp_path / "text")
    assert "the trace has no rows" in curve.refused(save(tmp_path / "empty", [], []))
