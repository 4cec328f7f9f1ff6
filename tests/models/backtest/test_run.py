"""The replay of the backtest against slow, literal simulations of it, and the rules one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tidemark.models.backtest.run import BacktestRun, run, run_native
from tidemark.models.backtest.spark import NO_BOUND_US
from tidemark.models.base.operators import Operator, RowLevel, SessionWindow, TimeWindow
from tidemark.models.evidence.curve import Curve, batches_of_slots, replay_spark
from tidemark.models.live.policy import NO_BASE_US, BacktestMode, Decision, Observation, Setup

from support.backtests import (
    Fixed,
    Recorder,
    Row,
    arrivals_of,
    assert_same,
    literal_live,
    literal_native,
    literal_restart,
    random_rows,
)

pytestmark = pytest.mark.slow

MS = 1_000
SLOT = 20 * MS
OPERATORS: tuple[Operator, ...] = (
    TimeWindow(SLOT, SLOT),
    TimeWindow(2 * SLOT, 2 * SLOT, 3 * MS),
    TimeWindow(3 * SLOT, 2 * SLOT),
    SessionWindow(7 * MS),
    RowLevel(),
)
KINDS = (("bound",), ("watermark",), ("bound", "watermark"))


def setup_of(**changes: Any) -> Setup:
    given: dict[str, Any] = {"operator": TimeWindow(SLOT, SLOT), "trigger_us": SLOT, "target_ppm": 900_000}
    return Setup(**{**given, **changes})


def cases(count: int) -> list[tuple[int, list[Row], Setup, int]]:
    """Seeded traces: dense ones and sparse ones, one to three partitions, every operator."""
    found = []
    for seed in range(count):
        dice = np.random.default_rng([7, seed])
        partitions = int(dice.integers(1, 4))
        slots = int(dice.integers(1, 40))
        rows = random_rows(dice, int(dice.integers(1, 30)), slots * SLOT, 3 * SLOT, partitions)
        setup = setup_of(
            operator=OPERATORS[seed % len(OPERATORS)],
            restart_cost_us=int(dice.integers(0, 4)) * SLOT + int(dice.integers(0, 2)),
        )
        found.append((seed, rows, setup, partitions))
    return found


def test_under_a_constant_bound_spark_does_what_the_literal_simulation_does() -> None:
    for seed, rows, setup, partitions in cases(100):
        bound = int(np.random.default_rng(seed).integers(0, 90)) * MS
        arrivals = arrivals_of(rows, setup, partitions)

        found = run(arrivals, setup, Fixed(bound))

        outcome = literal_native(rows, setup, bound, partitions)
        assert_same(arrivals, found, outcome)
        assert found.bound_us.tolist() == outcome.bounds
        assert found.rows.sum() == len(rows)


def test_under_a_live_control_spark_does_what_the_literal_simulation_does() -> None:
    for seed, rows, setup, partitions in cases(140):
        kinds = KINDS[seed // len(OPERATORS) % len(KINDS)]
        asked, expected = (Recorder(seed, kinds, 4 * SLOT) for _ in range(2))
        arrivals = arrivals_of(rows, setup, partitions)

        found = run(arrivals, setup, asked)

        outcome = literal_live(rows, setup, expected, partitions)
        assert asked.story == expected.story
        assert_same(arrivals, found, outcome)


def test_with_restarts_spark_does_what_the_literal_simulation_does() -> None:
    restarts = 0
    for seed, rows, live, partitions in cases(140):
        setup = replace(live, mode="restart")
        asked, expected = (Recorder(seed, ("bound",), 4 * SLOT) for _ in range(2))
        arrivals = arrivals_of(rows, setup, partitions)

        found = run(arrivals, setup, asked)

        outcome = literal_restart(rows, setup, expected, partitions)
        assert asked.story == expected.story
        assert_same(arrivals, found, outcome)
        assert found.bound_us.tolist() == [NO_BOUND_US if b is None else b for b in outcome.bounds]
        restarts += found.bound_changes
    assert restarts > 140


def test_the_completeness_curve_of_the_replay_is_met_by_every_constant_bound() -> None:
    for seed, rows, setup, partitions in cases(100):
        event, arrival, _ = np.array(rows).T
        batch, wall = batches_of_slots(event, arrival, setup.trigger_us)
        curve = Curve.of_replay(replay_spark(event, batch, wall, setup.operator), setup.operator)
        arrivals = arrivals_of(rows, setup, partitions)
        for bound in (0, 10 * MS, (seed % 70) * MS):
            found, point = run_native(arrivals, setup, bound), curve.at(bound)
            assert (found.late, found.rows_by_key.sum()) == (point.late, point.rows)
            if point.latency_wall is not None and not point.latency_wall.censored:
                latency = np.maximum(found.emit_wall_us - arrivals.keys_us, 0)
                measured = latency[np.argsort(arrivals.keys_us)][: point.windows_emitted].mean()
                assert measured == pytest.approx(point.latency_wall.measured_us)


class Constant(Fixed):
    """A constant bound that is decided anew each time, not left to Spark."""

    native = False

    def observe(self, seen: Observation) -> None:
        pass


def test_a_restarted_query_whose_bound_never_changes_is_a_native_one() -> None:
    for seed, rows, setup, partitions in cases(100):
        bound = (seed % 50) * MS
        arrivals = arrivals_of(rows, setup, partitions)
        native, decided = (
            run(arrivals, replace(setup, mode="restart"), policy)
            for policy in (Fixed(bound), Constant(bound))
        )
        assert_equal(native, decided)


def assert_equal(one: BacktestRun, other: BacktestRun) -> None:
    for name in BacktestRun.__slots__:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)


@pytest.mark.parametrize("mode", ["live", "restart"])
def test_what_is_cut_off_a_trace_changes_nothing_before_the_cut(mode: BacktestMode) -> None:
    for seed, rows, whole, partitions in cases(20):
        setup = replace(whole, mode=mode)
        kinds = ("bound",) if mode == "restart" else KINDS[seed % len(KINDS)]
        shown = Recorder(seed, kinds, 4 * SLOT)
        full = run(arrivals_of(rows, setup, partitions), setup, shown)
        for length in range(1, len(rows)):
            # What comes later may bring partitions of which nothing was known.
            arrivals = arrivals_of(rows[:length], setup, 1 + max(part for _, _, part in rows[:length]))
            if (rows[length][1] - rows[0][1]) // SLOT == arrivals.slots - 1:
                continue  # cut inside a slot
            asked = Recorder(seed, kinds, 4 * SLOT)
            cut = run(arrivals, setup, asked)
            until = arrivals.first_us + arrivals.slots * SLOT
            story = [what for what in asked.story if what[1] <= until]
            assert story == shown.story[: len(story)]
            for name in ("slot", "watermark_us", "late_watermark_us", "rows", "bound_us"):
                before = getattr(cut, name)[cut.slot < arrivals.slots]
                np.testing.assert_array_equal(before, getattr(full, name)[: len(before)], err_msg=name)


class Script:
    """Decides what is written down for each slot."""

    native = False

    def __init__(self, decisions: dict[int, Decision]) -> None:
        self.decisions = decisions
        self.asked: list[int] = []
        self.seen: list[Observation] = []

    def observe(self, seen: Observation) -> None:
        self.seen.append(seen)

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - a policy's signature
        self.asked.append(now_us)
        return self.decisions.get(len(self.asked) - 1, Decision())


def row_in_slot(slot: int, event_us: int, partition: int = 0) -> Row:
    return (event_us, slot * SLOT, partition)


def test_what_is_required_at_the_end_of_a_slot_is_in_force_in_the_next_one() -> None:
    setup = setup_of()
    rows = [row_in_slot(slot, slot * SLOT) for slot in range(5)]
    policy = Script({0: Decision(watermark_us=20_999)})
    found = run(arrivals_of(rows, setup, 1), setup, policy)

    assert found.watermark_us.tolist() == [NO_BASE_US, 20_000, 20_000, 20_000, 20_000]
    assert found.late_watermark_us.tolist() == [NO_BASE_US, NO_BASE_US, 20_000, 20_000, 20_000]


def test_a_watermark_that_closes_nothing_waits_until_it_does() -> None:
    setup = setup_of()
    rows = [row_in_slot(slot, slot * SLOT) for slot in range(6)]
    policy = Script({0: Decision(watermark_us=19_000), 2: Decision(watermark_us=21_000)})
    found = run(arrivals_of(rows, setup, 1), setup, policy)

    assert found.watermark_us.tolist() == [*[NO_BASE_US] * 3, 21_000, 21_000, 21_000]


def test_live_never_takes_the_watermark_back() -> None:
    setup = setup_of()
    rows = [row_in_slot(slot, 0) for slot in range(6)]
    policy = Script({0: Decision(watermark_us=29_000), 1: Decision(watermark_us=22_000)})
    found = run(arrivals_of(rows, setup, 1), setup, policy)

    assert found.watermark_us.tolist() == [NO_BASE_US, *[29_000] * 5]


def test_an_idle_job_gets_a_batch_only_when_it_closes_something() -> None:
    setup = setup_of()
    rows = [row_in_slot(0, 100), row_in_slot(12, 300)]
    # Asked in slots 0, 1, ..: at first short of the only key (20 ms), then, in slot 5, at it.
    policy = Script({0: Decision(watermark_us=19_000), 5: Decision(watermark_us=20_000)})
    found = run(arrivals_of(rows, setup, 1), setup, policy)

    # Slot 6 has the batch that closes the window; nothing waits from then on.
    assert list(zip(found.slot.tolist(), found.watermark_us.tolist(), strict=True)) == [
        (0, NO_BASE_US),
        (6, 20_000),
        (12, 20_000),
    ]
    assert len(policy.asked) == 8


class Clock:
    """Moves the watermark with the clock."""

    native = False

    def __init__(self, behind_us: int) -> None:
        self._behind_us = behind_us

    def observe(self, seen: Observation) -> None:
        pass

    def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - a policy's signature
        return Decision(watermark_us=now_us - self._behind_us)


def test_a_watermark_that_follows_the_clock_brings_no_batch_into_idle_slots_where_nothing_closes() -> None:
    setup = setup_of()
    rows = [row_in_slot(slot, slot * SLOT + 100) for slot in range(0, 2_000, 50)]
    arrivals = arrivals_of(rows, setup, 1)

    found = run(arrivals, setup, Clock(3 * SLOT))

    # Each row's own batch, and one more that closes the window. After the last no time is left to decide.
    assert len(found.slot) == 2 * len(rows) - 1
    assert (found.emit_wall_us - arrivals.keys_us)[:-1].tolist() == [4 * SLOT] * (len(rows) - 1)


def test_no_window_is_closed_later_because_idle_batches_leave_the_watermark_alone() -> None:
    held, spared = 0, 0
    for seed, rows, setup, partitions in cases(100):
        clock = Clock(int(np.random.default_rng(seed).integers(0, 6 * SLOT)))
        arrivals = arrivals_of(rows, setup, partitions)

        found = run(arrivals, setup, clock)

        assert_same(arrivals, found, literal_live(rows, setup, clock, partitions))
        every = literal_live(rows, setup, clock, partitions, every_move=True)
        assert len(found.slot) <= len(every.batches)
        assert len(found.slot) <= 2 * (len(arrivals.occupied) + len(arrivals.keys_us))
        assert found.late <= every.late.total()
        spared += len(every.batches) - len(found.slot)
        emitted = dict(zip(arrivals.keys_us.tolist(), found.emit_wall_us.tolist(), strict=True))
        first = dict(zip(arrivals.keys_us[arrivals.key_index][::-1], arrivals.slot[::-1], strict=True))
        for key, wall in every.emitted.items():
            # Of keys that waited: neither closed as they came nor left open at the end.
            if wall >= arrivals.first_us + (first[key] + 3) * SLOT and every.batches[-1][1] >= key:
                assert emitted[key] == wall
                held += 1
    assert held > 500
    assert spared > 100


def test_a_batch_of_several_slots_shows_one_count_for_each_partition_granule_and_key() -> None:
    setup = setup_of(mode="restart", restart_cost_us=3 * SLOT)
    rows = [row_in_slot(0, 50_000), *(row_in_slot(slot, 50_000, slot % 2) for slot in range(1, 7))]
    policy = Script({1: Decision(bound_us=0)})  # the first was asked for before any batch
    found = run(arrivals_of(rows, setup, 2), setup, policy)

    assert found.rows.tolist()[:2] == [1, 3]
    columns = policy.seen[1].partition, policy.seen[1].event_us, policy.seen[1].key_us, policy.seen[1].count
    assert [column.tolist() for column in columns] == [[0, 1], [50_000] * 2, [60_000] * 2, [1, 2]]


def test_after_the_last_arrival_only_what_was_decided_runs_out() -> None:
    setup = setup_of()
    rows = [row_in_slot(0, 100)]
    found = run(arrivals_of(rows, setup, 1), setup, policy := Script({0: Decision(watermark_us=20_000)}))

    assert list(zip(found.slot.tolist(), found.watermark_us.tolist(), strict=True)) == [
        (0, NO_BASE_US),
        (1, 20_000),
    ]
    assert len(policy.asked) == 1


def test_a_restart_loses_the_base_and_the_no_data_batch_but_not_the_move_of_the_watermark() -> None:
    setup = setup_of(mode="restart", restart_cost_us=2 * SLOT)
    rows = [row_in_slot(slot, 50_000 + slot * 1_000) for slot in range(8)]
    policy = Script({0: Decision(bound_us=0), 3: Decision(bound_us=20_000)})
    found = run(arrivals_of(rows, setup, 1), setup, policy)

    assert list(zip(found.slot.tolist(), found.watermark_us.tolist(), found.rows.tolist(), strict=True)) == [
        (0, NO_BASE_US, 1),
        (1, 50_000, 1),
        (2, 51_000, 1),  # asked for the fourth time: the bound changes
        (4, 52_000, 2),  # slot 3 waits for the restart, and what slot 2 moved comes back from the checkpoint
        (5, 52_000, 1),
        (6, 52_000, 1),
        (7, 52_000, 1),
    ]
    assert found.bound_changes == 1
    assert found.bound_us.tolist() == [0] * 3 + [20_000] * 4


def test_the_first_bound_after_the_start_costs_a_restart_too() -> None:
    setup = setup_of(mode="restart", restart_cost_us=3 * SLOT)
    rows = [row_in_slot(slot, 50_000 + slot * 1_000) for slot in range(6)]
    found = run(arrivals_of(rows, setup, 1), setup, Script({2: Decision(bound_us=1)}))

    assert list(zip(found.slot.tolist(), found.watermark_us.tolist(), strict=True)) == [
        (0, NO_BASE_US),
        (1, NO_BASE_US),
        (4, NO_BASE_US),
        (5, 53_000),
        (6, 54_000),
    ]
    assert found.bound_us.tolist() == [NO_BOUND_US] * 2 + [1_000] * 3


def test_a_plan_refuses_what_only_a_live_control_can_do() -> None:
    setup = setup_of(mode="restart")
    with pytest.raises(ValueError, match="only mode 'live' can"):
        run(arrivals_of([row_in_slot(0, 5)], setup, 1), setup, Script({1: Decision(watermark_us=5)}))


def test_a_native_policy_without_a_bound_is_rejected() -> None:
    class Mute(Fixed):
        def decide(self, now_us: int, in_force_us: int) -> Decision:  # noqa: ARG002 - a policy's signature
            return Decision()

    setup = setup_of()
    with pytest.raises(ValueError, match="native policy gives its bound before the first batch"):
        run(arrivals_of([row_in_slot(0, 5)], setup, 1), setup, Mute(0))


def test_a_decision_that_says_two_things_is_rejected() -> None:
    setup = setup_of()
    with pytest.raises(ValueError, match="not both"):
        run(
            arrivals_of([row_in_slot(0, 5)], setup, 1),
            setup,
            Script({0: Decision(bound_us=5, watermark_us=5)}),
        )


def test_a_bound_that_changes_is_counted_and_a_watermark_that_moves_is_not() -> None:
    setup = setup_of()
    arrivals = arrivals_of([row_in_slot(slot, slot) for slot in range(6)], setup, 1)
    bounds = Script({0: Decision(bound_us=5), 1: Decision(bound_us=5), 2: Decision(bound_us=9)})
    marks = Script({slot: Decision(watermark_us=slot) for slot in range(6)})

    assert run(arrivals, setup, bounds).bound_changes == 1
    assert run(arrivals, setup, marks).bound_changes == 0


def test_the_lag_under_a_constant_bound_is_the_bound() -> None:
    setup = setup_of()
    arrivals = arrivals_of([row_in_slot(slot, slot * 2_345) for slot in range(6)], setup, 1)

    assert set(run_native(arrivals, setup, 7_000).base_lag_us.tolist()) == {7_000}


def test_spark_rounds_a_bound_up_to_whole_milliseconds_and_knows_none_below_0() -> None:
    setup = setup_of()
    arrivals = arrivals_of([row_in_slot(slot, slot * 2_345) for slot in range(6)], setup, 1)

    assert set(run_native(arrivals, setup, 6_001).bound_us.tolist()) == {7_000}
    assert set(run_native(arrivals, setup, -5_000).bound_us.tolist()) == {0}


def test_the_progress_of_a_run_is_reported_batch_by_batch() -> None:
    setup = setup_of()
    body: list[int] = []
    arrivals = arrivals_of([row_in_slot(slot, 5) for slot in (0, 3, 9)], setup, 1)
    run(arrivals, setup, Script({0: Decision(watermark_us=20_000)}), body.append)

    assert body == [0, 1, 3, 9]  # slot 1 has the no-data batch that the decision of slot 0 brings
