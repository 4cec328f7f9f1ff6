"""The chart of a curve: where its dots are, read back from the characters."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.cli.curve_chart import Marks, chart

SECOND = 1_000_000
NOTHING = Marks(None, None, "")


def plotted(lines: list[str]) -> list[str]:
    """Return the lines of the plot without what stands left of them, all of one width."""
    found = [line.partition("┤")[2] for line in lines if "┤" in line]
    width = max(map(len, found))
    return [line.ljust(width) for line in found]


def lowest_dots(lines: list[str]) -> list[int]:
    """Return the lowest line with a dot in each column."""
    columns = zip(*plotted(lines), strict=True)
    return [
        max(line for line, cell in enumerate(column) if 0x2800 < ord(cell) <= 0x28FF)
        for column in columns
        if any(0x2800 < ord(cell) <= 0x28FF for cell in column)
    ]


curves = st.lists(st.integers(0, 10_000), min_size=2, max_size=40).map(
    lambda late: [(number * SECOND, lost) for number, lost in enumerate(sorted(late, reverse=True))]
)


@given(curves)
def test_a_curve_never_rises_and_fills_every_column(points: list[tuple[int, int]]) -> None:
    dots = lowest_dots(chart(points, 10_000, NOTHING))
    assert len(dots) == 72
    assert all(before <= after for before, after in itertools.pairwise(dots))


def test_a_loss_of_nothing_is_at_the_bottom_and_said_to_be_none() -> None:
    lines = chart([(0, 1_000), (SECOND, 10), (2 * SECOND, 0)], 10_000, NOTHING)
    last = lines.index(next(line for line in lines if line.lstrip().startswith("none")))
    assert last == len(plotted(lines)) - 1
    assert lowest_dots(lines)[-1] == last


def test_a_loss_that_never_ends_is_not_said_to_be_none() -> None:
    assert not any("none" in line for line in chart([(0, 1_000), (SECOND, 10)], 10_000, NOTHING))


def test_the_target_and_the_bound_are_marked_and_named() -> None:
    """The curve crosses the line of the target where the bound is."""
    points = [(number * SECOND, 2_000 >> number) for number in range(11)]
    lines = chart(points, 10_000, Marks(990_000, 5 * SECOND, "chosen"))
    assert lines[-1] == "late rows by bound; ┄ what the target of 99 % allows; ┊ the bound chosen, 5 s"
    line = next(number for number, text in enumerate(lines) if text.lstrip().startswith("1 %"))
    assert "┄" in plotted(lines)[line]
    (column,) = {at for text in plotted(lines) for at, cell in enumerate(text) if cell == "┊"}
    assert column == 72 // 2
    dots = lowest_dots(lines)
    assert dots[column - 8] <= line <= dots[column]


@pytest.mark.parametrize("widest", [60, 86_400])
def test_the_axis_names_its_ends_and_one_late_row_does_not_flatten_the_rest(widest: int) -> None:
    """With a bound of a day beside one of two seconds the axis is logarithmic."""
    points = [(0, 900), (SECOND, 500), (2 * SECOND, 90), (3 * SECOND, 1), (widest * SECOND, 0)]
    lines = chart(points, 10_000, Marks(990_000, 2 * SECOND, "chosen"))
    axis = lines[-2].split()
    assert axis[-2:] == (["60", "s"] if widest == 60 else ["1", "d"])
    (column,) = {at for text in plotted(lines) for at, cell in enumerate(text) if cell == "┊"}
    assert column > 0


@pytest.mark.parametrize(("points", "rows"), [([], 5), ([(0, 0)], 5), ([(0, 0), (1, 0)], 0)])
def test_where_there_is_nothing_to_draw_it_says_what_it_takes(
    points: list[tuple[int, int]], rows: int
) -> None:
    (line,) = chart(points, rows, NOTHING)
    assert line.startswith("a chart needs at least two bounds and a row")


def test_a_stream_without_any_late_row_is_drawn_too() -> None:
    assert lowest_dots(chart([(0, 0), (SECOND, 0)], 5, Marks(990_000, 0, "chosen")))
