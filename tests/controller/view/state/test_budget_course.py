"""How the course of a budget grows with the snapshots."""

from __future__ import annotations

from tidemark.controller.view.state.budget import PARTS, BudgetCourse, next_course

DAY_MS = 86_400_000
HOUR_US = 3_600_000_000
"""A part of a window of a day."""


def course(*found: tuple[int, int | None]) -> BudgetCourse:
    """Return the course after snapshots, each given as (hour, what was left)."""
    result = None
    for hour, left_ppm in found:
        result = next_course(result, 1, DAY_MS, hour * HOUR_US, left_ppm)
    assert result is not None
    return result


def test_the_newest_snapshot_of_a_part_counts_and_a_part_without_one_is_unknown() -> None:
    assert course((0, 9), (0, 8), (1, 7), (3, 6)).left_ppm == (8, 7, None, 6)


def test_it_never_has_more_parts_than_the_window() -> None:
    assert course(*((hour, hour) for hour in range(30))).left_ppm == tuple(range(6, 30))
    late = course((0, 5), (10_000, 4))
    assert late.left_ppm == (None,) * (PARTS - 1) + (4,)


def test_another_slo_or_a_clock_set_back_begins_anew() -> None:
    before = course((5, 9), (6, 8))
    assert next_course(before, 2, DAY_MS, 6 * HOUR_US, 3).left_ppm == (3,)
    assert next_course(before, 1, DAY_MS, 2 * HOUR_US, 3).left_ppm == (3,)


def test_it_is_stored_and_read_again() -> None:
    before = course((0, None), (2, -5))
    assert BudgetCourse.from_json(before.to_json()) == before
