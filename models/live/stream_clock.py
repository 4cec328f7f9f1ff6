"""The stream's clock: the wall clock, which stands while the feed as a whole falls behind.

Keys age by the clock, since a live watermark may move before the next row comes. But when all rows come later than
usual, because a queue before the job is full or nothing was read for a while, they are not late rows: the event times
show it at once. Then keys age by the newest event time read, as in plain Spark with a bound of 0 s, until it is as near
to the clock as usual. So a backlog closes no window early, and teaches nothing about late rows.

A second clock does the same by partition and takes the slowest, as Flink does. It waits for partitions that usually
deliver what was missing when they fall silent, for as long as their own silences and lives let expect; it does not wait
for those that just rest, nor long for those whose rows others send now. Which of the two a stream follows, the rules
decide by what each costs (``rules``).
"""

from __future__ import annotations

from collections import deque

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.live.ages import Float64s
from tidemark.models.live.defaults import (
    BEHIND_USUAL_LAGS,
    FEED_HALF_LIFE,
    FORECAST_HALF_LIFE,
    NEWEST_ROWS_PPM,
    SETTLING_SPANS,
    SILENCE_GAPS,
    SILENCE_SHARE_OF_LIFE,
    SILENCE_TRIGGERS,
    TAKEN_OVER_SHARE,
    TAKES_OVER_FROM,
    USUAL_LAG_SHARE,
)
from tidemark.models.live.learned import Arrays, checked
from tidemark.models.live.policy import NO_BASE_US, Observation

_Bools = NDArray[np.bool_]

STREAM, PARTITIONS = 0, 1
"""The two clocks. In what follows column 0 is the whole stream, and partition p is column p + 1."""

_EDGES: Float64s = np.concatenate([[0.0], 1.2 ** np.arange(47)])
"""Upper edges of the buckets of lags, in triggers: steps of 20 %, up to some 4,000."""


class FeedProgress:
    """How far each column of a stream has come, how far behind it usually is, and what its silences end with."""

    def __init__(self, trigger_us: int, span_triggers: float, granule_us: int) -> None:
        self._trigger_us = trigger_us
        self._slack_us = max(granule_us, trigger_us)
        self._decay = 0.5 ** (1 / (FEED_HALF_LIFE * span_triggers))
        self.base_us: Int64s = np.empty(0, np.int64)
        """Newest event time read, to its granule's start, ``NO_BASE_US`` before the first, shape (columns,)."""
        self.last_us: Int64s = np.empty(0, np.int64)
        """When the newest rows came, shape (columns,)."""
        self.life_us: Int64s = np.empty(0, np.int64)
        """Time from the first rows to the newest ones, shape (columns,)."""
        self.behind: _Bools = np.empty(0, bool)
        """Columns that are further behind the clock than usual, shape (columns,)."""
        self.replaced: _Bools = np.empty(0, bool)
        """Columns that are silent because others send what they sent, shape (columns,)."""
        self.gap_us: Int64s = np.empty(0, np.int64)
        """Longest silence that ended with rows from meanwhile, shape (columns,)."""
        self.rows: Int64s = np.empty(0, np.int64)
        """Rows so far, shape (columns,)."""
        self._ended = np.empty((0, 2))
        """Silences that ended with rows from meanwhile, and those that did not, shape (columns, 2)."""
        self._lags = np.empty((0, len(_EDGES)))
        self._unsettled: deque[NDArray[np.intp]] = deque()
        """Buckets of the newest lags, -1 for none: with them a backlog may begin, so they do not count yet."""
        self._settling = round(SETTLING_SPANS * span_triggers)
        half_lives = np.array([[FORECAST_HALF_LIFE], [FEED_HALF_LIFE]]) * span_triggers
        self._rates_decay = 0.5 ** (1 / half_lives)
        self._rates = np.empty((2, 0))
        """Rows of each partition, of late and usually, by weights that fade with each decision, shape (2, columns)."""
        self._weights = np.zeros((2, 1))
        self._rows_before: Int64s = np.empty(0, np.int64)
        self._usual_us: Float64s = np.empty(0)
        self._before_us: Int64s = np.empty(0, np.int64)
        """How far behind it was before the rows since the last decision came, -1 without any."""
        self._furthest_us: Int64s = np.empty(0, np.int64)
        self._widen(1)

    def learned(self) -> Arrays:
        """Return usual lags, lives, and how silences ended."""
        own = {"lags": self._lags, "ended": self._ended, "rates": self._rates, "weights": self._weights}
        return own | {"life_us": self.life_us, "gap_us": self.gap_us, "rows": self.rows}

    def resume(self, learned: Arrays) -> None:
        """Go on with what an earlier run learned; silence counts from the first rows on."""
        columns = len(checked(learned, {"lags": (None, len(_EDGES))})["lags"])
        by_column = dict.fromkeys(("life_us", "gap_us", "rows"), (columns,))
        checked(learned, {**by_column, "ended": (columns, 2), "rates": (2, columns), "weights": (2, 1)})
        self._widen(columns)
        self._lags, self._ended = learned["lags"].copy(), learned["ended"].copy()
        self.life_us, self.gap_us = learned["life_us"].copy(), learned["gap_us"].copy()
        self.rows, self._rates = learned["rows"].copy(), learned["rates"].copy()
        self._weights, self._rows_before = learned["weights"].copy(), self.rows.copy()
        self._update_usual()

    @property
    def delivers(self) -> _Bools:
        """Columns whose silences mostly ended with the rows from meanwhile, shape (columns,)."""
        return self._ended[:, 0] > self._ended[:, 1]

    @property
    def rests(self) -> _Bools:
        """Columns whose silences mostly ended without rows from meanwhile, shape (columns,)."""
        return self._ended[:, 0] < self._ended[:, 1]

    @property
    def partitions_deliver(self) -> bool:
        """Whether the silences of partitions mostly ended with the rows from meanwhile."""
        delivered, rested = self._ended[1:].sum(axis=0)
        return bool(delivered > rested)

    def silence_us(self, now_us: int) -> Int64s:
        """Return for how long each column has been silent, shape (columns,)."""
        silence: Int64s = np.where(self.base_us > NO_BASE_US, now_us - self.last_us, 0)
        return silence

    def silent(self, now_us: int) -> _Bools:
        """Return the columns that have been silent for longer than a batch or two, shape (columns,)."""
        return self.silence_us(now_us) > SILENCE_TRIGGERS * self._trigger_us

    def observe(self, seen: Observation) -> None:
        """Take a batch."""
        now_us, column = seen.now_us, seen.partition + 1
        self._widen(int(column.max()) + 1)
        newest = np.full(len(self.base_us), NO_BASE_US)
        oldest = np.full(len(self.base_us), now_us)
        # A row from the future shows that its partition is there, and not how far the stream has come.
        np.maximum.at(newest, column, np.minimum(seen.event_us, now_us))
        np.minimum.at(oldest, column, seen.event_us)
        oldest[STREAM], newest[STREAM] = _bulk_of(seen)
        np.add.at(self.rows, column, seen.count)
        came = newest > NO_BASE_US
        came_again = came & (self.base_us > NO_BASE_US)
        self._see_ended(came_again, now_us, oldest)
        self._before_us[came_again] = np.maximum(
            self._before_us[came_again], now_us - self.base_us[came_again]
        )
        self.life_us[came_again] += now_us - self.last_us[came_again]
        self.base_us[came] = np.maximum(self.base_us[came], newest[came])
        self.last_us[came] = now_us

    def learn(self, now_us: int) -> None:
        """Learn how far behind columns usually are; what is behind counts once, when it has caught up."""
        lag_us = np.where(self.base_us > NO_BASE_US, now_us - self.base_us, 0)
        limit_us = BEHIND_USUAL_LAGS * self._usual_us + self._slack_us
        # Of a column that delivers after silences a silence is no usual lag, however often it comes.
        delivers = self.delivers
        has_usual = (self._lags.sum(axis=1) >= SILENCE_TRIGGERS) | delivers
        was_behind, self.behind = self.behind, has_usual & (lag_us > limit_us)
        caught_up = was_behind & ~self.behind
        calm = (self._before_us >= 0) & ~self.behind & ~was_behind
        counted = np.where(delivers, calm & (self._before_us <= limit_us), calm | caught_up)
        counted_us = np.where(caught_up, self._furthest_us, self._before_us)
        bucket = np.where(counted, np.searchsorted(_EDGES[:-1], counted_us / self._trigger_us), -1)
        self._lags *= self._decay
        self._settle(bucket, at_once=caught_up | ~has_usual)
        self._furthest_us = np.where(self.behind, np.maximum(self._furthest_us, lag_us), 0)
        self._before_us[:] = -1
        self._learn_rates(self.silent(now_us))
        self._update_usual()

    def _learn_rates(self, silent: _Bools) -> None:
        """Learn how much each partition sends, and whether others send what the silent ones sent.

        Then the stream has as many rows as usual, and partitions that send more, new ones too, have taken them over.
        While traffic as a whole grows, nothing says whose rows are whose.
        """
        self._rates = self._rates * self._rates_decay + (self.rows - self._rows_before)
        self._weights = self._weights * self._rates_decay + 1
        self._rows_before = self.rows.copy()
        of_late, usually = self._rates / self._weights
        more = ~silent & (of_late > TAKES_OVER_FROM * usually)
        gained, lacking = float((of_late - usually)[more].sum()), float(usually[silent].sum())
        as_usual = of_late.sum() <= TAKES_OVER_FROM * usually.sum()
        self.replaced = silent & bool(as_usual and gained >= TAKEN_OVER_SHARE * lacking > 0)

    def _settle(self, bucket: NDArray[np.intp], at_once: _Bools) -> None:
        """Take the lags of a decision, and count those that are old enough; before a backlog none was usual."""
        self._unsettled.append(np.where(at_once, -1, bucket))
        if self.behind.any():
            for waiting in self._unsettled:
                waiting[self.behind[: len(waiting)]] = -1
        settled = [np.where(at_once, bucket, -1)]
        if len(self._unsettled) > self._settling:
            settled.append(self._unsettled.popleft())
        for buckets in settled:
            column = np.flatnonzero(buckets >= 0)
            self._lags[column, buckets[column]] += 1

    def _see_ended(self, came: _Bools, now_us: int, oldest_us: Int64s) -> None:
        """Count the silences that end with this batch, by whether rows come that are from before their middle."""
        silence_us = np.where(came, now_us - self.last_us, 0)
        ended = silence_us > SILENCE_TRIGGERS * self._trigger_us
        delivered = ended & (oldest_us <= now_us - silence_us // 2)
        self._ended += np.column_stack([delivered, ended & ~delivered])
        self.gap_us = np.where(delivered, np.maximum(self.gap_us, silence_us), self.gap_us)

    def _update_usual(self) -> None:
        total = np.cumsum(self._lags, axis=1)
        self._usual_us = _EDGES[(total >= USUAL_LAG_SHARE * total[:, -1:]).argmax(axis=1)] * self._trigger_us

    def _widen(self, columns: int) -> None:
        new = columns - len(self.base_us)
        if new <= 0:
            return
        nothing = np.zeros(new, np.int64)
        self.base_us = np.append(self.base_us, np.full(new, NO_BASE_US))
        self.last_us, self.life_us = np.append(self.last_us, nothing), np.append(self.life_us, nothing)
        self.gap_us, self._before_us = (
            np.append(self.gap_us, nothing),
            np.append(self._before_us, nothing - 1),
        )
        self._furthest_us, self.rows = np.append(self._furthest_us, nothing), np.append(self.rows, nothing)
        self.behind = np.append(self.behind, np.zeros(new, bool))
        self.replaced = np.append(self.replaced, np.zeros(new, bool))
        self._usual_us = np.append(self._usual_us, np.zeros(new))
        self._rates = np.hstack([self._rates, np.zeros((2, new))])
        self._rows_before = np.append(self._rows_before, nothing)
        self._ended = np.vstack([self._ended, np.zeros((new, 2))])
        self._lags = np.vstack([self._lags, np.zeros((new, len(_EDGES)))])


def _bulk_of(seen: Observation) -> tuple[int, int]:
    """Return the oldest and the newest event time of a batch's rows but for a few at either end.

    One row with a wrong date must not show that the stream has caught up. Rows from the future show nothing.
    """
    past = seen.event_us <= seen.now_us
    if not past.any():
        return seen.now_us, NO_BASE_US
    order = np.argsort(seen.event_us[past], kind="stable")
    event_us, rows = seen.event_us[past][order], np.cumsum(seen.count[past][order])
    few = int(rows[-1]) * NEWEST_ROWS_PPM // 1_000_000
    first, last = np.searchsorted(rows, [few + 1, rows[-1] - few])
    return int(event_us[first]), int(event_us[last])


class StreamClock:
    """The two clocks of one stream."""

    def __init__(self, trigger_us: int, span_triggers: float, granule_us: int) -> None:
        self.feed = FeedProgress(trigger_us, span_triggers, granule_us)
        self._trigger_us = trigger_us
        self._clock_us: Int64s = np.full(2, NO_BASE_US)
        self._decided: deque[tuple[int, Int64s, _Bools]] = deque()
        self._in_force = self._clock_us, np.zeros(2, bool)
        self.silent = False
        """Whether no row came for longer than a batch or two."""
        self.lag_us = 0
        """How far the feed is behind the clock while it is further behind than usual, else 0."""

    def decide(self, now_us: int, in_force_us: int, longest_hold: float, *, runs_on: bool) -> Int64s:
        """Return the times by which keys age when a decision at ``now_us`` is in force, shape (2,).

        Args:
            now_us: wall time of the decision, in microseconds.
            in_force_us: wall time from which it is in force, in microseconds.
            longest_hold: for how many triggers a silent partition is waited for at least.
            runs_on: whether the clock of a stream without any rows runs on after that time; where its silences were
                mere rests so far, it does anyway.
        """
        feed = self.feed
        if feed.base_us[STREAM] == NO_BASE_US:
            return np.full(2, in_force_us)
        feed.learn(now_us)
        silence_us = feed.silence_us(now_us)
        waited_for = silence_us <= self._patience_us(longest_hold, feed.life_us)
        waited_for[STREAM] |= not (runs_on or feed.rests[STREAM])
        stands = feed.behind & waited_for
        clock = np.where(stands, feed.base_us, in_force_us)
        self._clock_us = np.maximum(self._clock_us, [clock[STREAM], clock.min()])
        self._decided.append((in_force_us, self._clock_us, np.array([stands[STREAM], stands.any()])))
        self.lag_us = int(now_us - feed.base_us[STREAM]) if stands[STREAM] else 0
        self.silent = bool(feed.silent(now_us)[STREAM])
        return self._clock_us

    def at(self, now_us: int) -> Int64s:
        """Return the times by which keys have aged at a wall time, shape (2,); calls come in order."""
        while self._decided and self._decided[0][0] <= now_us:
            _, clock_us, stood = self._decided.popleft()
            self._in_force = clock_us, stood
        clock_us, stood = self._in_force
        at: Int64s = np.where(stood, np.minimum(now_us, clock_us), now_us)
        return at

    def patience(self, longest_hold: float) -> Float64s:
        """Return for how many triggers each column may be silent before it has stopped, shape (columns,).

        A column that delivers is waited for by its longest silence; where partitions usually deliver, each also by how
        long it has lived: one that has come for an hour may well come again after half of one.
        """
        life_us = self.feed.life_us if self.feed.partitions_deliver else np.zeros_like(self.feed.life_us)
        patience: Float64s = self._patience_us(longest_hold, life_us) / self._trigger_us
        return patience

    def outstanding(self, now_us: int) -> _Bools:
        """Return the columns that are silent and will deliver what they have not sent, shape (columns,)."""
        return self.feed.silent(now_us) & self.feed.delivers & self.feed.behind

    def _patience_us(self, longest_hold: float, life_us: Int64s) -> Float64s:
        """Return the patience by lives; the partitions' clock waits by them always, as its rules may be left alone."""
        # How long a partition lived says nothing once others send its rows; its own silences still do.
        life_us = np.where(self.feed.replaced, 0, life_us)
        life_us[STREAM] = 0
        gap_us = SILENCE_GAPS * self.feed.gap_us * self.feed.delivers
        known_us = np.maximum(SILENCE_SHARE_OF_LIFE * life_us, gap_us)
        patience_us: Float64s = np.maximum(longest_hold * self._trigger_us, known_us)
        return patience_us
