"""Flink's watermarks against a literal source: split by split, tick by tick, with Flink's own idleness timer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from tidemark.models.backtest.flink import Flink
from tidemark.models.backtest.run import late_budget, meets, run, score
from tidemark.models.backtest.yardstick import fit_flink, flink_hindsight, flink_quarter
from tidemark.models.base.operators import TimeWindow
from tidemark.models.live.policy import Setup
from tidemark.models.specs.slo import Objective

from support.backtests import Row, arrivals_of, keys_of, random_rows

TRIGGER_US = 5_000
NEVER = -(2**62)


def setup_of(slots: int = 2) -> Setup:
    size = slots * TRIGGER_US
    return Setup(operator=TimeWindow(size, size), trigger_us=TRIGGER_US, target_ppm=900_000)


class Split:
    """One split: ``BoundedOutOfOrdernessWatermarks`` under ``WatermarksWithIdleness`` and its ``IdlenessTimer``."""

    def __init__(self) -> None:
        self.max_ms, self.counter, self.last_counter = NEVER, 0, 0
        self.silent_since: int | None = None
        self.idle = False

    def row(self, event_us: int) -> None:
        self.max_ms = max(self.max_ms, event_us // 1_000)
        self.counter += 1
        self.idle = False

    def emit(self, now_us: int, idle_us: int | None) -> None:
        if idle_us is None:
            return
        if self.counter != self.last_counter:
            self.last_counter, self.silent_since = self.counter, None
        elif self.silent_since is None:
            self.silent_since = now_us
        elif now_us - self.silent_since > idle_us:
            self.idle = True


def literal_flink(
    rows: list[Row], setup: Setup, flink: Flink, partitions: int
) -> tuple[Counter[int], dict[int, int]]:
    """Return the late pairs by key, and when each key came out; a tick ends just before the next one's rows."""
    tick_us = flink.tick_us or setup.trigger_us
    first, last = rows[0][1], rows[-1][1]
    assert isinstance(setup.operator, TimeWindow)
    splits = [Split() for _ in range(partitions)]
    # Flink counts a split's silence from the first tick, at which one with rows has been active.
    for split in splits:
        split.counter += 1
    watermark_ms, arrived, late, marks = NEVER, set[int](), Counter[int](), list[tuple[int, int]]()
    at, now = 0, first
    while now <= last:
        now += tick_us
        while at < len(rows) and rows[at][1] < now:
            event, _, part = rows[at]
            for key in keys_of(event, setup.operator):
                arrived.add(key)
                if key // 1_000 - 1 <= watermark_ms:
                    late[key] += 1
            splits[part].row(event)
            at += 1
        for split in splits:
            split.emit(now, flink.idle_us)
        active = [split.max_ms for split in splits if not split.idle]
        if active and min(active) > NEVER:
            watermark_ms = max(watermark_ms, min(active) - flink.bound_us // 1_000 - 1)
        marks.append((now, watermark_ms))
    return late, {
        key: next((when for when, mark in marks if key // 1_000 - 1 <= mark), now) for key in arrived
    }


@pytest.mark.parametrize("idle_ticks", [None, 0, 1, 3])
@pytest.mark.parametrize("tick_slots", [1, 2])
def test_it_is_the_literal_source_row_for_row(idle_ticks: int | None, tick_slots: int) -> None:
    late, silent = 0, 0
    for seed in range(60):
        dice = np.random.default_rng([seed, tick_slots, idle_ticks or 9])
        partitions = int(dice.integers(1, 5))
        rows = random_rows(dice, int(dice.integers(5, 80)), 40 * TRIGGER_US, 3 * TRIGGER_US, partitions)
        tick_us = tick_slots * TRIGGER_US
        # A timeout between two ticks counts as the lower one.
        idle_us = None if idle_ticks is None else idle_ticks * tick_us + int(dice.integers(1, tick_us))
        flink = Flink(int(dice.integers(0, 8)) * 1_000, idle_us, tick_us)
        setup = setup_of()
        arrivals = arrivals_of(rows, setup, partitions)
        found = run(arrivals, setup, flink)
        expected_late, expected_emitted = literal_flink(rows, setup, flink, partitions)
        keys = arrivals.keys_us.tolist()
        assert {
            key: n for key, n in zip(keys, found.late_by_key.tolist(), strict=True) if n
        } == expected_late, seed
        assert dict(zip(keys, found.emit_wall_us.tolist(), strict=True)) == expected_emitted, seed
        late += found.late
        silent += len(found.slot) > len(arrivals.occupied)
    assert late > 20
    assert silent > 5 or idle_ticks is None, "a timeout that never passes would prove little"


def test_the_mode_does_not_change_it() -> None:
    rows = random_rows(np.random.default_rng(4), 300, 60 * TRIGGER_US, 3 * TRIGGER_US, 3)
    found = []
    for setup in (
        setup_of(),
        replace(setup_of(), mode="restart"),
    ):
        ran = run(arrivals_of(rows, setup, 3), setup, Flink(1_000, 2 * TRIGGER_US))
        found.append((ran.late, ran.emit_wall_us.tolist()))
    assert found[0] == found[1]
    assert found[0][0] > 0


def test_a_tick_that_is_no_whole_number_of_triggers_is_rejected_with_the_way_out() -> None:
    rows = random_rows(np.random.default_rng(4), 30, 60 * TRIGGER_US, TRIGGER_US, 2)
    with pytest.raises(
        ValueError, match="Flink's tick of 7 ms must be a whole multiple of the trigger, 5 ms"
    ):
        run(arrivals_of(rows, setup_of(), 2), setup_of(), Flink(tick_us=7_000))


@pytest.mark.parametrize(
    "seeds", [range(4), pytest.param(range(4, 25), marks=pytest.mark.soak)], ids=["few", "many"]
)
@pytest.mark.parametrize("objective", ["occurrences", "timeslices"])
def test_hindsight_meets_the_target_and_no_bound_with_a_timeout_tried_is_faster(
    objective: Objective, seeds: range
) -> None:
    for seed in seeds:
        dice = np.random.default_rng([7, seed])
        rows = random_rows(dice, 120, 60 * TRIGGER_US, 4 * TRIGGER_US, 3)
        setup = replace(setup_of(), objective=objective, good_windows_ppm=800_000)
        arrivals = arrivals_of(rows, setup, 3)
        flink, found = flink_hindsight(arrivals, setup)
        assert meets(setup, found)
        assert found.latency_mean_us is not None
        for idle_us in (None, TRIGGER_US, 2 * TRIGGER_US, 4 * TRIGGER_US):
            for bound_us in range(0, 30_000, 1_000):
                other = score(arrivals, setup, run(arrivals, setup, Flink(bound_us, idle_us)))
                assert other.latency_mean_us is not None
                assert not meets(setup, other) or other.latency_mean_us >= found.latency_mean_us, (
                    seed,
                    flink,
                )


def test_what_is_fitted_to_the_first_quarter_knows_nothing_of_the_rest() -> None:
    dice = np.random.default_rng(2)
    rows = random_rows(dice, 400, 80 * TRIGGER_US, 4 * TRIGGER_US, 3)
    setup = setup_of()
    arrivals = arrivals_of(rows, setup, 3)
    quarter = rows[0][1] + arrivals.slots // 4 * TRIGGER_US
    later = [
        (event - 5 * TRIGGER_US, arrival, part)
        if arrival >= quarter + 10 * TRIGGER_US
        else (event, arrival, part)
        for event, arrival, part in rows
    ]
    changed = arrivals_of(later, setup, 3)
    fitted = flink_quarter(arrivals, setup)
    assert fitted == flink_quarter(changed, setup) == fit_flink(arrivals, setup, arrivals.slots // 4)
    assert fitted != flink_hindsight(changed, setup)[0]
    in_quarter = run(arrivals, setup, fitted)
    late = (
        arrivals.key_us
        <= np.repeat(in_quarter.late_watermark_us[np.searchsorted(in_quarter.slot, arrivals.slot)], 1)
    ) & (arrivals.slot < arrivals.slots // 4)
    pairs = int(arrivals.count[arrivals.slot < arrivals.slots // 4].sum())
    assert arrivals.count[late].sum() <= late_budget(setup, pairs)
