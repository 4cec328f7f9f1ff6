"""What a window will become: how near, how sure, and when nothing is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tidemark.models.base.target import PPM
from tidemark.models.completeness.ages import SLOTS, slot_of
from tidemark.models.completeness.arrivals import WindowArrivals
from tidemark.models.completeness.estimate import DEFAULT_SHARE_PPM, NotKnown, estimate
from tidemark.models.completeness.outcome import WindowEstimate
from tidemark.models.completeness.silent import PartitionProgress
from tidemark.models.evidence.progress import PartitionTimes

from support.synthetic import synthetic
from support.window_arrivals import Windows

SECOND = 1_000_000
HOUR = 3_600 * SECOND
WINDOW = 10 * SECOND


def at(kind: str, *, after_s: float, seconds: int = 1_800, place: int = 120, rate: int = 100) -> Windows:
    """Return the windows of a kind after the first batch whose base is so long after the end of one."""
    windows = Windows(synthetic(kind, 7, seconds=seconds, rate=rate), WINDOW, SECOND)
    for _ in windows.batches():
        if windows.base_us >= windows.ends_us[place] + after_s * SECOND:
            break
    return windows


def said(windows: Windows, place: int = 120) -> WindowEstimate:
    found = estimate(
        windows.arrivals(place),
        int(windows.ends_us[place]),
        windows.partitions(),
        seen_us=windows.seen_us,
    )
    assert isinstance(found, WindowEstimate), found
    return found


def hours(rows: list[int], shares: list[float], newest: int) -> WindowArrivals:
    """Return hourly windows with so many rows, of which shares come in the hours after; the newest has just ended."""
    ages = np.arange(len(shares)) * HOUR
    table = np.zeros((newest + 1, SLOTS), np.int64)
    for place in range(newest + 1):
        came = np.rint(rows[place] * np.diff([0, *np.cumsum(shares)])).astype(int)
        here = ages <= (newest - place) * HOUR
        np.add.at(table[place], slot_of(ages[here], HOUR), came[here])
    return WindowArrivals(
        span_us=HOUR, step_us=HOUR, first_end_us=HOUR, base_us=(newest + 1) * HOUR, gap_us=HOUR, rows=table
    )


def end_of(arrivals: WindowArrivals) -> int:
    return arrivals.first_end_us + (len(arrivals) - 1) * arrivals.step_us


def test_an_estimate_at_the_end_of_a_window_is_far_nearer_than_the_rows_so_far() -> None:
    windows = Windows(synthetic("stationary", 7, seconds=1_800, rate=100), WINDOW, SECOND)
    raw = off = 0
    place = 100
    for _ in windows.batches():
        if place < 160 and windows.base_us >= windows.ends_us[place]:
            found, final = said(windows, place), int(windows.final[place])
            raw, off, place = (
                raw + final - windows.rows_of(place),
                off + abs(final - found.expected),
                place + 1,
            )
            assert windows.rows_of(place) <= found.expected_min <= found.expected <= found.expected_max
    assert off < 0.3 * raw


def test_a_window_is_settled_when_the_share_has_come_of_the_most_that_are_expected() -> None:
    early, late = said(at("slow", after_s=1)), said(at("slow", after_s=90))
    assert not early.settled
    assert early.came_min_ppm < DEFAULT_SHARE_PPM
    assert late.settled
    assert late.came_min_ppm >= DEFAULT_SHARE_PPM
    assert late.reached_us is late.reached_max_us is None


def test_it_says_when_the_share_will_have_come() -> None:
    windows = at("slow", after_s=1)
    found = said(windows)
    assert found.reached_us is not None
    assert found.reached_max_us is not None
    assert windows.base_us < found.reached_us <= found.reached_max_us
    until = at("slow", after_s=(found.reached_max_us - int(windows.ends_us[120])) / SECOND)
    assert until.rows_of(120) * PPM >= DEFAULT_SHARE_PPM * until.final[120]


def test_the_score_counts_past_windows_that_those_before_them_bounded() -> None:
    score = said(at("stationary", after_s=2)).score
    assert 60 < score.windows <= 120
    assert 0.9 * score.windows <= score.within <= score.windows
    assert score.rightly <= score.settled <= score.windows


def test_a_day_and_its_night_are_forecast_while_little_is_in() -> None:
    volume = [1_000 if 8 <= place % 24 < 20 else 100 for place in range(300)]
    morning = hours(volume, [0.3, 0.7], newest=24 * 11 + 8)
    # As much is in as chance has it, so that it tells nothing.
    rows, now, later = morning.rows.copy(), *slot_of(np.array([0, HOUR]), HOUR)
    moved = (rows[:, now] * np.random.default_rng(2).uniform(0, 0.9, len(rows))).astype(int)
    rows[:, now] -= moved
    rows[:-1, later] += moved[:-1]
    morning = replace(morning, rows=rows)
    found = estimate(morning, end_of(morning))
    assert isinstance(found, WindowEstimate)
    assert morning.rows[-1].sum() < 300
    assert found.expected == pytest.approx(1_000, rel=0.03)


@pytest.mark.parametrize(
    ("arrivals", "why"),
    [
        (hours([500] * 30, [1.0], newest=15), "fewer than 20 windows"),
        (hours([5] * 60, [0.8, 0.2], newest=50), "5 rows on average"),
    ],
)
def test_what_cannot_be_estimated_is_not_known(arrivals: WindowArrivals, why: str) -> None:
    found = estimate(arrivals, end_of(arrivals))
    assert isinstance(found, NotKnown)
    assert why in found.reason


def test_a_window_off_the_grid_is_not_known() -> None:
    arrivals = hours([500] * 60, [0.8, 0.2], newest=50)
    assert isinstance(estimate(arrivals, end_of(arrivals) + 1), NotKnown)


def test_a_stream_whose_interval_does_not_hold_is_not_known() -> None:
    rng = np.random.default_rng(3)
    volume = np.cumprod(rng.choice([0.5, 2.2], 160)) * 1_000
    arrivals = hours(np.clip(volume, 50, 1e9).astype(int).tolist(), [0.0, 0.0, 0.0, 1.0], newest=150)
    assert isinstance(estimate(arrivals, end_of(arrivals)), NotKnown)


def test_an_old_window_with_few_before_it_is_known_from_younger_ones_that_are_complete() -> None:
    arrivals = hours([1_000] * 120, [0.9, 0.0, 0.1], newest=110)
    for place in (0, 3, 30, 100):
        found = estimate(arrivals, arrivals.first_end_us + place * HOUR)
        assert isinstance(found, WindowEstimate)
        assert (found.expected_min, found.expected, found.expected_max) == (1_000, 1_000, 1_000)
        assert found.settled
    young = estimate(arrivals, end_of(arrivals) - HOUR)
    assert isinstance(young, WindowEstimate)
    assert young.expected == pytest.approx(1_000, abs=10)


def test_a_change_is_forgotten_within_sixty_windows() -> None:
    rng = np.random.default_rng(3)
    wild = np.clip(np.cumprod(rng.choice([0.5, 2.2], 160)) * 1_000, 50, 1e9).astype(int).tolist()
    outcomes = [
        isinstance(estimate(arrivals, end_of(arrivals)), NotKnown)
        for newest in (150, 220)
        for arrivals in [hours(wild + [1_000] * 80, [0.0, 0.0, 0.0, 1.0], newest=newest)]
    ]
    assert outcomes == [True, False]


@pytest.mark.parametrize("kind", ["slow", "stalls", "bursts"])
def test_windows_of_one_moment_are_each_what_they_are_alone(kind: str) -> None:
    windows = at(kind, after_s=1)
    shared, partitions = windows.arrivals(120), windows.partitions()
    for end_us in windows.ends_us[120:0:-7].tolist():
        alone = replace(shared, rows=shared.rows.copy())
        found = [estimate(each, end_us, partitions, seen_us=windows.seen_us) for each in (shared, alone)]
        assert found[0] == found[1]


def partition(name: str, *, share: float, newest_us: int, seen_us: int) -> PartitionProgress:
    return PartitionProgress(
        partition=name,
        share=share,
        newest_us=newest_us,
        behind_us=0,
        times=PartitionTimes(0, seen_us, seen_us // (HOUR // 10) + 1),
    )


def with_silence(short_before: bool) -> tuple[WindowEstimate, WindowEstimate]:
    """Return what is said of a window without and with a partition that fell silent half-way through it.

    Args:
        short_before: whether windows were as short before, and got their rows later.
    """
    arrivals = hours([1_000] * 120, [0.9, 0.1], newest=110)
    rows = arrivals.rows.copy()
    for place in range(20, 100, 16) if short_before else ():
        lacked = rows[place, slot_of(np.array([0]), HOUR)[0]] // 4
        rows[place, slot_of(np.array([0]), HOUR)[0]] -= lacked
        rows[place, slot_of(np.array([2 * HOUR]), HOUR)[0]] += lacked
    rows[-1] = rows[-1] * 3 // 4
    arrivals = replace(arrivals, rows=rows)
    end_us = end_of(arrivals)
    partitions = [
        partition("0", share=0.5, newest_us=end_us, seen_us=end_us),
        partition("1", share=0.5, newest_us=end_us - HOUR // 2, seen_us=end_us - HOUR // 2),
    ]
    arrivals = replace(arrivals, gap_us=HOUR // 10)
    found = [estimate(arrivals, end_us, some, seen_us=end_us) for some in ((), partitions)]
    assert isinstance(found[0], WindowEstimate)
    assert isinstance(found[1], WindowEstimate)
    return found[0], found[1]


def test_a_partition_that_fell_silent_is_named_with_what_it_is_worth() -> None:
    _, found = with_silence(short_before=True)
    (silent,) = found.silent
    assert silent.partition == "1"
    assert silent.share_ppm == pytest.approx(250_000, abs=10)
    assert found.expected == pytest.approx(1_000, rel=0.03)


@pytest.mark.parametrize("taken_over", [False, True])
def test_a_silence_of_many_windows_counts_while_they_lack_its_rows(taken_over: bool) -> None:
    volume = [1_000] * 90 + [1_000 if taken_over else 750] * 30
    arrivals = replace(hours(volume, [0.9, 0.1], newest=115), gap_us=HOUR // 10)
    end_us = end_of(arrivals)
    partitions = [
        partition("0", share=0.75, newest_us=end_us, seen_us=end_us),
        partition("1", share=0.25, newest_us=90 * HOUR, seen_us=90 * HOUR),
    ]
    found = estimate(arrivals, end_us - 3 * HOUR, partitions, seen_us=end_us)
    assert isinstance(found, WindowEstimate)
    assert (found.settled, bool(found.silent)) == (taken_over, not taken_over)
    assert found.expected_max == 1_000


def test_where_no_window_was_ever_as_short_a_silence_only_widens_the_interval() -> None:
    without, found = with_silence(short_before=False)
    assert found.silent
    assert found.expected == without.expected
    assert found.expected_max >= without.expected_max / 0.76
    assert not found.settled


def test_a_slot_wider_than_the_gap_of_batches_counts_only_as_far_as_the_age() -> None:
    """Old ages have slots of several batches: what past windows got later in one is not there yet."""
    arrivals = hours([4_000] * 150, [0.0125] * 80, newest=149)
    for place in range(99, 139):
        found = estimate(arrivals, arrivals.first_end_us + place * HOUR)
        assert isinstance(found, WindowEstimate)
        assert found.expected == pytest.approx(4_000, rel=0.05)
