"""Cycles: what comes late at which phase of a period, and what waiting for it is worth."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from tidemark.models.base.operators import tumbling
from tidemark.models.live.cycles import PERIODS_US, PHASES, Cycle, Cycles
from tidemark.models.live.policy import Observation, Setup
from tidemark.models.live.tidemark import Tidemark
from tidemark.models.recommend.steps import StepKind

pytestmark = pytest.mark.slow

MINUTE = 60_000_000
HOUR = 60 * MINUTE
BEGIN = 480_000 * HOUR
"""A midnight."""
KEYS = 1.0
"""A key a trigger; a trigger is a minute."""
NOTHING = np.empty(0)
WORTH = np.array([100.0, 10.0, 1.0, 0.1])
"""Triggers that a row is worth, by price."""


class DayCycle(Cycle):
    """The cycle of a day, and what has come so far."""

    def __init__(self) -> None:
        super().__init__(24 * HOUR, MINUTE, KEYS)
        self.late, self.pairs, self.at_us = np.zeros(self.ages), 0, BEGIN

    def go_on(self, now_us: int) -> None:
        """Decide at the beginning of each phase up to a moment."""
        for at_us in range(self.at_us, now_us, HOUR // 2):
            self.reach(at_us, self.late, self.pairs)
        self.reach(now_us, self.late, self.pairs)
        self.at_us = now_us

    def add(self, pairs: int, late_age: NDArray[np.float64] = NOTHING, rows: int = 0) -> None:
        """Count pairs, and ``rows`` late ones of each age."""
        self.late = self.late + rows * np.bincount(self.buckets(late_age), minlength=self.ages)
        self.pairs += pairs + rows * len(late_age)


def live_through(
    cycle: DayCycle, days: int, at: int, rows: int, *, from_day: int = 0, again: bool = True
) -> None:
    """Let whole days pass with a batch an hour; at hour ``at`` come ``rows`` late rows of each key since midnight."""
    for hour in range(24 * from_day, 24 * (from_day + days) + 1):
        now = BEGIN + hour * HOUR
        cycle.go_on(now)
        cycle.add(1_000)
        if hour % 24 == at and (again or hour < 24 * (from_day + 1)):
            cycle.add(0, np.arange(60.0 * at), rows)


def test_nothing_is_known_before_three_quarters_of_the_phases_were_seen() -> None:
    """A job that starts anew at the same time of each day never sees the phase of that time whole."""
    cycle = DayCycle()
    for hour in range(26):
        cycle.go_on(BEGIN + hour * HOUR)
        cycle.add(1_000, np.arange(60.0), 10 if hour == 9 else 0)
        assert cycle.is_known == (hour >= 19)


def test_what_comes_every_evening_is_waited_for_from_as_long_before_as_it_is_worth() -> None:
    cycle = DayCycle()
    live_through(cycle, 2, at=20, rows=10)
    waits = {}
    for hour in (49, 60, 67, 68, 69):
        cycle.go_on(BEGIN + hour * HOUR)
        waits[hour] = cycle.closing_age(BEGIN + hour * HOUR, WORTH)
    # Ten rows are worth a thousand triggers, a hundred, ten, or one; the evening is 20:00, at hour 68.
    assert (waits[49] > 0).tolist() == [False, False, False, False], "19 hours are 1,140 triggers"
    assert (waits[60] > 0).tolist() == [True, False, False, False]
    assert (waits[67] > 0).tolist() == [True, True, False, False]
    assert (waits[69] > 0).tolist() == [False] * 4, "it is over"
    assert waits[67][0] == pytest.approx(19 * 60, rel=0.15), "the keys since midnight"


def test_the_oldest_keys_are_let_go_whose_rows_come_another_day_or_never() -> None:
    cycle = DayCycle()
    live_through(cycle, 2, at=20, rows=10)
    cycle.go_on(BEGIN + 67 * HOUR)
    assert (cycle.closing_age(BEGIN + 67 * HOUR, WORTH) < 24 * 60).all()


def test_what_does_not_come_again_is_no_longer_believed() -> None:
    cycle = DayCycle()
    live_through(cycle, 1, at=20, rows=10)
    live_through(cycle, 1, at=20, rows=0, from_day=1)
    live_through(cycle, 1, at=20, rows=0, from_day=2)
    cycle.go_on(BEGIN + 73 * HOUR)
    assert not cycle.is_known
    for day in range(3, 6):
        live_through(cycle, 1, at=20, rows=10, from_day=day)
    cycle.go_on(BEGIN + 145 * HOUR)
    assert cycle.is_known, "and what comes again and again is"


def test_an_incident_after_quiet_days_is_believed_when_it_comes_again() -> None:
    cycle = DayCycle()
    live_through(cycle, 2, at=20, rows=0)
    live_through(cycle, 1, at=20, rows=10, from_day=2)
    cycle.go_on(BEGIN + 80 * HOUR)
    assert not cycle.is_known
    for day in (3, 4):
        live_through(cycle, 1, at=20, rows=10, from_day=day)
    cycle.go_on(BEGIN + 128 * HOUR)
    assert cycle.is_known


@pytest.mark.parametrize(("window_us", "periods"), [(MINUTE, 3), (5 * MINUTE, 2), (HOUR, 1), (12 * HOUR, 0)])
def test_a_period_has_no_phases_shorter_than_a_window(window_us: int, periods: int) -> None:
    """Else all rows of a window come in a few phases, which look like rushes."""
    assert len(Cycles(MINUTE // 2, MINUTE / 2 / window_us).learned()) == 4 * periods


def test_late_rows_that_come_at_any_time_are_no_rush() -> None:
    cycle, rng = DayCycle(), np.random.default_rng(1)
    for minute in range(0, 3 * 24 * 60, 5):
        cycle.go_on(BEGIN + minute * MINUTE)
        cycle.add(0, rng.exponential(10, 30), 1)
    assert not cycle.is_known


@pytest.mark.parametrize(("at", "rows"), [(20, 10), (12, 3), (9, 40)])
def test_the_share_that_is_lost_in_a_period_is_about_that_of_a_recount(at: int, rows: int) -> None:
    """To a phase, and to a tenth of an age: where a key is barely worth its wait it may be kept or not."""
    worth = [1e4, 2_000 / rows, 500 / rows, 0.1]
    cycle, usual = DayCycle(), np.zeros(len(worth))
    live_through(cycle, 3, at=at, rows=rows)
    cycle.go_on(BEGIN + 73 * HOUR)
    triggers = np.array(worth)
    foreseen = cycle.late_share(triggers, usual)
    lost, closed = np.zeros(len(worth)), np.zeros(len(worth))
    for minute in range(73 * 60, 121 * 60):
        cycle.go_on(BEGIN + minute * MINUTE)
        if minute % (24 * 60) == at * 60:
            cycle.add(24_000, np.arange(60.0 * at), rows)
            lost = np.array([rows * (np.arange(60.0 * at) >= 1 + minute - one).sum() for one in closed])
        closed = np.maximum(closed, minute - cycle.closing_age(BEGIN + minute * MINUTE, triggers))
    total = 24 * 1_000 + rows * 60 * at
    np.testing.assert_allclose(foreseen, lost / total, atol=0.2 * rows * 60 * at / total)


def test_a_dearer_wait_never_loses_fewer_rows() -> None:
    cycle = DayCycle()
    live_through(cycle, 2, at=20, rows=10)
    cycle.go_on(BEGIN + 49 * HOUR)
    share = cycle.late_share(np.geomspace(1e4, 1e-2, 30), np.zeros(30))
    assert (np.diff(share) >= 0).all()
    assert share[0] == 0
    assert share[-1] == pytest.approx(12_000 / (24_000 + 12_000), rel=0.1)


def test_what_still_comes_is_less_for_those_who_have_closed_less() -> None:
    cycle = DayCycle()
    live_through(cycle, 2, at=20, rows=10)
    cycle.go_on(BEGIN + 66 * HOUR)
    to_come = cycle.to_come(np.array([0.0, 300.0, 600.0, 1_080.0, 1_440.0]))
    assert (np.diff(to_come) <= 0).all()
    assert to_come[0] == pytest.approx(10 * 1_080, rel=0.2)
    assert to_come[-1] == 0


def test_the_rush_is_given_by_when_it_comes_and_how_much_it_brings() -> None:
    cycle = DayCycle()
    live_through(cycle, 2, at=20, rows=10)
    cycle.go_on(BEGIN + 49 * HOUR)
    rush = cycle.rush(0.0)
    assert rush is not None
    assert (rush.period_us, rush.begin_us, rush.end_us) == (24 * HOUR, 20 * HOUR, 20 * HOUR + HOUR // 2)
    assert rush.share == pytest.approx(12_000 / (24_000 + 12_000))
    assert cycle.rush(1_300.0) is None


def test_a_rush_that_comes_half_an_hour_early_or_late_is_believed() -> None:
    cycle = DayCycle()
    for day, half_hour in enumerate((40, 41, 40, 39, 41, 39, 40)):
        for phase in range(PHASES):
            cycle.go_on(BEGIN + day * 24 * HOUR + phase * HOUR // 2)
            cycle.add(1_000, np.arange(1_200.0), 10 if phase == half_hour else 0)
            assert day < 2 or cycle.is_known, (day, phase)


def test_days_of_the_first_week_that_have_not_passed_are_foreseen_by_the_day() -> None:
    cycles = Cycles(MINUTE, KEYS)
    for half_hour in range(6 * PHASES + 24):
        age = np.arange(1_200.0) if half_hour % PHASES == 40 else np.full(1, -1.0)
        cycles.add(BEGIN + half_hour * HOUR // 2, age, np.full(len(age), 10))
    assert len(cycles.known) == 2, "the day and the week"
    share = cycles.late_share(WORTH, np.zeros(len(WORTH)))
    assert share is not None
    assert share[-1] > 0.9
    assert cycles.to_come(np.zeros(1))[0] == pytest.approx(7_200, rel=0.1), "ten for each key since midnight"


@pytest.mark.parametrize("period_us", PERIODS_US)
def test_a_profile_outlives_the_driver(period_us: int) -> None:
    rng = np.random.default_rng(2)
    first, later = (Cycles(MINUTE, KEYS) for _ in range(2))
    now = BEGIN
    while now < BEGIN + 2 * period_us + 8 * period_us // PHASES:
        rush = (now - BEGIN) % period_us // (period_us // PHASES) == 10
        age = rng.uniform(0, period_us / MINUTE, 40) if rush else np.full(1, -1.0)
        first.add(now, age, np.full(len(age), 2_000))
        now += period_us // PHASES
    later.resume(first.learned())
    for cycles in (first, later):
        cycles.reach(now)
    assert first.closing_age(now, WORTH).any()
    np.testing.assert_allclose(later.closing_age(now, WORTH), first.closing_age(now, WORTH))
    usual = np.zeros(len(WORTH))
    shares = [cycles.late_share(WORTH, usual) for cycles in (first, later)]
    assert shares[0] is not None
    assert shares[1] is not None
    np.testing.assert_allclose(shares[1], shares[0], atol=0.02)


def uploads(hours: int) -> list[Observation]:
    """Return the batches of a stream, one in half a minute; at each full hour a tenth of the past hour's rows comes."""
    batches = []
    for slot in range(120 * hours):
        now = BEGIN + (slot + 1) * MINUTE // 2
        event = [now - MINUTE // 2]
        count = [450]
        if slot % 120 == 119:
            event += [now - (2 + back) * MINUTE // 2 for back in range(119)]
            count += [50] * 119
        event_us, rows = np.array(event), np.array(count)
        key_us = event_us // MINUTE * MINUTE + MINUTE
        batches.append(Observation(now, np.zeros(len(rows), np.int64), key_us, event_us, rows))
    return batches


def test_uploads_every_hour_are_lost_once_and_then_waited_for_with_the_reason() -> None:
    policy = Tidemark(Setup(operator=tumbling("1 minute"), trigger_us=MINUTE // 2, target_ppm=990_000))
    late, in_force = [0] * 5, -1
    reasons = ""
    for slot, seen in enumerate(uploads(5)):
        late[slot // 120] += int(seen.count[seen.key_us <= in_force].sum())
        policy.observe(seen)
        decision = policy.decide(seen.now_us, seen.now_us)
        in_force = decision.watermark_us or in_force
        if slot == 120 * 2 + 100:
            reasons = " ".join(step.reason for step in policy.explain() if step.kind is StepKind.CYCLE)
    assert late[0] > 5_000, "nobody could know"
    assert max(late[1:]) < 600, "a hundredth of an hour's rows"
    assert reasons.startswith(
        "between hh:00:00 and hh:01:15 UTC rows usually come late: 9.84% of those of an hour"
    )


def test_a_rush_at_the_end_of_a_period_has_its_end_there() -> None:
    cycle = DayCycle()
    for hour in range(50):
        cycle.go_on(BEGIN + hour * HOUR + 45 * MINUTE)
        cycle.add(100, np.array([7.0]), 500 if hour % 24 == 23 else 0)
    cycle.go_on(BEGIN + 51 * HOUR)
    rush = cycle.rush(0.0)
    assert rush is not None
    assert (rush.begin_us, rush.end_us) == (23 * HOUR + HOUR // 2, 24 * HOUR)
    assert rush.share == pytest.approx(500 / 2_900, rel=0.1)
