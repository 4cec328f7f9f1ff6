"""The live policy through the backtest: what holds for every stream, whatever its numbers are tuned to."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.catalogue import make_policy
from tidemark.models.backtest.run import BacktestRun, BacktestScore, meets, run, score
from tidemark.models.backtest.yardstick import clairvoyant, fixed_hindsight
from tidemark.models.base.operators import Int64s, RowLevel, session, sliding, tumbling
from tidemark.models.live import cycles
from tidemark.models.live.defaults import (
    LONGEST_HOLD_MARGIN,
    LONGEST_HOLD_SPANS,
    LONGEST_HOLD_SPANS_AFTER_STOP,
)
from tidemark.models.live.policy import NO_BASE_US, Decision, Observation, Setup
from tidemark.models.live.tidemark import Tidemark
from tidemark.models.specs.slo import Objective

from support.seen import drawn_batches
from support.short_streams import counted, setup, short_trace
from support.soak import with_soak
from support.synthetic import KINDS, Trace, synthetic

pytestmark = pytest.mark.slow

SECOND = 1_000_000
DAY_US = 86_400 * SECOND
TICK_US = 1_000
SPAN = 10
"""Windows of 10 s at a trigger of one: a span is ten triggers."""
LIVE_DELAY = 3
"""Triggers from a decision to the batch that emits under it, at most."""


def timeline(trace: Trace, asked: Setup | None = None) -> tuple[Int64s, Int64s]:
    """Return the slot of each batch and the watermark in force in it."""
    asked = asked or setup()
    found = run(counted(trace, asked), asked, Tidemark(asked))
    return found.slot, found.watermark_us


@cache
def short_timeline(kind: str) -> tuple[Int64s, Int64s]:
    """Return the timeline of the short trace of a kind."""
    return timeline(short_trace(kind))


def part(trace: Trace, rows: slice | NDArray[np.bool_]) -> Trace:
    return Trace(trace.event_time_us[rows], trace.arrival_time_us[rows], trace.partition[rows])


def with_row(trace: Trace, at: int, event_us: int) -> Trace:
    """Return the trace with one more row, which arrives with row ``at``."""
    return Trace(
        np.insert(trace.event_time_us, at, event_us),
        np.insert(trace.arrival_time_us, at, trace.arrival_time_us[at]),
        np.insert(trace.partition, at, trace.partition[at]),
    )


# -- what it may depend on -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind", with_soak(["bursts", "night", "stationary", "stalls", "slow"], {"stationary", "stalls", "slow"})
)
def test_a_trace_that_is_cut_short_is_decided_alike_up_to_the_cut(kind: str) -> None:
    """No decision knows anything of what comes after it."""
    trace = short_trace(kind)
    slots, marks = short_timeline(kind)
    assert len(set(marks.tolist())) > 20, "a watermark that does not move would prove nothing"
    first = int(trace.arrival_time_us[0])
    for share in (0.05, 0.4, 0.9):
        rows = int(share * len(trace.arrival_time_us))
        cut = (int(trace.arrival_time_us[rows]) - first) // SECOND
        before = part(trace, slice(np.searchsorted(trace.arrival_time_us, first + cut * SECOND)))
        cut_slots, cut_marks = timeline(before)
        until = min(int(before.arrival_time_us[-1] - first) // SECOND + 1, cut)
        assert cut_slots[cut_slots < until].tolist() == slots[slots < until].tolist()
        assert cut_marks[cut_slots < until].tolist() == marks[slots < until].tolist()


@pytest.mark.parametrize(
    "kind", with_soak(["bursts", "night", "stationary", "stalls"], {"stationary", "stalls"})
)
def test_a_thousand_times_as_long_is_decided_a_thousand_times_as_late(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing in the policy has a unit of its own but Spark's millisecond, and the hour, day and week."""
    scale, trace = 1_000, short_trace(kind)
    slots, marks = short_timeline(kind)
    monkeypatch.setattr(cycles, "PERIODS_US", [scale * period_us for period_us in cycles.PERIODS_US])
    longer = Trace(trace.event_time_us * scale, trace.arrival_time_us * scale, trace.partition)
    long_slots, long_marks = timeline(longer, setup(scale=scale))
    known = marks > NO_BASE_US
    assert long_slots.tolist() == slots.tolist()
    assert (long_marks > NO_BASE_US).tolist() == known.tolist()
    assert known.sum() > 200
    assert (np.abs(long_marks[known] - marks[known] * scale) <= scale * TICK_US).all()


class Recorder:
    """The live policy, and what it was shown and asked."""

    native = False

    def __init__(self) -> None:
        self._policy = Tidemark(setup())
        self.asked: list[Observation | tuple[int, int]] = []

    def observe(self, seen: Observation) -> None:
        self.asked.append(seen)
        self._policy.observe(seen)

    def decide(self, now_us: int, in_force_us: int) -> Decision:
        self.asked.append((now_us, in_force_us))
        return self._policy.decide(now_us, in_force_us)


def answers(asked: list[Observation | tuple[int, int]]) -> list[int | None]:
    """Return what a fresh policy decides when it is shown and asked the same."""
    policy, found = Tidemark(setup()), []
    for one in asked:
        if isinstance(one, Observation):
            policy.observe(one)
        else:
            found.append(policy.decide(*one).watermark_us)
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "where"), [("stationary", 0.002), ("bursts", 0.5), ("stalls", 0.8), ("slow", 0.3)]
)
def test_one_row_dated_a_day_ahead_changes_no_watermark(kind: str, where: float) -> None:
    """It moves neither base nor forecast nor account: the honest rows are judged as if it were not there."""
    trace = short_trace(kind)
    at = int(where * len(trace.event_time_us))
    odd = with_row(trace, at, int(trace.event_time_us[at]) + DAY_US)
    slots, marks = short_timeline(kind)
    odd_slots, odd_marks = timeline(odd)
    np.testing.assert_array_equal(odd_slots, slots)
    np.testing.assert_array_equal(odd_marks, marks)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["heavy", "night"])
def test_nor_does_it_where_batches_without_rows_are_between(kind: str) -> None:
    """There the job itself asks more often, for it has a window open; so the policy alone is compared."""
    recorder = Recorder()
    run(counted(short_trace(kind), setup()), setup(), recorder)
    odd: list[Observation | tuple[int, int]] = []
    for number, one in enumerate(recorder.asked):
        if isinstance(one, Observation) and len(one.count) and number % 50 == 0:
            odd.append(
                Observation(
                    now_us=one.now_us,
                    partition=np.append(one.partition, one.partition.max() + 1),
                    key_us=np.append(one.key_us, one.key_us[-1] + DAY_US),
                    event_us=np.append(one.event_us, one.event_us[-1] + DAY_US),
                    count=np.append(one.count, 1),
                    need_us=np.append(one.need_us, one.need_us[-1] - DAY_US),
                    base_us=np.append(one.base_us, one.key_us[-1] + DAY_US),
                )
            )
        else:
            odd.append(one)
    assert any(one is not other for one, other in zip(recorder.asked, odd, strict=True))
    assert answers(odd) == answers(recorder.asked)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["bursts", "stalls"])
def test_the_order_of_the_rows_within_a_slot_does_not_matter(kind: str) -> None:
    trace = short_trace(kind)
    slot = (trace.arrival_time_us - trace.arrival_time_us[0]) // SECOND
    order = np.lexsort((np.random.default_rng(1).random(len(slot)), slot))
    assert (order != np.arange(len(slot))).any()
    # Arrivals of a slot become one moment, else the order would be another trace.
    moment = trace.arrival_time_us[0] + slot * SECOND
    plain = timeline(Trace(trace.event_time_us, moment, trace.partition))
    mixed = timeline(Trace(trace.event_time_us[order], moment, trace.partition[order]))
    np.testing.assert_array_equal(mixed, plain)


def test_the_order_of_the_counts_of_a_batch_does_not_matter() -> None:
    """Nor whether they come added up."""
    batches = drawn_batches(1, 400, step_us=SECOND)
    asked, dice = setup(), np.random.default_rng(1)
    plain, mixed = Tidemark(asked), Tidemark(asked)
    decided = set()
    for seen in batches:
        twice = np.repeat(dice.permutation(len(seen.count)), 2)
        split = seen.count[twice] // 2
        split[1::2] = seen.count[twice[1::2]] - split[::2]
        plain.observe(seen)
        mixed.observe(
            Observation(
                now_us=seen.now_us,
                partition=seen.partition[twice],
                key_us=seen.key_us[twice],
                event_us=seen.event_us[twice],
                count=split,
                need_us=seen.need_us[twice],
                base_us=seen.base_us,
            )
        )
        found = [policy.decide(seen.now_us, seen.now_us + 2 * SECOND) for policy in (plain, mixed)]
        assert found[0] == found[1]
        decided.add(found[0].watermark_us)
    assert len(decided) > 10


def test_a_row_of_a_sliding_window_or_a_session_is_decided_too() -> None:
    for operator in (sliding("20 s", "5 s"), session("10 s")):
        asked = Setup(operator=operator, trigger_us=SECOND, target_ppm=990_000)
        trace = part(short_trace("stationary"), slice(10_000))
        arrivals = counted(trace, asked)
        found = score(arrivals, asked, run(arrivals, asked, Tidemark(asked)))
        assert meets(asked, found)
        assert found.latency_mean_us is not None
        assert found.latency_mean_us < 10 * SECOND


# -- what it is worth ----------------------------------------------------------------------------------------


@cache
def judged(
    kind: str, seed: int, objective: Objective = "occurrences", seconds: int = 1_800
) -> tuple[Arrivals, BacktestRun, BacktestScore, float, float]:
    """Return a run, its score, and the latency of the fixed bound in hindsight and of the clairvoyant."""
    asked = setup(objective)
    arrivals = counted(synthetic(kind, seed, seconds=seconds), asked)
    found = run(arrivals, asked, Tidemark(asked))
    hindsight = fixed_hindsight(arrivals, asked)[1].latency_mean_us
    lowest = clairvoyant(arrivals, asked)
    assert hindsight is not None
    assert lowest is not None
    return arrivals, found, score(arrivals, asked, found), hindsight, lowest


@pytest.mark.long
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_the_target_is_met_on_every_kind_of_delay(kind: str) -> None:
    found = judged(kind, 3)[2]
    assert meets(setup(), found), f"{found.completeness:.4%} of the rows were counted"


@pytest.mark.parametrize("kind", ["bursts", "stalls", "night", "future"])
def test_where_a_constant_bound_pays_for_the_worst_all_the_time_the_latency_is_less(kind: str) -> None:
    _, _, found, hindsight, _ = judged(kind, 3)
    assert found.latency_mean_us is not None
    assert found.latency_mean_us < hindsight


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_no_latency_is_below_the_clairvoyant_s(kind: str) -> None:
    """Else the yardstick or the account of late rows would be wrong."""
    _, _, found, _, lowest = judged(kind, 3)
    assert found.latency_mean_us is not None
    assert meets(setup(), found)
    assert found.latency_mean_us >= lowest


@pytest.mark.long
def test_with_time_slices_nearly_every_window_reaches_the_target() -> None:
    """Over an hour: of half an hour's windows a single one may miss, and the first ones know nothing yet."""
    _, _, found, _, lowest = judged("bursts", 3, "timeslices", 3_600)
    assert found.windows_meeting_target is not None
    assert found.latency_mean_us is not None
    assert found.windows_meeting_target >= 0.99
    assert found.latency_mean_us >= lowest


# -- silence -------------------------------------------------------------------------------------------------


def silent_after(seconds: int, silence: int) -> Trace:
    """Return a stream that is wholly silent after a time, but for one row at the very end."""
    whole = synthetic("stationary", 5, rate=200, seconds=seconds)
    end = int(whole.arrival_time_us[-1]) + silence * SECOND
    return Trace(
        np.append(whole.event_time_us, end),
        np.append(whole.arrival_time_us, end),
        np.append(whole.partition, whole.partition[:1]),
    )


def test_the_last_windows_of_a_stream_that_falls_silent_close_in_a_stated_time() -> None:
    """The longest hold: ten spans, or a quarter longer than any row was ever seen to take, whichever is more.

    Counted from the last row: by then every partition has stopped.
    """
    trace = silent_after(900, 900)
    arrivals = counted(trace, setup())
    found = run(arrivals, setup(), Tidemark(setup()))
    longest_age = (int((trace.arrival_time_us - trace.event_time_us).max()) + SECOND) / SECOND
    hold = max(LONGEST_HOLD_SPANS * SPAN, LONGEST_HOLD_MARGIN * longest_age)
    last = int(trace.arrival_time_us[-2])
    before = arrivals.keys_us[:-1]
    closed = found.emit_wall_us[:-1]
    assert (closed - np.maximum(before, 0) <= (hold + LIVE_DELAY) * SECOND).all()
    assert closed[-1] < last + 300 * SECOND, "long before the row that ends the silence"
    assert closed[-1] > int(before[-1]), "what is missing is waited for"


def test_once_the_source_says_that_nothing_is_left_to_read_the_watermark_follows_the_clock() -> None:
    """A batch without rows shows the time: no window stays open for ever, and none behind it either."""
    policy, now = Tidemark(setup()), 0
    for seen in drawn_batches(7, 400, step_us=SECOND):
        policy.observe(seen)
        policy.decide(seen.now_us, seen.now_us + 2 * SECOND)
        now = seen.now_us
    marks = []
    for _ in range(500):
        now += SECOND
        policy.observe(Observation(now_us=now))
        policy.rest()
        mark = policy.decide(now, now + 2 * SECOND).watermark_us
        assert mark is not None
        marks.append(mark)
    assert (np.diff(marks) >= 0).all()
    assert marks[-1] > now - 300 * SECOND
    assert marks[-1] - marks[-100] == 99 * SECOND


def test_who_slept_through_a_silence_decides_nearly_as_who_watched_it() -> None:
    """An idle driver asks nobody; what rules would have closed meanwhile they have closed."""
    batches = drawn_batches(7, 400, step_us=SECOND)
    watched, slept = Tidemark(setup()), Tidemark(setup())
    for seen in batches:
        for policy in (watched, slept):
            policy.observe(seen)
            policy.decide(seen.now_us, seen.now_us + 2 * SECOND)
    end = batches[-1].now_us
    for second in range(1, 900):
        now = end + second * SECOND
        watched.observe(Observation(now_us=now))
        watched.decide(now, now + 2 * SECOND)
    now = end + 900 * SECOND
    marks = []
    for policy in (watched, slept):
        policy.observe(Observation(now_us=now))
        mark = policy.decide(now, now + 2 * SECOND).watermark_us
        assert mark is not None
        marks.append(mark)
    assert abs(marks[0] - marks[1]) <= 10 * SECOND


@pytest.mark.long
@pytest.mark.parametrize(("seed", "seconds"), [(9, 1_800), (7, 2_700)])
def test_the_first_joint_stall_is_held_already_at_three_nines(seed: int, seconds: int) -> None:
    """The rows of one stall that is let go are more than the budget: to repay them, all that follows would wait."""
    asked = setup(target_ppm=999_000)
    arrivals = counted(synthetic("joint", seed, seconds=seconds), asked)
    found = score(arrivals, asked, run(arrivals, asked, Tidemark(asked)))
    lowest = clairvoyant(arrivals, asked)
    assert found.latency_mean_us is not None
    assert lowest is not None
    assert meets(asked, found), found.completeness
    assert found.latency_mean_us < 1.35 * lowest


@pytest.mark.long
@pytest.mark.parametrize(("kind", "seed"), [("joint", 402), ("joint", 405), ("stalls", 401), ("stalls", 407)])
def test_missing_rows_are_waited_for_until_the_budget_has_room_for_them(kind: str, seed: int) -> None:
    """At 99 % too: a quarter of an hour allows less than the rows that a stall withholds, however short the wait is."""
    asked = setup(target_ppm=990_000)
    arrivals = counted(synthetic(kind, seed, seconds=900), asked)
    found = score(arrivals, asked, run(arrivals, asked, Tidemark(asked)))
    assert meets(asked, found), found.completeness


@pytest.mark.long
@pytest.mark.parametrize("pack", [5, 20])
def test_rows_in_packs_are_not_waited_for_as_if_some_were_missing(pack: int) -> None:
    """A stream that is not known yet is assumed to be uneven: else its usual gaps would look like stalls."""
    asked = setup(target_ppm=990_000)
    latencies = []
    for each in (1, pack):
        arrivals = counted(synthetic("stationary", 403, seconds=900, pack=each), asked)
        found = score(arrivals, asked, run(arrivals, asked, Tidemark(asked)))
        assert meets(asked, found), found.completeness
        latencies.append(found.latency_mean_us or 0)
    assert latencies[1] < 2 * latencies[0]


@pytest.mark.long
@pytest.mark.parametrize(("seed", "rate", "pack"), [(432, 10, 1), (431, 200, 20)])
def test_partitions_of_few_rows_or_packs_that_stall_together_are_waited_for(
    seed: int, rate: int, pack: int
) -> None:
    """Alone, each would be silent for long before it is missed; together they are missed within seconds."""
    asked = setup(target_ppm=990_000)
    arrivals = counted(synthetic("joint", seed, seconds=1_800, rate=rate, pack=pack), asked)
    found = score(arrivals, asked, run(arrivals, asked, Tidemark(asked)))
    assert meets(asked, found), found.completeness
    assert found.latency_mean_us is not None
    assert found.latency_mean_us < 3 * SECOND


def test_partitions_that_rest_and_return_do_not_make_everything_wait() -> None:
    """The first rest looks like a stall and is waited for as long as any; the next one less, and no return at all."""
    asked = setup(target_ppm=999_000)
    whole = synthetic("stationary", 5, rate=200, seconds=1_500, partitions=8)
    second = (whole.event_time_us - whole.event_time_us.min()) // SECOND % 700
    trace = part(whole, (whole.partition < 2) | (second < 300) | (second >= 550))
    arrivals = counted(trace, asked)
    found = run(arrivals, asked, Tidemark(asked))
    seconds = np.maximum(found.emit_wall_us - arrivals.keys_us, 0) / SECOND
    own = trace.arrival_time_us[trace.partition == 5]
    rests = [(int(own[at]), int(own[at + 1])) for at in np.flatnonzero(np.diff(own) > 200 * SECOND)]
    assert len(rests) == 2
    for (begun, ended), spans in zip(rests, (LONGEST_HOLD_SPANS, LONGEST_HOLD_SPANS_AFTER_STOP), strict=True):
        longest = spans * SPAN + LIVE_DELAY
        stopped = begun + longest * SECOND
        held = seconds[(arrivals.keys_us > begun) & (arrivals.keys_us < stopped)]
        assert 2 * SPAN < held.max() <= longest, "a stall would have looked the same"
        on_time = (arrivals.keys_us > stopped) & (arrivals.keys_us < ended + 150 * SECOND)
        assert seconds[on_time].max() <= SPAN


def test_the_window_may_be_anywhere_on_the_grid() -> None:
    """An offset of the windows and of the stream by the same time moves every watermark by that time."""
    trace = short_trace("stationary")
    moved = Trace(trace.event_time_us + 3 * SECOND, trace.arrival_time_us + 3 * SECOND, trace.partition)
    offset = Setup(operator=tumbling("10 s", "3 s"), trigger_us=SECOND, target_ppm=990_000)
    slots, marks = timeline(trace)
    moved_slots, moved_marks = timeline(moved, offset)
    while_rows_come = slice(
        len(slots) - 5
    )  # with finer cohorts the end of the rows is known to a tenth of a second
    known = marks[while_rows_come] > NO_BASE_US
    assert moved_slots[while_rows_come].tolist() == slots[while_rows_come].tolist()
    moved_marks, marks = moved_marks[while_rows_come], marks[while_rows_come]
    np.testing.assert_array_equal(moved_marks[known], marks[known] + 3 * SECOND)


# -- row-level keys, and a cap -------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("kind", with_soak(["step", "stalls", "bursts"], {"stalls", "bursts"}))
def test_rows_judged_by_their_own_time_meet_the_target_too(kind: str) -> None:
    """On Spark they are counted by the trigger."""
    asked = Setup(operator=RowLevel(), trigger_us=SECOND, target_ppm=990_000)
    arrivals = counted(synthetic(kind, 6, seconds=1_800), asked)
    found = score(arrivals, asked, run(arrivals, asked, make_policy("tidemark", asked)))
    assert meets(asked, found), found.completeness


def test_under_a_latency_cap_windows_wait_no_longer_and_the_reasons_say_that_completeness_yields() -> None:
    """A window closes at the first trigger at which it is older than the cap, or after its first row if later."""
    cap_us = SECOND
    asked = replace(setup(), latency_cap_us=cap_us)
    arrivals = counted(short_trace("bursts"), asked)
    policy = Tidemark(asked)
    found = run(arrivals, asked, policy)
    first_us = np.array(
        [arrivals.slot[arrivals.key_us == key].min() for key in arrivals.keys_us]
    ) * SECOND + int(arrivals.first_us)
    waited_us = found.emit_wall_us - np.maximum(arrivals.keys_us, first_us)
    scored = arrivals.keys_us <= arrivals.scored_until_us
    assert waited_us[scored].max() <= cap_us + LIVE_DELAY * SECOND
    assert np.median(waited_us[scored]) <= cap_us + SECOND
    assert any("cap of 1 s" in step.reason for step in policy.explain())
    free = run(arrivals, setup(), Tidemark(setup()))
    assert free.late < found.late, "completeness did not yield"


def test_rows_that_come_with_the_next_batch_are_not_missing() -> None:
    """Five granules come with each batch, and only some partitions send; others rest for minutes."""
    asked = replace(setup(), trigger_us=5 * SECOND)
    arrivals = counted(synthetic("shifts", 1, rate=200, seconds=1_200), asked)
    found = score(arrivals, asked, run(arrivals, asked, Tidemark(asked)))
    assert meets(asked, found)
    assert found.latency_mean_us is not None
    assert found.latency_mean_us < 2 * SECOND
