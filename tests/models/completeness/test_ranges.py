"""Ranges of windows: their interval is their own, and what gets no more rows counts as it is."""

from __future__ import annotations

import numpy as np

from tidemark.models.completeness.estimate import estimate
from tidemark.models.completeness.outcome import WindowEstimate
from tidemark.models.completeness.ranges import range_of

from support.synthetic import synthetic
from support.window_arrivals import Windows

SECOND = 1_000_000
COUNT = 12


def test_the_interval_of_a_range_has_its_final_count_in_all_but_one_of_twenty() -> None:
    windows = Windows(synthetic("stalls", 7, seconds=3_000, rate=60), 10 * SECOND, SECOND)
    within, raw, off, place = [], 0, 0, 150
    for _ in windows.batches():
        if place < 250 and windows.base_us >= windows.ends_us[place]:
            inside, end_us = range(place - COUNT + 1, place + 1), int(windows.ends_us[place])
            rows, final = sum(map(windows.rows_of, inside)), int(windows.final[inside].sum())
            ranges = range_of(windows.arrivals(place), end_us, COUNT, rows)
            found = estimate(ranges, end_us, windows.partitions(), seen_us=windows.seen_us)
            assert isinstance(found, WindowEstimate)
            assert rows <= found.expected_min <= found.expected <= found.expected_max
            within.append(found.expected_min <= final <= found.expected_max)
            raw, off, place = raw + final - rows, off + abs(final - found.expected), place + 1
    assert np.mean(within) >= 0.93
    assert off < 0.3 * raw


def test_of_a_long_range_only_the_windows_are_estimated_that_can_still_grow() -> None:
    windows = Windows(synthetic("stationary", 7, seconds=3_000, rate=60), 10 * SECOND, SECOND)
    for _ in windows.batches():
        if windows.base_us >= windows.ends_us[250]:
            break
    end_us = int(windows.ends_us[250])
    # More rows than are stored by age: those of windows of long ago.
    short, long = (
        estimate(range_of(windows.arrivals(250), end_us, count, rows), end_us)
        for count, rows in ((100, 60_000), (10_000, 6_000_000))
    )
    assert isinstance(short, WindowEstimate)
    assert isinstance(long, WindowEstimate)
    assert long.expected - short.expected == 6_000_000 - 60_000
    assert long.expected_max - long.expected_min == short.expected_max - short.expected_min
    assert long.settled
