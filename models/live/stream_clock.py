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
from tidemark.models.live.policy import NEVER_US, NO_BASE_US, Observation

_Bools = NDArray[np.bool_]

STREAM, PARTITIONS = 0, 1
"""The two clocks. In what follows column 0 is the whole stream, and partition p is column p + 1."""

_AT_FIRST = {
    **dict.fromkeys(("life_us", "gap_us", "rows", "_rows_before", "_furthest_us"), 0),
    **dict.fromkeys(("behind", "replaced"), False),
    "base_us": NO_BASE_US,
    "last_us": NEVER_US,
    "_before_us": -1,
}
"""What each column has before its first rows."""

_EDGES: Float64s = np.concatenate([[0.0], 1.2 ** np.arange(47)])
"""Upper edges of the buckets of lags, in triggers: steps of 20 %, up to some 4,000."""
_BELOW = np.concatenate([[-1e-9], _EDGES[:-1]])
"""The edges below the buckets, and before them that of -1, which is no lag."""
_BUCKETS, _NONE = np.arange(len(_EDGES), dtype=np.uint8), np.uint8(255)
"""The buckets, and what stands for none: it is above them, so that it counts in none of their sums."""


class FeedProgress:
    """How far each column of a stream has come, how far behind it usually is, and what its silences end with."""

    def __init__(self, trigger_us: int, span_triggers: float, granule_us: int) -> None:
        self._trigger_us = trigger_us
        self._limits_us = BEHIND_USUAL_LAGS * (_EDGES * trigger_us) + max(granule_us, trigger_us)
        """How far behind is more than usual, by the bucket of the usual lag."""
        self._decay = 0.5 ** (1 / (FEED_HALF_LIFE * span_triggers))
        none = np.empty(0, np.int64)
        self.base_us: Int64s = none
        """Newest event time read, to its granule's start, ``NO_BASE_US`` before the first, shape (columns,)."""
        self.last_us: Int64s = none
        """When the newest rows came, ``NEVER_US`` before the first, shape (columns,)."""
        self.life_us: Int64s = none
        """Time from the first rows to the newest ones, shape (columns,)."""
        self.gap_us: Int64s = none
        """Longest silence that ended with rows from meanwhile, shape (columns,)."""
        self.rows: Int64s = none
        """Rows so far, shape (columns,)."""
        self._rows_before: Int64s = none
        self._before_us: Int64s = none
        """How far behind it was before the rows since the last decision came, -1 without any."""
        self._furthest_us: Int64s = none
        self.behind: _Bools = np.empty(0, bool)
        """Columns that are further behind the clock than usual, shape (columns,)."""
        self.some_behind = False
        """Whether any column is."""
        self.replaced: _Bools = np.empty(0, bool)
        """Columns that are silent because others send what they sent, shape (columns,)."""
        self.delivers: _Bools = np.empty(0, bool)
        """Columns whose silences mostly ended with the rows from meanwhile, shape (columns,)."""
        self._ended = np.empty((0, 2))
        """Silences that ended with rows from meanwhile, and those that did not, shape (columns, 2)."""
        self._lags = np.empty((0, len(_EDGES)))
        """How many lags were up to each edge, by weights that fade, shape (columns, edges)."""
        self._unsettled: deque[NDArray[np.uint8]] = deque()
        """Buckets of the newest lags, or ``_NONE``: with them a backlog may begin, so they do not count yet."""
        self._settling = round(SETTLING_SPANS * span_triggers)
        half_lives = np.array([[FORECAST_HALF_LIFE], [FEED_HALF_LIFE]]) * span_triggers
        self._rates_decay = 0.5 ** (1 / half_lives)
        self._rates = np.empty((2, 0))
        """Rows of each partition, of late and usually, by weights that fade with each decision, shape (2, columns)."""
        self._weights = np.zeros((2, 1))
        self._widen(1)

    def learned(self) -> Arrays:
        """Return usual lags, lives, and how silences ended."""
        lags = np.diff(self._lags, axis=1, prepend=0)
        own = {"lags": lags, "ended": self._ended, "rates": self._rates, "weights": self._weights}
        return own | {"life_us": self.life_us, "gap_us": self.gap_us, "rows": self.rows}

    def resume(self, learned: Arrays) -> None:
        """Go on with what an earlier run learned; silence counts from the first rows on."""
        columns = len(checked(learned, {"lags": (None, len(_EDGES))})["lags"])
        by_column = dict.fromkeys(("life_us", "gap_us", "rows"), (columns,))
        checked(learned, {**by_column, "ended": (columns, 2), "rates": (2, columns), "weights": (2, 1)})
        self._widen(columns)
        self._lags, self._ended = learned["lags"].cumsum(axis=1), learned["ended"].copy()
        self._rates, self._weights = learned["rates"].copy(), learned["weights"].copy()
        self.life_us[:], self.gap_us[:] = learned["life_us"], learned["gap_us"]
        self.rows[:] = self._rows_before[:] = learned["rows"]
        self._update_usual()

    @property
    def rests(self) -> _Bools:
        """Columns whose silences mostly ended without rows from meanwhile, shape (columns,)."""
        return self._ended[:, 0] < self._ended[:, 1]

    @property
    def partitions_deliver(self) -> bool:
        """Whether the silences of partitions mostly ended with the rows from meanwhile."""
        delivered, rested = self._ended[1:].sum(axis=0)
        return bool(delivered > rested)

    def silent(self, now_us: int) -> _Bools:
        """Return the columns that have been silent for longer than a batch or two, shape (columns,)."""
        return now_us - self.last_us > SILENCE_TRIGGERS * self._trigger_us

    def observe(self, seen: Observation) -> None:
        """Take a batch."""
        now_us, column = seen.now_us, seen.partition + 1
        self._widen(int(column.max()) + 1)
        oldest_us, newest_us = _bulk_of(seen)
        came = np.zeros(len(self.base_us), bool)
        came[column], came[STREAM] = True, newest_us > NO_BASE_US
        again = came & (self.base_us > NO_BASE_US)
        silence_us = now_us - self.last_us
        ended = again & (silence_us > SILENCE_TRIGGERS * self._trigger_us)
        if ended.any():
            self._see_ended(ended, silence_us, seen, oldest_us)
        np.maximum(self._before_us, now_us - self.base_us, out=self._before_us, where=again)
        np.add(self.life_us, silence_us, out=self.life_us, where=again)
        # A row from the future shows that its partition is there, and not how far the stream has come.
        np.maximum.at(self.base_us, column, np.minimum(seen.event_us, now_us))
        self.base_us[STREAM] = max(self.base_us[STREAM], newest_us)
        self.last_us[came] = now_us
        np.add.at(self.rows, column, seen.count)

    def learn(self, now_us: int) -> None:
        """Learn how far behind columns usually are; what is behind counts once, when it has caught up."""
        lag_us, was_behind, some_were = now_us - self.base_us, self.behind, self.some_behind
        self.behind = (self.base_us > NO_BASE_US) & (lag_us > self._limit_us)
        self.some_behind = bool(self.behind.any())
        before_us, at_once = self._before_us, ~self._has_usual
        if self.some_behind or some_were:
            caught_up = was_behind & ~self.behind & ~self.delivers
            before_us = np.where(self.behind | was_behind, -1, before_us)
            before_us = np.where(caught_up, self._furthest_us, before_us)
            at_once |= caught_up
            self._furthest_us = np.where(self.behind, np.maximum(self._furthest_us, lag_us), 0)
            # Before a backlog none was usual.
            begins = self.behind & ~was_behind
            for waiting in self._unsettled if begins.any() else ():
                waiting[begins[: len(waiting)]] = _NONE
        bucket = (_BELOW.searchsorted(before_us / self._trigger_us) - 1).astype(np.uint8)
        # Of a column that delivers after silences a silence is no usual lag, however often it comes.
        bucket[self.delivers & (before_us > self._limit_us)] = _NONE
        self._lags *= self._decay
        if at_once.any():
            self._count(np.where(at_once, bucket, _NONE))
            bucket[at_once] = _NONE
        self._unsettled.append(bucket)
        if len(self._unsettled) > self._settling:
            self._count(self._unsettled.popleft())
        self._before_us[:] = -1
        self._learn_rates(self.silent(now_us))
        self._update_usual()

    def _count(self, bucket: NDArray[np.uint8]) -> None:
        """Count the lag of each column, if it has one."""
        self._lags[: len(bucket)] += bucket[:, None] <= _BUCKETS

    def _learn_rates(self, silent: _Bools) -> None:
        """Learn how much each partition sends, and whether others send what the silent ones sent.

        Then the stream has as many rows as usual, and partitions that send more, new ones too, have taken them over.
        While traffic as a whole grows, nothing says whose rows are whose.
        """
        self._rates *= self._rates_decay
        self._rates += self.rows - self._rows_before
        self._weights = self._weights * self._rates_decay + 1
        self._rows_before[:] = self.rows
        self.replaced = silent
        if silent.any():
            of_late, usually = self._rates / self._weights
            more = ~silent & (of_late > TAKES_OVER_FROM * usually)
            gained, lacking = float((of_late - usually)[more].sum()), float(usually[silent].sum())
            as_usual = of_late.sum() <= TAKES_OVER_FROM * usually.sum()
            self.replaced = silent & bool(as_usual and gained >= TAKEN_OVER_SHARE * lacking > 0)

    def _see_ended(self, ended: _Bools, silence_us: Int64s, seen: Observation, oldest_us: int) -> None:
        """Count the silences that end with this batch, by whether rows come that are from before their middle."""
        oldest = np.full(len(ended), seen.now_us)
        np.minimum.at(oldest, seen.partition + 1, seen.event_us)
        oldest[STREAM] = oldest_us
        delivered = ended & (oldest <= seen.now_us - silence_us // 2)
        self._ended[delivered, 0] += 1
        self._ended[ended & ~delivered, 1] += 1
        np.maximum(self.gap_us, silence_us, out=self.gap_us, where=delivered)
        self._update_usual()

    def _update_usual(self) -> None:
        self.delivers = self._ended[:, 0] > self._ended[:, 1]
        total = self._lags[:, -1]
        usual = (self._lags >= USUAL_LAG_SHARE * total[:, None]).argmax(axis=1)
        self._has_usual = (total >= SILENCE_TRIGGERS) | self.delivers
        self._limit_us = np.where(self._has_usual, self._limits_us[usual], np.inf)

    def _widen(self, columns: int) -> None:
        new = columns - len(self.base_us)
        if new <= 0:
            return
        for name, value in _AT_FIRST.items():
            setattr(self, name, np.append(getattr(self, name), np.full(new, value)))
        self._rates = np.hstack([self._rates, np.zeros((2, new))])
        self._ended = np.vstack([self._ended, np.zeros((new, 2))])
        self._lags = np.vstack([self._lags, np.zeros((new, len(_EDGES)))])
        self._update_usual()


def _bulk_of(seen: Observation) -> tuple[int, int]:
    """Return the oldest and the newest event time of a batch's rows but for a few at either end.

    One row with a wrong date must not show that the stream has caught up. Rows from the future show nothing.
    """
    past = seen.event_us <= seen.now_us
    event_us = seen.event_us[past]
    if not len(event_us):
        return seen.now_us, NO_BASE_US
    order = event_us.argsort()
    rows = seen.count[past][order].cumsum()
    few = int(rows[-1]) * NEWEST_ROWS_PPM // 1_000_000
    first, last = rows.searchsorted(few + 1), rows.searchsorted(rows[-1] - few)
    return int(event_us[order[first]]), int(event_us[order[last]])


_RUNS = False, False


class StreamClock:
    """The two clocks of one stream."""

    def __init__(self, trigger_us: int, span_triggers: float, granule_us: int) -> None:
        self.feed = FeedProgress(trigger_us, span_triggers, granule_us)
        self._trigger_us = trigger_us
        self._clock_us: Int64s = np.full(2, NO_BASE_US)
        self._decided: deque[tuple[int, Int64s, tuple[bool, bool]]] = deque()
        self._in_force = self._clock_us, _RUNS
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
        clock, stood, self.lag_us = np.array([in_force_us, in_force_us]), _RUNS, 0
        if feed.some_behind:
            waited_for = now_us - feed.last_us <= self._patience_us(longest_hold, feed.life_us)
            waited_for[STREAM] |= not (runs_on or feed.rests[STREAM])
            stands = feed.behind & waited_for
            by_column = np.where(stands, feed.base_us, in_force_us)
            clock = np.array([by_column[STREAM], by_column.min()])
            stood = bool(stands[STREAM]), bool(stands.any())
            self.lag_us = int(now_us - feed.base_us[STREAM]) if stood[STREAM] else 0
        self._clock_us = np.maximum(self._clock_us, clock)
        self._decided.append((in_force_us, self._clock_us, stood))
        self.silent = bool(now_us - feed.last_us[STREAM] > SILENCE_TRIGGERS * self._trigger_us)
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
        if not self.feed.some_behind:
            return self.feed.behind
        return self.feed.behind & self.feed.delivers & self.feed.silent(now_us)

    def _patience_us(self, longest_hold: float, life_us: Int64s) -> Float64s:
        """Return the patience by lives; the partitions' clock waits by them always, as its rules may be left alone."""
        # How long a partition lived says nothing once others send its rows; its own silences still do.
        life_us = np.where(self.feed.replaced, 0, life_us)
        life_us[STREAM] = 0
        gap_us = SILENCE_GAPS * self.feed.gap_us * self.feed.delivers
        known_us = np.maximum(SILENCE_SHARE_OF_LIFE * life_us, gap_us)
        patience_us: Float64s = np.maximum(longest_hold * self._trigger_us, known_us)
        return patience_us
