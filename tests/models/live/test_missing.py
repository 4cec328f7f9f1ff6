"""Missing rows: streams whose rows are drawn by cohort and partition, watched trigger by trigger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.live.ages import WIDE, bucket_of
from tidemark.models.live.chance import silent_partitions
from tidemark.models.live.defaults import (
    FORECAST_HALF_LIFE,
    FUTURE_COHORTS,
    MAX_COHORTS,
    MISSING_DEVIATIONS,
    SILENT_ROWS,
    SILENT_SHARE,
)
from tidemark.models.live.missing import Missing

pytestmark = pytest.mark.slow

SECOND = 1_000_000
SPAN = 10
"""Triggers of 1 s in a span; cohorts last 1 s too."""
RATE = 80
"""Rows of each partition in a cohort."""


def patience() -> NDArray[np.float64]:
    """Return the triggers of silence after which each partition has stopped."""
    return np.full(2_000, 100.0)


NONE_BEHIND = np.zeros(1, bool)

Delays = Callable[[NDArray[np.float64], Int64s], NDArray[np.float64]]
"""Seconds by which rows are later, by their event time in seconds and their partition."""


@dataclass(frozen=True)
class Glance:
    """What a trigger showed."""

    now: int
    """Seconds."""
    start_s: Int64s
    """Open cohorts."""
    short: NDArray[np.float64]
    """Rows that each of them misses."""

    @property
    def total(self) -> float:
        return float(self.short.sum())


def on_time(event_s: NDArray[np.float64], partition: Int64s) -> NDArray[np.float64]:
    return np.zeros(len(event_s))


def watched(
    until: int,
    later: Delays = on_time,
    *,
    partitions: int = 4,
    seed: int = 1,
    ends: int | None = None,
    closes_after: int = 60,
    rates: tuple[float, ...] = (),
    missing: Missing | None = None,
) -> Iterator[Glance]:
    """Yield what each second shows of a stream whose rows come half a second late on average.

    Args:
        until: seconds watched.
        later: what is added to the delays.
        partitions: how many, unless ``rates`` tells.
        seed: seed of every draw.
        ends: second after which there are no rows any more.
        closes_after: age at which cohorts are forgotten.
        rates: rows a cohort of each partition.
        missing: what watches.
    """
    dice = np.random.default_rng(seed)
    by_partition = np.array(rates or (RATE,) * partitions)
    sizes = dice.poisson(by_partition, (ends or until, len(by_partition)))
    second, partition = (index.ravel() for index in np.indices(sizes.shape))
    event_s = np.repeat(second, sizes.ravel()) + dice.random(sizes.sum())
    part = np.repeat(partition, sizes.ravel())
    arrival = np.ceil(event_s + dice.exponential(0.5, len(event_s)) + later(event_s, part)).astype(np.int64)
    counts: dict[int, list[tuple[int, int, int]]] = {}
    table = np.column_stack([arrival, part, np.floor(event_s).astype(np.int64)])
    for (at, where, start), count in zip(*np.unique(table, axis=0, return_counts=True), strict=True):
        counts.setdefault(int(at), []).append((int(where), int(start), int(count)))
    watch = missing or Missing(SECOND, SECOND, SPAN)
    for now in range(1, until + 1):
        watch.advance(1, NONE_BEHIND)
        if now in counts:
            where, start, count = np.array(counts[now], np.int64).T
            watch.add(now * SECOND, where, start * SECOND, count)
        short = watch.shortfall(now * SECOND, patience)
        yield Glance(now, watch.start_us // SECOND, short)
        watch.close(now * SECOND, (now - closes_after) * SECOND)


def stall(begin: int, end: int, partition: int | None) -> Delays:
    """Return what a stop does: rows of one partition, or of all, that would come during it come at its end."""

    def later(event_s: NDArray[np.float64], part: Int64s) -> NDArray[np.float64]:
        hit = (event_s >= begin) & (event_s < end) & ((part == partition) | (partition is None))
        return np.where(hit, end - event_s, 0)

    return later


def every_cell(watch: Missing, now_us: int) -> NDArray[np.float64]:
    """Return what the definition says of each open cohort and each partition, without leaving any out."""
    counts = np.column_stack([watch._open.totals, watch._open.counts])
    forecast = watch._rows / watch._cohorts
    delivered = np.cumsum(watch._profiles.rows, axis=1, dtype=np.float64)
    usual = delivered / np.maximum(delivered[:, -1:], 1e-9)

    def due(at_us: int) -> NDArray[np.float64]:
        at = bucket_of((at_us - watch.start_us) / SECOND)
        return usual[:, np.where(WIDE[at], np.maximum(at - 1, 0), at)].T * forecast

    expected = due(now_us)
    short = expected - counts
    chance = MISSING_DEVIATIONS * np.sqrt(watch._unevenness.ratio * expected)
    whole = watch.start_us >= (watch._whole_from_us or 0)
    short = np.where(short > chance, short, 0)
    silence = (now_us - watch._last_us[1:]) / SECOND
    unsent = forecast[1:] / watch._unevenness.ratio[1:] * silence
    outstanding = np.where(counts == 0, short, 0)
    for column in 1 + silent_partitions(unsent, silence):
        silent = (expected - due(int(watch._last_us[column])))[:, column]
        silent = np.where(silent > SILENT_SHARE * forecast[column], silent, 0)
        outstanding[:, column] = short[:, column] = np.maximum(short[:, column], silent)
    most: NDArray[np.float64] = np.maximum(short[:, 0], short[:, 1:].sum(axis=1))
    all_outstanding: NDArray[np.float64] = outstanding[:, 1:].sum(axis=1)
    share = watch._short_cohorts.share_to_come
    return np.where(whole, all_outstanding + share * np.maximum(most - all_outstanding, 0), 0)


@pytest.mark.parametrize("rates", [(80.0, 80.0), (200.0, 20.0, 5.0, 0.5), (0.2,) * 30])
def test_every_cohort_that_is_short_is_found_though_most_are_not_looked_at(rates: tuple[float, ...]) -> None:
    watch = Missing(SECOND, SECOND, SPAN)
    found = 0.0
    for shown in watched(300, stall(100, 130, 0), rates=rates, missing=watch):
        assert shown.short == pytest.approx(every_cell(watch, shown.now * SECOND))
        found += shown.total
    assert (found > 0) == (max(rates) > 1)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_what_is_kept_from_one_trigger_to_the_next_is_what_is_found_anew(seed: int) -> None:
    """Partitions rest, return, stall and trail, alone and together; cohorts open and close."""
    dice = np.random.default_rng(seed)
    partitions, until = int(dice.integers(2, 25)), 400
    begin = dice.integers(50, until, (partitions, 3))
    begin[dice.random(partitions) < 0.4] = begin[0]
    end = begin + dice.integers(5, 120, (partitions, 3))
    sends_later = dice.random((partitions, 3)) < 0.6

    def later(event_s: NDArray[np.float64], part: Int64s) -> NDArray[np.float64]:
        late = np.where(np.random.default_rng(seed).random(len(event_s)) < 0.05, 40.0, 0.0)
        for pause in range(3):
            first, last = begin[part, pause], end[part, pause]
            inside = (event_s >= first) & (event_s < last)
            late = np.where(inside, np.where(sends_later[part, pause], last - event_s, 1e6), late)
        return late

    rates = tuple(dice.choice([0.5, 2.0, 8.0, 60.0], partitions).tolist())
    watch = Missing(SECOND, SECOND, SPAN)
    closes_after = int(dice.integers(30, 200))
    found = 0
    for shown in watched(until, later, rates=rates, seed=seed, missing=watch, closes_after=closes_after):
        # Shares are kept in single precision.
        assert shown.short == pytest.approx(every_cell(watch, shown.now * SECOND), rel=1e-5, abs=1e-5)
        found += bool(shown.total > 0)
    assert found > 20


def test_decisions_at_any_time_within_a_cohort_find_what_is_missing_then() -> None:
    """Cohorts of one age have delivered the same share, as long as decisions come at one time within a cohort."""
    watch, dice = Missing(SECOND, SECOND, SPAN), np.random.default_rng(4)
    for shown in watched(200, stall(100, 130, 0), rates=(80.0, 20.0), missing=watch):
        for later_us in np.sort(dice.integers(0, SECOND, 2)).tolist():
            now_us = shown.now * SECOND + later_us
            found = watch.shortfall(now_us, patience)
            # Shares of silent partitions are kept in single precision.
            assert found == pytest.approx(every_cell(watch, now_us), rel=1e-5, abs=1e-5)


# -- what is missing is seen ---------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [2, 4, 8])
def test_a_stall_of_one_partition_is_seen_by_the_rows_that_it_misses(partitions: int) -> None:
    """Cohort by cohort by its share of the forecast, which forgets a tenth meanwhile; when the rows come, by none."""
    shown = list(watched(560, stall(500, 540, 1), partitions=partitions))
    during = shown[510 - 1]
    whole = (during.start_s >= 501) & (during.start_s <= 506)
    assert whole.sum() == 6
    assert (during.short[whole] > 0.75 * RATE).all()
    assert (during.short[whole] < 1.15 * RATE).all()
    assert not during.short[during.start_s < 499].any()
    assert shown[550 - 1].total == 0


def test_a_stall_shows_in_its_first_seconds_long_before_its_rows_come() -> None:
    """Of 80 rows of a cohort some 40 are due at its end and nearly all a second later; chance explains 36 of them."""
    shown = list(watched(520, stall(500, 540, 0)))
    assert sum(glance.total > 0 for glance in shown[400 : 500 - 1]) <= 1
    assert all(glance.total > 0.7 * RATE for glance in shown[503 - 1 :])


def test_of_a_partition_of_few_rows_half_is_not_missed_where_chance_could_explain_it() -> None:
    """Four deviations of ten rows are more than ten rows."""

    def half(event_s: NDArray[np.float64], part: Int64s) -> NDArray[np.float64]:
        return np.where((event_s >= 500) & (part == 1) & (np.arange(len(event_s)) % 2 == 0), 30.0, 0.0)

    shown = list(watched(520, half, rates=(80.0, 10.0), seed=2))
    assert all(glance.total == 0 for glance in shown[400:])


@pytest.mark.parametrize("rate", [10.0, 2.0])
def test_but_when_it_is_silent_it_is_missed_as_soon_as_chance_no_longer_explains_it(rate: float) -> None:
    """Twelve rows unsent: a gap that long comes once in 160,000. What it would have sent since is missing."""
    shown = list(watched(530, stall(500, 540, 1), rates=(80.0, rate), seed=2))
    assert sum(glance.total > 0 for glance in shown[400 : 500 - 1]) <= 2
    seen = 500 + int(SILENT_ROWS / rate) + 4
    for glance in shown[seen:]:
        unsent = rate * (glance.now - 500)
        assert 0.5 * unsent < glance.total < 1.3 * unsent


def test_a_partition_that_is_silent_for_longer_than_anything_is_waited_for_has_stopped() -> None:
    """From then on nothing is missed, and when it returns it is new: its forecast begins again."""
    watch = Missing(SECOND, SECOND, SPAN)
    stopped = dict.fromkeys((False, True), 0)
    for glance in watched(900, stall(500, 800, 1), rates=(80.0, 40.0), missing=watch):
        if 510 <= glance.now <= 590 or glance.now > 603:
            stopped[watch.stopped] += glance.total > 0
        if glance.now in (590, 610):
            assert watch.stopped == (glance.now == 610)
    assert stopped[False] > 70
    assert stopped[True] <= 2


def test_a_burst_over_all_partitions_shows_in_their_sum() -> None:
    """Half of its rows is within the chance of each partition, but not within that of the stream."""

    def half(event_s: NDArray[np.float64], part: Int64s) -> NDArray[np.float64]:
        late = (event_s >= 500) & (event_s < 540) & (np.arange(len(event_s)) % 2 == 0)
        return np.where(late, 30.0, 0.0)

    during = list(watched(520, half, rates=(12.0,) * 12))[-1]
    whole = (during.start_s >= 500) & (during.start_s <= 515)
    found = during.short[whole]
    assert (found > 0).mean() > 0.8
    assert 0.3 * 12 * 12 < found[found > 0].mean() < 0.55 * 12 * 12


def test_partitions_of_few_rows_that_stall_together_are_missed_long_before_each_alone() -> None:
    """Five of twenty with a row a second: within ten seconds, where one alone would take twelve."""

    def five(event_s: NDArray[np.float64], part: Int64s) -> NDArray[np.float64]:
        return np.where((event_s >= 500) & (event_s < 540) & (part < 5), 540 - event_s, 0.0)

    shown = list(watched(530, five, rates=(1.0,) * 20))
    assert sum(glance.total > 0 for glance in shown[400 : 500 - 1]) <= 1
    for glance in shown[510 - 1 :]:
        assert 0.5 * 5 * (glance.now - 500) < glance.total < 1.5 * 5 * (glance.now - 500)


def test_a_silence_of_all_misses_cohorts_of_which_no_row_has_come() -> None:
    during = list(watched(512, ends=500))[-1]
    silent = (during.start_s >= 501) & (during.start_s <= 506)
    assert silent.sum() == 6
    assert (during.short[silent] > 0.7 * 4 * RATE).all()


def test_rows_that_are_not_due_yet_are_not_missing() -> None:
    """In a stall the cohort that has just begun misses nothing."""
    shown = list(watched(530, stall(500, 540, None)))
    for glance in shown[500:]:
        assert not glance.short[glance.start_s >= glance.now].any()


# -- what is not missing -------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("rates", [(2.0,), (20.0, 20.0), (0.5,) * 16, (100.0, 5.0, 1.0)])
def test_chance_alone_misses_hardly_any_cohort(rates: tuple[float, ...]) -> None:
    """Of some 4,000 cohorts of a stationary stream, each looked at every second, at most 1 in 1,000."""
    alarmed: set[int] = set()
    for glance in watched(4_000, rates=rates, seed=3, closes_after=30):
        alarmed.update(glance.start_s[glance.short > 0].tolist())
    assert len(alarmed) <= 4


def test_nothing_is_missed_while_a_stream_begins() -> None:
    """Of the cohorts that were under way a part came before, and of those before them all."""
    for seed in range(20):
        assert all(glance.total == 0 for glance in watched(30, seed=seed))


@pytest.mark.parametrize("pack", [5, 20])
def test_hardly_anything_is_missed_while_a_stream_of_packs_begins(pack: int) -> None:
    """Its cohorts are as uneven as a pack has rows, which only the first closed ones show."""
    looks = 0
    for seed in range(10):
        dice = np.random.default_rng(seed)
        watch = Missing(SECOND, SECOND, SPAN)
        for now in range(1, 120):
            watch.advance(1, NONE_BEHIND)
            rows = pack * dice.poisson(60 / pack, 4)
            sent = np.flatnonzero(rows)
            if len(sent):
                watch.add(now * SECOND, sent, np.full(len(sent), (now - 1) * SECOND), rows[sent])
            looks += bool(watch.shortfall(now * SECOND, patience).any())
            watch.close(now * SECOND, (now - 5) * SECOND)
    assert looks <= 0.03 * 10 * 120


def test_a_stream_met_in_its_midst_misses_nothing_of_what_came_before() -> None:
    """The first batch is whatever lay in the source, and says nothing of how many rows come in a trigger."""
    watch = Missing(SECOND, SECOND, SPAN)
    for now in range(100, 160):
        watch.advance(1, NONE_BEHIND)
        starts = np.arange(now - 40, now) if now == 100 else np.array([now - 1])
        watch.add(now * SECOND, 0 * starts, starts * SECOND, 0 * starts + 50)
        assert not watch.shortfall(now * SECOND, patience).any(), f"{now - 100} s after the start"


@pytest.mark.parametrize("lag", [5.0, 20.0, 47.0])
def test_a_partition_that_always_trails_is_not_missing_once_it_is_known(lag: float) -> None:
    """Its rows are due later, that is all; a false alarm holds windows for nothing."""

    def trails(event_s: NDArray[np.float64], part: Int64s) -> NDArray[np.float64]:
        return np.where(part == 0, lag, 0.0)

    alarms = [glance.now for glance in watched(1_400, trails, closes_after=120) if glance.total > 0]
    late = [now for now in alarms if now > 500]
    assert not late, f"{len(late)} alarms, from second {late[0]} on"


# -- forgetting ----------------------------------------------------------------------------------------------


def test_a_silence_ends_being_missed_as_the_forecast_forgets() -> None:
    """After ten half-lives less than a thousandth of a cohort is expected, whatever is still open."""
    memory = round(FORECAST_HALF_LIFE * SPAN)
    shown = list(watched(500 + 10 * memory, ends=500, closes_after=10_000))
    missed = [glance.total for glance in shown]
    assert missed[510 - 1] > 0
    assert max(missed[500:]) < 4 * RATE * 2 * memory
    assert missed[-1] == 0


def test_after_a_fall_of_the_rate_the_new_one_becomes_what_is_expected() -> None:
    """A stream that goes on at a third is not waited for after some six half-lives."""

    def thinned(event_s: NDArray[np.float64], part: Int64s) -> NDArray[np.float64]:
        gone = (event_s >= 500) & (np.arange(len(event_s)) % 3 > 0)
        return np.where(gone, 1e6, 0.0)

    memory = round(FORECAST_HALF_LIFE * SPAN)
    shown = list(watched(500 + 8 * memory, thinned))
    assert shown[515 - 1].total > 0
    assert all(glance.total == 0 for glance in shown[500 + 6 * memory :])


def test_what_is_short_counts_for_the_share_that_comes() -> None:
    """A third of the rows goes on: the others come 15 s later, or never, which shows after two spans."""

    def thinned(later: float) -> Delays:
        def delays(event_s: NDArray[np.float64], part: Int64s) -> NDArray[np.float64]:
            return np.where((event_s >= 500) & (np.arange(len(event_s)) % 3 > 0), later, 0.0)

        return delays

    def missing(later: float) -> float:
        (*_, last) = watched(530, thinned(later))
        return float(last.short[(last.start_s >= 520) & (last.start_s < 528)].mean())

    assert 0.5 * 4 * RATE < missing(15.0) < 4 * RATE
    assert 0.1 * missing(15.0) < missing(1e6) < 0.4 * missing(15.0)


# -- memory --------------------------------------------------------------------------------------------------


def test_no_more_cohorts_are_kept_than_stated_even_if_nothing_is_closed() -> None:
    watch = Missing(SECOND, 100 * SECOND, SPAN)
    for now in range(0, 2 * MAX_COHORTS, 100):
        watch.advance(1, NONE_BEHIND)
        starts = np.arange(now, now + 100) * SECOND
        watch.add((now + 100) * SECOND, np.zeros(100, np.int64), starts, np.full(100, 3, np.int64))
        assert len(watch.shortfall((now + 100) * SECOND, patience)) == len(watch.start_us) <= MAX_COHORTS
    assert len(watch.start_us) == MAX_COHORTS
    np.testing.assert_array_equal(np.diff(watch.start_us), SECOND)


def test_a_first_batch_that_reaches_back_a_year_keeps_the_newest_cohorts() -> None:
    year, now = 365 * 86_400, 2 * 365 * 86_400
    watch = Missing(SECOND, SECOND, SPAN)
    watch.advance(1, NONE_BEHIND)
    starts = np.array([now - year, now - 2, now - 1]) * SECOND
    watch.add(now * SECOND, np.zeros(3, np.int64), starts, np.ones(3, np.int64))
    assert len(watch.start_us) == MAX_COHORTS
    assert watch.start_us[-1] == (now - 1) * SECOND


@pytest.mark.parametrize("ahead", [86_400, FUTURE_COHORTS + 1])
def test_a_row_dated_ahead_opens_no_cohort(ahead: int) -> None:
    """Its cohort would be waited for, and all of those between."""
    watch = Missing(SECOND, SECOND, SPAN)
    for glance in watched(100, missing=watch):
        assert len(glance.start_s) <= 62
    before = watch.start_us.copy()
    watch.add(100 * SECOND, np.array([0]), np.array([(100 + ahead) * SECOND]), np.array([1]))
    np.testing.assert_array_equal(watch.start_us, before)
    assert not watch.shortfall(100 * SECOND, patience).any()


def test_rows_of_a_cohort_that_was_closed_do_not_open_it_again() -> None:
    watch = Missing(SECOND, SECOND, SPAN)
    for _ in watched(100, missing=watch):
        pass
    first = int(watch.start_us[0])
    watch.add(100 * SECOND, np.array([0]), np.array([first - 5 * SECOND]), np.array([1]))
    assert watch.start_us[0] == first


def test_a_partition_that_appears_is_learned_and_then_missed() -> None:
    """Nothing was ever forecast of it before, so nothing was missing.

    Cohorts are closed soon: one from before would be short of a forecast that has grown for a minute. The rise of the
    forecast makes the partition look uneven, so the first cohort of the stall is short by less than chance.
    """

    def appears(event_s: NDArray[np.float64], part: Int64s) -> NDArray[np.float64]:
        return np.where((part == 3) & (event_s < 300), 1e6, 0.0) + stall(700, 740, 3)(event_s, part)

    shown = list(watched(712, appears, closes_after=30))
    assert sum(glance.total > 0 for glance in shown[:690]) <= 1
    during = shown[-1]
    whole = (during.start_s >= 702) & (during.start_s <= 708)
    assert (during.short[whole] > 0.75 * RATE).all()
