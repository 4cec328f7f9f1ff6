"""The look-back that is chosen, against runs that are replayed one by one on the rows of a small table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from tidemark.controller.lab.lookback.choose import Cells, LoadHistory, cheapest, reading, smallest
from tidemark.models.base.target import PPM

HOUR = 3_600_000_000
DAY = 24 * HOUR
TARGET_PPM = 950_000


class Rows(NamedTuple):
    event_us: NDArray[np.int64]
    loaded_us: NDArray[np.int64]


def some_rows(seed: int, days: int = 30) -> Rows:
    """Return rows of which most are loaded within the day, some in the next days and a few after a week."""
    random = np.random.default_rng(seed)
    event = random.integers(0, days * DAY, days * 40)
    kind = random.random(len(event))
    late = np.where(kind < 0.6, random.uniform(0, DAY, len(event)), random.uniform(0, 4 * DAY, len(event)))
    return Rows(
        event,
        event + np.where(kind > 0.97, random.uniform(6 * DAY, 8 * DAY, len(event)), late).astype(np.int64),
    )


def history_of(rows: Rows, at_us: int = 0, target_ppm: int = TARGET_PPM) -> LoadHistory:
    cells = Cells(DAY, at_us)
    for part in range(0, len(rows.event_us), 100):
        cells.add(rows.event_us[part : part + 100], rows.loaded_us[part : part + 100])
    return LoadHistory.of(cells, target_ppm)


class Replay(NamedTuple):
    kept: int
    """Rows of the judged periods that there are after the last run."""
    read: int
    """Rows of theirs that all runs have read."""
    meanwhile: float
    """The least share of the rows loaded so far, over the ages that all judged periods have reached, and at the end."""


def replay(rows: Rows, history: LoadHistory, periods: Iterable[int], at_us: int) -> Replay:
    """Run each day, read some past days of what is loaded by then, and replace what there is of them."""
    day = rows.event_us // DAY
    there: Counter[int] = Counter()
    had, loaded = Counter[int](), Counter[int]()
    read = 0
    for run in range(history.first, int(rows.loaded_us.max() // DAY) + 2):
        is_loaded = rows.loaded_us <= run * DAY + at_us
        for period in range(history.first, history.end):
            rows_now = int((is_loaded & (day == period)).sum())
            if run - period in set(periods):
                there[period] = rows_now
                read += rows_now
            if 0 <= run - period <= history.reach:
                had[run - period] += there[period]
                loaded[run - period] += rows_now
    shares = [had[age] / loaded[age] for age in loaded if loaded[age]]
    return Replay(there.total(), read, min(*shares, there.total() / history.total))


@pytest.mark.parametrize(("seed", "at_us"), [(1, 0), (2, 0), (3, 3 * HOUR), (4, 23 * HOUR)])
def test_the_look_back_is_the_smallest_that_keeps_the_target_when_runs_are_replayed(
    seed: int, at_us: int
) -> None:
    rows = some_rows(seed)
    history = history_of(rows, at_us)
    day = rows.event_us // DAY
    total = int(((day >= history.first) & (day < history.end)).sum())
    kept = [replay(rows, history, range(back + 1), at_us).kept for back in range(history.reach + 1)]

    needed = math.ceil(total * TARGET_PPM / PPM)
    assert smallest(history, needed) == next(back for back, rows in enumerate(kept) if rows >= needed)
    assert (history.total, history.within.tolist()) == (total, kept)
    assert [smallest(history, rows) for rows in kept] == [kept.index(rows) for rows in kept]


@pytest.mark.parametrize(("seed", "at_us"), [(1, 0), (3, 3 * HOUR)])
def test_what_a_set_of_periods_keeps_and_costs_is_what_its_replay_does(seed: int, at_us: int) -> None:
    rows = some_rows(seed)
    history = history_of(rows, at_us)
    for periods in ((0, 1, 2, 3), (0, 1, 6), (0, 2, 3, 7), (0,)):
        replayed, found = replay(rows, history, periods, at_us), reading(history, periods, 1.0, 0.95)
        assert found.kept_ppm == replayed.kept * PPM // history.total
        assert found.rows_a_run == round(replayed.read / (history.end - history.first))
        assert found.reads_a_row == pytest.approx(replayed.read / history.total)
        assert found.meanwhile_ppm == math.floor(replayed.meanwhile * PPM)


@pytest.mark.parametrize(("seed", "target_ppm"), [(1, 950_000), (2, 980_000), (3, 900_000), (5, 990_000)])
def test_no_set_of_periods_that_keeps_the_target_at_every_age_costs_less(seed: int, target_ppm: int) -> None:
    rows = some_rows(seed)
    history = history_of(rows, target_ppm=target_ppm)
    back = smallest(history, math.ceil(history.total * target_ppm / PPM))
    assert back is not None

    def cost(periods: Sequence[int]) -> int:
        return int(history.within[list(periods)].sum())

    every_set = (
        (0, *more)
        for size in range(history.reach + 1)
        for more in combinations(range(1, history.reach + 1), size)
    )
    keep = [
        periods
        for periods in every_set
        if periods[-1] >= back and reading(history, periods, 1.0, 0.95).meanwhile_ppm >= target_ppm
    ]
    chosen = cheapest(history, target_ppm, back)
    assert replay(rows, history, chosen, 0).meanwhile * PPM >= target_ppm
    assert cost(chosen) == min(map(cost, keep))


def test_a_copied_history_and_periods_that_are_not_over_do_not_count() -> None:
    """The copy of old rows would look like delays of weeks, and the newest day like one that has no late rows."""
    rows = some_rows(7)
    old = np.arange(-40 * DAY, 0, HOUR)
    copied = Rows(np.concatenate([old, rows.event_us]), np.concatenate([np.zeros_like(old), rows.loaded_us]))
    history = history_of(copied)

    assert history.first == 0
    assert history.before == len(old)
    assert history.end + history.reach == int(rows.loaded_us.max() // DAY) + 1
    assert history.total + history.newest == len(rows.event_us)


def test_rows_loaded_together_are_one_event() -> None:
    """A day that is loaded a week late every month proves no more than one late row a month would."""
    days = np.repeat(np.arange(90), 200)
    event = days * DAY + np.tile(np.arange(200), 90) * 60_000_000
    alone = np.where(np.arange(len(event)) % 30 == 7, 7 * DAY, HOUR)
    together = np.where(days % 30 == 7, 7 * DAY, HOUR)
    single, packed = (history_of(Rows(event, event + late)) for late in (alone, together))

    assert single.rows_per_event(TARGET_PPM) < 2
    assert packed.rows_per_event(TARGET_PPM) > 100


def test_cells_add_up_in_any_parts_and_their_number_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = some_rows(9)
    whole, parts = Cells(DAY, 0), Cells(DAY, 0)
    whole.add(*rows)
    monkeypatch.setattr("tidemark.controller.lab.lookback.choose._MOST_CELLS", 400)
    for first in range(0, len(rows.event_us), 7):
        parts.add(rows.event_us[first : first + 7], rows.loaded_us[first : first + 7])
    assert [each.tolist() for each in parts.counts()] == [each.tolist() for each in whole.counts()]

    monkeypatch.setattr("tidemark.controller.lab.lookback.choose._MOST_CELLS", 40)
    with pytest.raises(
        ValueError,
        match="more than 40 pairs of a run and a period: a longer --every has fewer",
    ):
        Cells(DAY, 0).add(*rows)
