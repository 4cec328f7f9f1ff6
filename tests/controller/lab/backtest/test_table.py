"""Figures as people read them: a target that is missed never reads as met."""

from __future__ import annotations

import pytest

from tidemark.controller.lab.backtest.table import floor_percent, ratio


@pytest.mark.parametrize(
    ("part", "whole", "target_ppm", "text"),
    [
        (9_899_999, 10_000_000, 990_000, "98.99"),
        (99, 100, 990_000, "99.00"),
        (9_999_999, 10_000_000, 990_000, "99.99"),
        (10_000_000, 10_000_000, 990_000, "100.00"),
        (999_949, 1_000_000, 999_950, "99.994"),
        (999_950, 1_000_000, 999_950, "99.995"),
        (0, 7, 990_000, "0.00"),
        (1, 3, 500_000, "33.33"),
        (0, 0, 990_000, "-"),
    ],
)
def test_a_percentage_is_cut_off_and_never_rounded_up(
    part: int, whole: int, target_ppm: int, text: str
) -> None:
    """With as many digits as the target has, at least two."""
    assert floor_percent(part, whole, target_ppm) == text


@pytest.mark.parametrize(
    ("latency", "yardstick", "text"),
    [
        (3.0, 2.0, "1.50"),
        (0.0, 2.0, "0.00"),
        (3.0, 0.0, "-"),
        (0.0, 0.0, "1.00"),
        (None, 2.0, "-"),
        (3.0, None, "-"),
    ],
)
def test_a_ratio_to_nothing_is_a_dash_unless_both_are_nothing(
    latency: float | None, yardstick: float | None, text: str
) -> None:
    """As the yardstick's latency can be 0."""
    assert ratio(latency, yardstick) == text
