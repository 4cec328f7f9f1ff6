"""Missing rows: rows that should have arrived by now and have not, by cohort of event time.

A stall or a burst of delay shows in rows that are absent, before the first late row comes: of n rows a cohort, a
partition has delivered a known share by each age. Partitions that are silent for longer than chance explains, alone or
together (``silent_partitions``), miss what they would have sent meanwhile, however few rows each cohort has of them. A
cohort that is short of its forecast by more than chance and its partition's own unevenness (``chance``) allow is
missing rows too. Where some rows have come there may be only fewer of them, so what a cohort is short of counts for the
share that came so far (``ShortCohorts``). Forecasts forget, so that a stream that ends or slows down is not waited for
long, and a partition that has been silent for longer than anything is waited for has stopped: when it returns it is
new. The forecast of one that usually delivers after a silence stays.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.live.ages import Float64s, bucket_of
from tidemark.models.live.chance import Unevenness, silent_partitions
from tidemark.models.live.cohorts import OpenCohorts, ShortCohorts
from tidemark.models.live.defaults import (
    FORECAST_HALF_LIFE,
    FUTURE_COHORTS,
    MAX_COHORTS,
    MISSING_DEVIATIONS,
    PROFILE_HALF_LIFE,
    UNEVENNESS_HALF_LIFE,
    UNEVENNESS_PRIOR_SPANS,
)
from tidemark.models.live.learned import Arrays, checked, joined, part_of
from tidemark.models.live.policy import NEVER_US
from tidemark.models.live.profiles import Profiles, delivered_bucket

_STREAM = 0
"""Row and column of the whole stream; partition p is p + 1."""

_ALL = slice(None)

_DENSE = 0.25
"""Share of the partitions from which on comparing all of them is faster than picking some out."""


def _at(places: NDArray[np.intp], length: int) -> NDArray[np.bool_]:
    """Return whether each place is one of some, shape (length,)."""
    there = np.zeros(length, bool)
    there[places] = True
    return there


class Missing:
    """Forecasts and counts of cohorts that are still open."""

    def __init__(self, granule_us: int, trigger_us: int, span_triggers: float) -> None:
        self._granule_us = granule_us
        self._trigger_us = trigger_us
        self._decay = 0.5 ** (1 / (FORECAST_HALF_LIFE * span_triggers))
        self._profile_decay = 0.5 ** (1 / (PROFILE_HALF_LIFE * span_triggers))
        self._cohorts_per_trigger = trigger_us / granule_us
        self._profiles = Profiles()
        self._rows = np.zeros(1)
        self._cohorts = 0.0
        cohorts = max(round(span_triggers * trigger_us / granule_us), 1)
        self._unevenness = Unevenness(UNEVENNESS_HALF_LIFE * cohorts, UNEVENNESS_PRIOR_SPANS * cohorts)
        self._short_cohorts = ShortCohorts(granule_us, cohorts)
        self._catching_up = np.zeros(1, bool)
        """Partitions that were silent, and send what they did not since; shape (partitions + 1,)."""
        self._since_us = np.zeros(1, np.int64)
        """The newest event time of those that catch up, else wall time of the newest rows, shape (partitions + 1,)."""
        self._last_us = np.zeros(1, np.int64)
        """Wall time of the newest batch with rows, shape (partitions + 1,)."""
        self._learned_from_us = np.full(1, -NEVER_US)
        """Start of the first cohort that shows each partition's pace, after it stopped, shape (partitions + 1,)."""
        self.stopped = False
        self._stays = np.zeros(1, bool)
        """Columns whose forecasts stay as they are, until they deliver."""
        self._open = OpenCohorts(granule_us, MAX_COHORTS)
        self._placed = 0, -1
        """Age of the newest cohort in microseconds, and version of the profiles, for which places by age are known."""
        self._place_by_age: NDArray[np.intp] = np.empty(0, np.intp)
        self._done_us = -NEVER_US
        self._whole_from_us: int | None = None

    @property
    def start_us(self) -> Int64s:
        """Starts of the open cohorts, ascending without a gap, shape (cohorts,)."""
        return self._open.start_us

    def learned(self) -> Arrays:
        """Return forecasts and profiles, without the cohorts that are open."""
        return {
            "rows": self._rows,
            "cohorts": np.array(self._cohorts),
            "stopped": np.array(self.stopped),
        } | joined(
            {
                "profiles": self._profiles.learned(),
                "unevenness": self._unevenness.learned(),
                "short_cohorts": self._short_cohorts.learned(),
            }
        )

    def resume(self, learned: Arrays) -> None:
        """Go on with what an earlier run learned; silence counts from the first batch on."""
        columns = len(checked(learned, {"rows": (None,), "cohorts": (), "stopped": ()})["rows"])
        shapes = {
            "unevenness.counts": (columns,),
            "profiles.rows": (columns, None),
        }
        checked(learned, shapes)
        self._profiles.resume(part_of(learned, "profiles"))
        self._unevenness.resume(part_of(learned, "unevenness"))
        self._short_cohorts.resume(part_of(learned, "short_cohorts"))
        self._rows = learned["rows"].copy()
        self._cohorts, self.stopped = float(learned["cohorts"]), bool(learned["stopped"])
        self._last_us, self._since_us = np.zeros((2, columns), np.int64)
        self._stays, self._catching_up = np.zeros((2, columns), bool)
        self._learned_from_us = np.full(columns, -NEVER_US)
        self._open.widen(columns - 1)

    def advance(self, triggers: int, outstanding: NDArray[np.bool_]) -> None:
        """Let ``triggers`` pass.

        The forecast of a partition whose rows are ``outstanding`` stays as it was; shape (columns,), or some of them.
        """
        decay, before = self._decay**triggers, self._cohorts
        self._profiles.fade(self._profile_decay**triggers)
        self._cohorts = before * decay + (1 - decay) / (1 - self._decay) * self._cohorts_per_trigger
        columns = min(len(outstanding), len(self._rows))
        self._stays = np.zeros(len(self._rows), bool)
        self._stays[1:columns] = outstanding[1:columns]
        stay = self._rows[self._stays] * (self._cohorts / max(before, 1e-9))
        self._rows *= decay
        if len(stay):
            self._rows[_STREAM] += (stay - self._rows[self._stays]).sum()
            self._rows[self._stays] = stay

    def add(self, now_us: int, partition: Int64s, start_us: Int64s, count: Int64s) -> None:
        """Count rows, each once."""
        self._know_partitions(int(partition.max()) + 1)
        if self._whole_from_us is None:
            # The partitions of an earlier run have not been silent before it.
            self._last_us[:] = self._since_us[:] = now_us
        self._last_us[partition + 1] = self._last_us[_STREAM] = now_us
        self._since_us[partition + 1] = now_us
        if self._whole_from_us is None:
            # Cohorts already under way when the stream was first seen are incomplete.
            begun = start_us[start_us <= now_us]
            self._whole_from_us = (int(begun.max()) if len(begun) else now_us) + self._granule_us
        self._learn(now_us, partition, start_us, count)
        self._short_cohorts.add(start_us, count)
        oldest_us, newest_us = int(start_us.min()), int(start_us.max())
        latest_us = now_us + FUTURE_COHORTS * self._granule_us
        if oldest_us <= self._done_us or newest_us > latest_us:
            open_ = (start_us > self._done_us) & (start_us <= latest_us)
            partition, start_us, count = partition[open_], start_us[open_], count[open_]
            if not len(start_us):
                return
            oldest_us, newest_us = int(start_us.min()), int(start_us.max())
        self._open_cohorts(oldest_us, newest_us)
        at = (start_us - self.start_us[0]) // self._granule_us
        if oldest_us < self.start_us[0]:
            inside = at >= 0
            at, partition, count = at[inside], partition[inside], count[inside]
        self._open.add(at, partition, count)

    def _learn(self, now_us: int, partition: Int64s, start_us: Int64s, count: Int64s) -> None:
        """Learn the usual rows from cohorts that were seen whole: an earlier backlog does not show the pace."""
        column = partition + 1
        returned = column[self._stays[column] | (self._learned_from_us[column] == NEVER_US)]
        self._learned_from_us[returned] = now_us
        whole = start_us >= np.maximum(self._learned_from_us[column], self._whole_from_us or 0)
        column, rows = column[whole], count[whole]
        self._profiles.add(column, bucket_of((now_us - start_us[whole]) / self._trigger_us), rows)
        self._rows += np.bincount(column, rows, len(self._rows))
        self._rows[_STREAM] += rows.sum()

    def shortfall(
        self, now_us: int, patience: Callable[[], Float64s], behind_us: Int64s | None = None
    ) -> Float64s:
        """Return how many rows each open cohort is missing, 0 within what chance allows, shape (cohorts,).

        Cohorts without any row are open too, up to the wall clock: when all partitions are silent, their rows are
        missing.

        Args:
            now_us: the stream's time, in microseconds.
            patience: returns for how many triggers each column may be silent before it has stopped, shape (columns,).
            behind_us: newest event time read of each column that is behind the clock, of others a time that never
                comes, in microseconds, shape (columns,); None where none is.
        """
        if not len(self.start_us):
            return np.empty(0)
        oldest_us = int(self.start_us[0])
        self._open_cohorts(oldest_us, now_us - (now_us - oldest_us) % self._granule_us)
        starts, totals = self.start_us, self._open.totals
        self._catch_up(behind_us)
        silent = self._waited_for(now_us, patience)
        self._catching_up[silent] = True
        forecast, place = self._forecast(), self._places(now_us)
        delivered = self._profiles.delivered_of_stream()
        usual = delivered[place]
        missing, outstanding = self._missing_of_partitions(place, forecast, silent, usual)
        expected = usual * forecast[_STREAM]
        short = expected - totals
        np.maximum(missing, short, out=missing, where=short > self._chance(expected, _STREAM))
        missing[: starts.searchsorted(self._whole_from_us or 0)] = 0
        if not missing.any() and not len(self._short_cohorts.start_us):
            return missing
        outstanding = np.minimum(outstanding, missing)
        short_of = missing - outstanding
        self._follow(now_us, usual, outstanding, short_of, delivered)
        return outstanding + self._short_cohorts.share_to_come * short_of

    def _catch_up(self, behind_us: Int64s | None) -> None:
        """Let those that were silent and are behind be silent still since the newest event time that they have sent.

        A source that was cut off sends in order what it held, so its first row does not end what is outstanding.
        """
        self._since_us = self._last_us.copy()
        if behind_us is None:
            self._catching_up[:] = False
            return
        behind_us = behind_us[: len(self._last_us)]
        self._catching_up &= behind_us < NEVER_US
        np.minimum(self._since_us, behind_us, out=self._since_us, where=self._catching_up)

    def _missing_of_partitions(
        self, place: NDArray[np.intp], forecast: Float64s, silent: NDArray[np.intp], usual: Float64s
    ) -> tuple[Float64s, Float64s]:
        """Return what partitions are short of, and how much of that is outstanding, shape (cohorts,) each.

        A stall of one partition shows in that partition first, a burst over all of them in the sum.
        """
        cohort, column, short = self._short_of_partitions(place[: np.count_nonzero(usual)], forecast)
        unsent = np.zeros(len(place))
        if not len(cohort) and not len(silent):
            return unsent, unsent.copy()
        # What is outstanding from a partition that is silent, or that has sent no row of the cohort yet.
        gone = self._open.counts[cohort, column - 1] == 0
        if len(silent):
            # Many partitions fall silent at once.
            since_us, which = np.unique(self._since_us[silent], return_inverse=True)
            bucket = delivered_bucket(since_us - self.start_us[:, None], self._trigger_us)
            then = self._profiles.places(bucket)[:, which]
            outstanding = self._profiles.outstanding(silent, since_us[which], place, then) * forecast[silent]
            number = np.full(len(forecast), -1)
            number[silent] = np.arange(len(silent))
            is_silent = number[column] >= 0
            also = outstanding[cohort[is_silent], number[column[is_silent]]]
            short[is_silent] = np.maximum(short[is_silent] - also, 0)
            unsent, gone = outstanding.sum(axis=1), gone | is_silent
        missing = unsent + np.bincount(cohort, short, len(place))
        return missing, unsent + np.bincount(cohort[gone], short[gone], len(place))

    def _places(self, now_us: int) -> NDArray[np.intp]:
        """Return the place in the profiles up to which each open cohort has been delivered by now, shape (cohorts,).

        Decisions mostly come at the same time within a cohort, and then cohorts of the same age have the same one.
        """
        starts, version = self.start_us, self._profiles.version
        newest_us = now_us - int(starts[-1])
        if self._placed != (newest_us, version) or len(starts) > len(self._place_by_age):
            age_us = newest_us + self._granule_us * np.arange(2 * len(starts) - 1, -1, -1)
            self._place_by_age = self._profiles.places(delivered_bucket(age_us, self._trigger_us))
            self._placed = newest_us, version
        return self._place_by_age[-len(starts) :]

    def _follow(
        self, now_us: int, usual: Float64s, outstanding: Float64s, short_of: Float64s, delivered: Float64s
    ) -> None:
        """Follow what becomes of the cohorts that are short although nothing is outstanding."""
        followed = delivered_bucket(now_us - self._short_cohorts.start_us, self._trigger_us)
        outstanding_us = self.start_us[outstanding > 0]
        self._short_cohorts.judge(now_us, delivered[self._profiles.places(followed)], outstanding_us)
        short = (short_of > 1) & (outstanding == 0)
        starts, totals = self.start_us[short], self._open.totals[short]
        self._short_cohorts.follow(now_us, starts, totals, usual[short], short_of[short])

    def _short_of_partitions(
        self, place: NDArray[np.intp], forecast: Float64s
    ) -> tuple[NDArray[np.intp], NDArray[np.intp], Float64s]:
        """Return cohorts, columns and by how much they are short, for partitions beyond chance, shape (short,) each.

        Whatever its age, a cohort with this many rows of a partition has enough of them. That leaves few to look at:
        the young ones, and those that are short.
        """
        enough = np.ceil(forecast - self._chance(forecast))[1:]
        counts = self._open.counts[: len(place)]
        (expecting,) = (enough > 0).nonzero()
        if not len(expecting):
            return expecting, expecting, np.empty(0)
        if len(expecting) > _DENSE * len(enough) and enough.max() <= self._open.limit:
            limit = np.maximum(enough, 0).astype(counts.dtype)
            cohort, partition = np.divmod((counts < limit).reshape(-1).nonzero()[0], len(enough))
        else:
            cohort, which = (counts[:, expecting] < enough[expecting]).nonzero()
            partition = expecting[which]
        if not len(cohort):
            return cohort, partition, np.empty(0)
        column = partition + 1
        expected = self._delivered(place[cohort], column) * forecast[column]
        short = expected - counts[cohort, partition]
        beyond = short > self._chance(expected, column)
        return cohort[beyond], column[beyond], short[beyond]

    def _silent(self, now_us: int) -> NDArray[np.intp]:
        """Return the columns of the silent partitions."""
        silence = (now_us - self._since_us[1:]) / self._trigger_us
        pace = self._forecast()[1:] * self._cohorts_per_trigger / self._unevenness.ratio[1:]
        return silent_partitions(pace * silence, silence) + 1

    def _waited_for(self, now_us: int, patience: Callable[[], Float64s]) -> NDArray[np.intp]:
        """Return the columns of the silent partitions, and forget those that have stopped."""
        silent = self._silent(now_us)
        if not len(silent):
            return silent
        silence = (now_us - self._last_us[silent]) / self._trigger_us
        stopped = silent[silence > patience()[silent]]
        if not len(stopped):
            return silent
        self._rows[_STREAM] = max(self._rows[_STREAM] - self._rows[stopped].sum(), 0)
        self._rows[stopped] = 0
        # What it sends when it returns may be a backlog, which does not show its pace.
        self._learned_from_us[stopped] = NEVER_US
        self.stopped = True
        return self._silent(now_us)

    def close(self, now_us: int, until_us: int) -> None:
        """Forget the cohorts that start before ``until_us``, and learn from them how uneven cohorts are."""
        closed = int(self.start_us.searchsorted(until_us))
        if not closed:
            return
        whole = int(self.start_us[:closed].searchsorted(self._whole_from_us or 0))
        if whole < closed:
            self._learn_unevenness(now_us, slice(whole, closed))
        self._done_us = max(self._done_us, int(self.start_us[closed - 1]))
        self._open.forget(closed)

    def _learn_unevenness(self, now_us: int, closed: slice) -> None:
        """Learn from cohorts that were seen whole; how a partition stalls says nothing of how uneven it is."""
        forecast, totals = self._forecast(), self._open.totals[closed]
        heard = ~_at(self._silent(now_us), len(forecast))
        counts = np.concatenate([totals[:, None], self._open.counts[closed]], axis=1)
        self._unevenness.add(counts, forecast, heard)

    def _forecast(self) -> Float64s:
        forecast: Float64s = self._rows / max(self._cohorts, 1e-9)
        return forecast

    def _delivered(self, place: NDArray[np.intp], column: NDArray[np.intp]) -> Float64s:
        """Return which share of its rows a cohort of a column has usually delivered up to a place, shape (pairs,)."""
        looked_at = _at(column, len(self._rows))
        row = looked_at.cumsum()[column] - 1
        share: Float64s = self._profiles.delivered(looked_at.nonzero()[0])[row, place]
        return share

    def _chance(self, expected: Float64s, column: Int64s | slice | int = _ALL) -> Float64s:
        """Return by how many rows chance alone may leave a partition short of what is expected of it."""
        chance: Float64s = MISSING_DEVIATIONS * np.sqrt(self._unevenness.ratio[column] * expected)
        return chance

    def _know_partitions(self, partitions: int) -> None:
        new = partitions + 1 - len(self._rows)
        if new > 0:
            self._profiles.widen(partitions + 1)
            self._rows = np.concatenate([self._rows, np.zeros(new)])
            self._unevenness.widen(partitions + 1)
            self._last_us = np.concatenate([self._last_us, np.zeros(new, np.int64)])
            self._since_us = np.concatenate([self._since_us, np.zeros(new, np.int64)])
            self._catching_up = np.concatenate([self._catching_up, np.zeros(new, bool)])
            self._learned_from_us = np.concatenate([self._learned_from_us, np.full(new, -NEVER_US)])
            self._stays = np.concatenate([self._stays, np.zeros(new, bool)])
            self._open.widen(partitions)

    def _open_cohorts(self, first_us: int, last_us: int) -> None:
        forgotten_us = self._open.open(first_us, last_us)
        if forgotten_us is not None:
            self._done_us = max(self._done_us, forgotten_us)
