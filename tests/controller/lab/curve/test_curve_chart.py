"""The chart of a curve: how long its bars are, read back from the characters."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.lab.curve.chart import Marks, chart

SECOND = 1_000_000
NOTHING = Marks(None, None, "")


def bars(lines: list[str]) -> list[int]:
    """Return the lengths of the bars, from the narrowest bound to the widest."""
    return [line.count("█") for line in lines[:-1]]


curves = st.lists(st.integers(0, 10_000), min_size=2, max_size=40).map(
    lambda late: [(number * SECOND, lost) for number, lost in enumerate(sorted(late, reverse=True))]
)


@given(curves)
def test_a_wider_bound_never_has_a_longer_bar(points: list[tuple[int, int]]) -> None:
    lines = chart(points, 10_000, NOTHING)
    assert len(lines) == 17
    assert all(before >= after for before, after in itertools.pairwise(bars(lines)))


def test_a_loss_of_nothing_has_no_bar_and_is_said_to_be_none() -> None:
    *_, last, _ = lines = chart([(0, 1_000), (SECOND, 10), (2 * SECOND, 0)], 10_000, NOTHING)
    assert last.split()[-1] == "none"
    assert bars(lines)[-1] == 0


def test_the_least_loss_has_a_bar_and_its_share() -> None:
    *_, last, _ = lines = chart([(0, 1_000), (SECOND, 10)], 10_000, NOTHING)
    assert last.endswith("0.1 %")
    assert bars(lines)[-1] > 0


def test_the_target_and_the_bound_are_marked_and_named() -> None:
    """The bar of a loss that the target just allows ends where the target is."""
    points = [(number * SECOND, 1_600 >> number) for number in range(11)]
    lines = chart(points, 10_000, Marks(990_000, 4 * SECOND, "chosen"))
    assert lines[-1] == "late rows by bound; ┊ what the target of 99 % allows; the bound chosen, 4 s"
    (chosen,) = (line for line in lines if line.endswith("<- chosen"))
    assert chosen.split()[:2] == ["4", "s"]
    assert "█┊ " in chosen
    assert len({line.index("┊") for line in lines[:-1]}) == 1


@pytest.mark.parametrize("widest", [60, 86_400])
def test_one_late_row_does_not_leave_the_others_without_bars(widest: int) -> None:
    """With a bound of a day beside one of two seconds the bounds are in equal ratios."""
    points = [(0, 900), (SECOND, 500), (2 * SECOND, 90), (3 * SECOND, 1), (widest * SECOND, 0)]
    lines = chart(points, 10_000, Marks(990_000, 2 * SECOND, "chosen"))
    assert lines[-2].split()[:2] == (["60", "s"] if widest == 60 else ["1", "d"])
    assert sum(length > 0 for length in bars(lines)) > (1 if widest == 60 else 2)


@pytest.mark.parametrize(("points", "rows"), [([], 5), ([(0, 0)], 5), ([(0, 0), (1, 0)], 0)])
def test_where_there_is_nothing_to_draw_it_says_what_it_takes(
    points: list[tuple[int, int]], rows: int
) -> None:
    (line,) = chart(points, rows, NOTHING)
    assert line.startswith("a chart needs at least two bounds and a row")


def test_a_stream_without_any_late_row_is_drawn_too() -> None:
    assert set(bars(chart([(0, 0), (SECOND, 0)], 5, Marks(990_000, 0, "chosen")))) == {0}
