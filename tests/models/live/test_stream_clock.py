"""The stream's clock: it runs with the wall clock, and stands while the feed is behind as it usually is not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tidemark.models.base.operators import Int64s
from tidemark.models.live.policy import Observation
from tidemark.models.live.stream_clock import PARTITIONS, STREAM, StreamClock

SECOND = 1_000_000
SPAN = 10
LONGEST_HOLD = 60.0
CALM_S = 400

Batch = Sequence[tuple[int, float, int]]
"""Partition, seconds by which a row's event time is before the batch, and how many rows."""


class Played:
    """A clock that is shown a batch a second, and asked for the time two seconds ahead."""

    def __init__(self, start_s: int = 0) -> None:
        self.clock = StreamClock(SECOND, SPAN, SECOND)
        self.now_us = start_s * SECOND
        self.ahead_us: Int64s = np.zeros(2, np.int64)

    def batch(self, rows: Batch, *, runs_on: bool = False) -> Int64s:
        """Show a batch; return how far the clocks are ahead of the wall clock when the decision is made, in seconds."""
        self.now_us += SECOND
        if rows:
            partition, before_s, count = (np.array(column) for column in zip(*rows, strict=True))
            event_us = ((self.now_us - before_s * SECOND) // SECOND * SECOND).astype(np.int64)
            self.clock.feed.observe(
                Observation(
                    now_us=self.now_us, partition=partition, key_us=event_us, event_us=event_us, count=count
                )
            )
        decided = self.clock.decide(self.now_us, self.now_us + 2 * SECOND, LONGEST_HOLD, runs_on=runs_on)
        self.ahead_us = decided - self.now_us
        return self.ahead_s

    @property
    def ahead_s(self) -> Int64s:
        """How far the clocks were ahead of the wall clock at the newest decision, in seconds."""
        ahead: Int64s = self.ahead_us // SECOND
        return ahead

    def calm(self, seconds: int = CALM_S, partitions: int = 2) -> None:
        """Show batches whose rows are a second old."""
        for _ in range(seconds):
            self.batch([(number, 1, 10) for number in range(partitions)])


def test_while_rows_come_as_usual_keys_age_by_the_wall_clock() -> None:
    played = Played()
    played.calm()
    assert (played.ahead_us == 2 * SECOND).all()


@pytest.mark.parametrize("a_second", [0, 1, 4])
def test_while_a_queue_fills_keys_age_by_the_newest_row_read(a_second: int) -> None:
    """Of ten seconds of rows so many are read in ten: the newest row is ever further behind the clock."""
    played = Played()
    played.calm()
    lag_s = 1.0
    for _ in range(60):
        lag_s += 1 - a_second / 10
        played.batch([(0, lag_s, 10), (1, lag_s, 10)])
    assert -lag_s - 1 <= played.ahead_s[STREAM] <= -lag_s + 8, (
        "never beyond what had been closed when it began"
    )
    assert played.clock.lag_us > 30 * SECOND


def test_a_queue_that_fills_slowly_does_not_become_usual_while_it_fills() -> None:
    played = Played()
    played.calm(150)
    lag_s = 1.0
    for _ in range(60):
        lag_s += 0.2
        played.batch([(0, lag_s, 10), (1, lag_s, 10)])
    assert played.clock.lag_us > 10 * SECOND


def counted(played: Played, least_s: float, most_s: float = np.inf) -> list[float]:
    """Return how many lags of such a length count, by column; older ones count for less."""
    lags, upper_s = played.clock.feed.learned()["lags"], np.concatenate([[0.0], 1.2 ** np.arange(47)])
    found: list[float] = lags[:, (upper_s >= least_s) & (upper_s < most_s)].sum(axis=1).tolist()
    return found


def test_each_lag_counts_once_of_a_young_feed_at_once_and_else_when_it_has_settled() -> None:
    played, young = Played(), 5
    for _ in range(young):
        played.batch([(0, 0, 10), (1, 0, 10)])
    for later in range(200):
        played.batch([(0, 1, 10), (1, 1, 10)])
        assert all(young - 1.5 < each <= young for each in counted(played, 1, 1.1))
        assert all(each <= max(later - 40, 1) for each in counted(played, 1.5))
    assert min(counted(played, 1.5)) > 130


def test_a_young_feed_that_falls_behind_is_not_taken_for_a_slow_one() -> None:
    played = Played()
    played.calm(8)
    for lag_s in range(2, 30):
        played.batch([(0, lag_s, 10), (1, lag_s, 10)])
    assert played.clock.lag_us > 25 * SECOND


def test_lags_just_before_a_backlog_never_count_and_the_backlog_counts_once_when_it_is_over() -> None:
    """A queue that fills is a little behind before it is noticed, in each partition."""
    played = Played()
    played.calm()
    for lag_s in [*[1.9] * 20, *range(10, 60), *range(60, 1, -5)]:
        played.batch([(0, lag_s, 10), (1, lag_s, 10)])
        assert max(counted(played, 5)) == 0
    played.calm(2)
    assert [round(each, 1) for each in counted(played, 50)] == [1.0, 1.0, 1.0]
    played.calm(100)
    assert max(counted(played, 2.5, 50)) == 0


def test_a_feed_that_is_slower_from_now_on_is_not_behind_once_that_is_usual() -> None:
    played = Played()
    played.calm(150)
    for _ in range(200):
        played.batch([(0, 2.5, 10), (1, 2.5, 10)])
    played.batch([(0, 5, 10), (1, 5, 10)])
    assert not played.clock.lag_us
    assert (played.ahead_us == 2 * SECOND).all()


def test_when_the_queue_is_empty_keys_age_by_the_wall_clock_again() -> None:
    played = Played()
    played.calm()
    for lag_s in [*range(1, 60), *range(60, 0, -5)]:
        played.batch([(0, lag_s, 10), (1, lag_s, 10)])
    played.calm(5)
    assert (played.ahead_us == 2 * SECOND).all()
    assert not played.clock.lag_us


def test_a_backlog_is_not_learned_as_usual_however_often_it_comes() -> None:
    """Else the clock would run on for as long in the next one."""
    played = Played()
    for _ in range(5):
        played.calm(200)
        for lag_s in [*range(1, 60), *range(60, 0, -5)]:
            played.batch([(0, lag_s, 10), (1, lag_s, 10)])
            assert played.ahead_s[STREAM] <= max(-lag_s + 5, 2)


def test_gaps_that_are_usual_do_not_stop_the_clock() -> None:
    """A stream of a row a minute is not behind after half of one."""
    played, rng = Played(), np.random.default_rng(5)
    stood = []
    for second in range(5_000):
        rows: Batch = [(0, 1, 1)] if rng.random() < 1 / 60 else []
        played.batch(rows)
        if second > 2_500:
            stood.append(played.ahead_s[STREAM] < 2)
    assert np.mean(stood) < 0.02


def test_one_row_from_now_does_not_end_a_backlog() -> None:
    """Nor does one from the future: it takes more rows than a few to show that the feed has caught up."""
    played = Played()
    played.calm()
    for lag_s in range(1, 60):
        played.batch([(0, lag_s, 1_000), (1, lag_s, 1_000), (0, 0, 1), (1, -3_600, 1)])
    assert played.ahead_s[STREAM] < -50


def test_the_partitions_clock_waits_for_one_that_falls_behind_and_the_streams_does_not() -> None:
    played = Played()
    played.calm()
    for lag_s in range(1, 40):
        played.batch([(0, 1, 10), (1, lag_s, 10)])
    assert played.ahead_s[STREAM] == 2
    assert played.ahead_s[PARTITIONS] < -30


def test_a_partition_that_rests_is_left_after_half_of_its_life() -> None:
    played = Played()
    played.calm(400)
    left = [bool(played.batch([(0, 1, 10)])[PARTITIONS] == 2) for _ in range(400)]
    assert 190 <= left.index(True, 10) <= 210


@pytest.mark.parametrize(("rows", "replaced"), [(10, False), (12, False), (20, True), (40, False)])
def test_a_partition_whose_rows_another_one_sends_now_is_not_waited_for_by_its_life(
    rows: int, replaced: bool
) -> None:
    """Its keys have moved, so it will not come back; but traffic that grows, little or much, shows no such thing."""
    played = Played()
    played.calm(400)
    left = [bool(played.batch([(0, 1, rows)])[PARTITIONS] == 2) for _ in range(400)]
    waited = left.index(True, 10)
    assert (waited < 1.5 * LONGEST_HOLD) == replaced
    assert replaced or 190 <= waited <= 210


def test_a_new_partition_that_sends_what_a_silent_one_sent_has_replaced_it() -> None:
    played = Played()
    played.calm(400)
    left = [bool(played.batch([(0, 1, 10), (2, 1, 10)])[PARTITIONS] == 2) for _ in range(400)]
    assert left.index(True, 10) < 1.5 * LONGEST_HOLD


def test_a_partition_that_uploads_every_ten_minutes_is_waited_for_from_the_second_upload_on() -> None:
    """Its first silence is not known to be one; after it the clock waits until it comes, ten minutes later."""
    played = Played()
    played.calm(60, partitions=1)
    waited = []
    for _ in range(4):
        for _ in range(599):
            played.batch([(0, 1, 10)])
        waited.append(int(played.ahead_s[PARTITIONS]))
        played.batch([(0, 1, 10), (1, 550, 5), (1, 300, 5)])
    assert waited[0] == 2
    assert waited[2] < -500
    assert waited[3] < -500


def test_a_partition_that_uploads_is_waited_for_though_another_one_sends_as_much_as_both_did() -> None:
    """What came back after each silence so long comes back, whatever the others do meanwhile."""
    played = Played()
    played.calm(60)
    for _ in range(3):
        for _ in range(599):
            played.batch([(0, 1, 10)])
        played.batch([(0, 1, 10), *((1, before_s, 10) for before_s in range(1, 600, 10))])
    for _ in range(500):
        played.batch([(0, 1, 11), (2, 1, 1)])
    assert played.ahead_s[PARTITIONS] < -400


def test_a_feed_without_rows_is_waited_for_unless_it_may_run_on() -> None:
    waits, runs_on = Played(), Played()
    for played in (waits, runs_on):
        played.calm()
    for _ in range(200):
        waits.batch([])
        runs_on.batch([], runs_on=True)
    assert waits.ahead_s[STREAM] < -190
    assert runs_on.ahead_s[STREAM] == 2
    assert runs_on.clock.silent


def test_the_clocks_never_go_back() -> None:
    played, rng, times = Played(), np.random.default_rng(3), []
    for _ in range(2_000):
        size = int(rng.integers(4))
        played.batch([(int(rng.integers(3)), float(rng.exponential(20)), 3) for _ in range(size)])
        times.append(played.ahead_us + played.now_us)
    assert (np.diff(times, axis=0) >= 0).all()


def test_what_was_learned_is_known_after_a_restart() -> None:
    before, after = Played(), Played(CALM_S)
    before.calm()
    after.clock.feed.resume(before.clock.feed.learned())
    after.batch([(0, 1, 10), (1, 1, 10)])
    for lag_s in range(1, 20):
        after.batch([(0, lag_s, 10), (1, lag_s, 10)])
    assert after.ahead_s[STREAM] < -10
