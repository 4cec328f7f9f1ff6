"""Freezes, contradictory policies, and the direction of a change."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from tidemark.models.protocol.messages import Envelope
from tidemark.models.rollout.gate import DAY_US, frozen_until_us
from tidemark.models.rollout.machine import direction_of, envelope_direction
from tidemark.models.specs.slo import Day, Direction, FreezeWindow, Policy

from support.rollouts import HOUR_US, NOW_US


def test_a_freeze_is_in_utc_and_lasts_over_adjacent_windows() -> None:
    """2026-01-01 is a Thursday."""
    night = (
        FreezeWindow(days=("Thu",), from_minute=22 * 60),
        FreezeWindow(days=("Fri",), to_minute=6 * 60),
    )
    assert frozen_until_us(night, NOW_US) is None
    assert frozen_until_us(night, NOW_US + 22 * HOUR_US - 1) is None
    assert frozen_until_us(night, NOW_US + 22 * HOUR_US) == NOW_US + 30 * HOUR_US
    assert frozen_until_us(night, NOW_US + 30 * HOUR_US) is None
    every: tuple[Day, ...] = get_args(Day)
    for_ever = (FreezeWindow(days=every),)
    assert frozen_until_us(for_ever, NOW_US) == NOW_US + 7 * DAY_US
    assert frozen_until_us(for_ever, NOW_US + 1) == NOW_US + 8 * DAY_US


@pytest.mark.parametrize(
    ("fields", "body"),
    [
        (
            {"days": ("Mon",), "from_minute": 600, "to_minute": 600},
            "to_minute 600 is not after from_minute 600",
        ),
        ({"days": ("Mon", "Mon")}, "each day is named once"),
    ],
)
def test_a_freeze_that_is_empty_or_named_twice_is_rejected(fields: dict[str, Any], body: str) -> None:
    with pytest.raises(ValueError, match=body):
        FreezeWindow(**fields)


def test_a_contradictory_policy_is_rejected() -> None:
    with pytest.raises(ValueError, match="each is named once"):
        Policy(directions=("Widen", "Widen"))
    with pytest.raises(ValueError, match="there is no max_bound_ms"):
        Policy(on_no_data="max")


def test_an_unknown_change_counts_as_a_widening() -> None:
    assert direction_of(10, 9) == "Narrow"
    assert [direction_of(*ends) for ends in ((9, 9), (9, 10), (None, 9), (9, None), (None, None))] == [
        "Widen"
    ] * 5


@pytest.mark.parametrize(
    ("before", "after", "direction"),
    [
        (Envelope(target_ppm=990_000), Envelope(target_ppm=989_999), "Narrow"),
        (Envelope(target_ppm=990_000), Envelope(target_ppm=999_000), "Widen"),
        (Envelope(), Envelope(target_ppm=999_999), "Narrow"),
        (Envelope(latency_cap_ms=9), Envelope(latency_cap_ms=8), "Narrow"),
        (Envelope(), Envelope(latency_cap_ms=0), "Narrow"),
        (Envelope(max_bound_ms=9), Envelope(), "Widen"),
        (Envelope(min_bound_ms=1), Envelope(), "Narrow"),
        (Envelope(), Envelope(min_bound_ms=1), "Widen"),
        (Envelope(min_bound_ms=0), Envelope(), "Widen"),
        (
            Envelope(target_ppm=990_000, latency_cap_ms=9),
            Envelope(target_ppm=999_000, latency_cap_ms=8),
            "Narrow",
        ),
    ],
)
def test_an_envelope_narrows_when_any_part_of_it_does(
    before: Envelope, after: Envelope, direction: Direction
) -> None:
    assert envelope_direction(before, after) == direction
