"""A stream's pace, gap, lag and silent partitions, by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tidemark.models.evidence.progress import UNKNOWN_PROGRESS, PartitionTimes

from support.progress import progress_of

SECOND = 1_000_000


@dataclass(frozen=True)
class Batch:
    started_us: int
    duration_ms: int
    late_base_ms: int | None
    max_event_time_us: int | None


def batches(number: int, *, gap_s: int = 1, pace: float = 1.0, lag_s: int = 2) -> list[Batch]:
    """Batches that take 500 ms each; their maximum event time was ``lag_s`` before the first one's end."""
    return [
        Batch(
            n * gap_s * SECOND,
            500,
            None,
            round(n * gap_s * pace * SECOND) + SECOND // 2 - lag_s * SECOND,
        )
        for n in range(number)
    ]


def test_a_stream_that_keeps_up_has_the_pace_of_the_clock_and_its_usual_lag() -> None:
    found = progress_of(batches(50, gap_s=3), [], silent_us=7)
    assert (found.batch_gap_us, found.silent_us) == (3 * SECOND, 7)
    assert (found.pace_ppm, found.recent_pace_ppm) == (1_000_000, 1_000_000)
    assert (found.lag_us, found.usual_lag_us) == (2 * SECOND, 2 * SECOND)


def test_a_catch_up_shows_in_the_recent_pace_before_it_shows_in_the_whole() -> None:
    """80 batches at the clock's pace, then 20 at twice it."""
    steady = batches(81)
    last = steady[-1].max_event_time_us or 0
    fast = [
        replace(batch, max_event_time_us=last + 2 * (n + 1) * SECOND)
        for n, batch in enumerate(batches(101)[81:])
    ]
    found = progress_of(steady + fast, [])
    assert (found.recent_pace_ppm, found.pace_ppm) == (2_000_000, 1_200_000)


def test_a_stall_shows_in_the_lag() -> None:
    """20 batches whose maximum event time does not move: 20 s further behind than usual."""
    steady = batches(100)
    stalled = [replace(batch, max_event_time_us=steady[-1].max_event_time_us) for batch in batches(120)[100:]]
    found = progress_of(steady + stalled, [])
    assert (found.lag_us, found.usual_lag_us, found.recent_pace_ppm) == (22 * SECOND, 2 * SECOND, 0)


def test_batches_without_rows_keep_the_base_and_what_a_report_says_of_it_counts() -> None:
    known = [Batch(n * SECOND, 0, 1_000 if n == 0 else None, None) for n in range(4)]
    assert progress_of(known, []).lag_us == 2 * SECOND


@pytest.mark.parametrize("number", [0, 1, 2])
def test_too_few_batches_tell_neither_gap_nor_pace(number: int) -> None:
    found = progress_of(batches(number), [PartitionTimes(0, 4, 5)])
    assert replace(found, lag_us=None) == UNKNOWN_PROGRESS


def test_batches_that_all_start_at_once_have_no_gap_and_no_pace() -> None:
    found = progress_of([Batch(5, 0, None, 7_000)] * 4, [])
    assert (found.batch_gap_us, found.pace_ppm) == (None, None)


@pytest.mark.parametrize(
    ("partition", "silent"),
    [
        (PartitionTimes(0, 89 * SECOND, 90), 0),  # ten gaps of a second: still within
        (PartitionTimes(0, 88 * SECOND, 89), 1),  # eleven
        (PartitionTimes(0, 88 * SECOND, 9), 0),  # every eleven seconds is its own way
        (PartitionTimes(0, 4 * SECOND, 4), 0),  # seen too rarely to judge
        (PartitionTimes(0, 4 * SECOND, 5), 1),
        (PartitionTimes(0, 400_000, 5), 1),  # never faster than the stream's own batches
    ],
)
def test_a_partition_is_silent_after_ten_of_its_own_gaps(partition: PartitionTimes, silent: int) -> None:
    assert progress_of(batches(100), [partition]).silent_partitions == silent


def test_a_partitions_times_take_batches_in_any_order() -> None:
    assert PartitionTimes(5, 5, 1).seen_at(3).seen_at(9) == PartitionTimes(3, 9, 3)
