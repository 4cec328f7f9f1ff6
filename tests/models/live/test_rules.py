"""Rules: each one's watermark, losses and latencies, recounted by hand; what holds them back, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.models.live.defaults import CYCLE_PRICES, LONGEST_HOLD_SPANS, MEMORIES, PRICES
from tidemark.models.live.policy import NO_BASE_US
from tidemark.models.live.rules import FAMILIES, RuleSet

from support.soak import with_soak

SECOND = 1_000_000
DELAY_US = 2 * SECOND
"""From a decision to when it is in force."""
SPAN = 10.0
BUDGET = 0.01
OFFSET_US = 300_000
"""Where batches lie on the grid of windows."""
_FAMILY = np.repeat(np.append(np.arange(FAMILIES - 1) % 4, 0), len(PRICES))
"""That of the cycles, of which none is known here, follows the first one."""
HOLDS = (_FAMILY == 1) | (_FAMILY == 2)
WHOLE = _FAMILY == 2
"""The rules that hold whatever the missing rows are worth."""
LONGEST_MEMORY = np.arange(FAMILIES * len(PRICES)) // (4 * len(PRICES)) == len(MEMORIES) - 1


def clocks(now_us: int) -> Int64s:
    """Return the times by which keys age where nothing falls behind."""
    return np.full(2, now_us, np.int64)


Shortfall = Callable[[int, Int64s], NDArray[np.float64]]


@dataclass
class Driven:
    """Rules, driven as the policy drives them, and all that they were shown and decided."""

    rules: RuleSet
    decided: list[tuple[int, Int64s]] = field(default_factory=list)
    """When each decision is in force, and the watermarks."""
    batches: list[tuple[int, Int64s, Int64s]] = field(default_factory=list)
    """Wall time, keys and counts."""
    walls: list[int] = field(default_factory=list)
    """When keys were closed."""
    began_us: int | None = None

    def step(self, now_us: int, key_us: list[int], count: list[int], short: Shortfall | None = None) -> None:
        """Show a batch and let the rules decide; ``short`` tells how many rows each open key misses."""
        if self.began_us is None:
            self.began_us = now_us - SECOND
        passed = (now_us - (self.walls[-1] if self.walls else self.began_us)) // SECOND
        elapsed = (now_us - self.began_us) / SECOND
        self.rules.advance(passed, elapsed)
        if key_us:
            keys, counts = np.array(key_us, np.int64), np.array(count, np.int64)
            self.rules.add(now_us, clocks(now_us), keys, counts)
            self.batches.append((now_us, keys, counts))
        self.rules.close(now_us)
        missing = (
            np.zeros(len(self.rules.waits.key_us))
            if short is None
            else short(now_us, self.rules.waits.key_us)
        )
        longest = self.rules.longest_hold(elapsed, stopped=False)
        self.rules.decide(
            now_us,
            now_us + DELAY_US,
            clocks(now_us + DELAY_US),
            missing,
            elapsed=elapsed,
            longest_hold=longest,
        )
        self.decided.append((now_us + DELAY_US, self.rules.watermark_us))
        self.walls.append(now_us)

    def in_force_us(self, now_us: int, *, judging: bool) -> Int64s:
        """Return the watermarks that judge the rows of a batch, or that close keys at its end."""
        known = [mark for force, mark in self.decided if (force < now_us if judging else force <= now_us)]
        marks: Int64s = np.max([np.full(self.rules.rules, NO_BASE_US), *known], axis=0)
        return marks


def new_rules(budget: float = BUDGET, keys_per_trigger: float = 0.1) -> RuleSet:
    return RuleSet(SECOND, keys_per_trigger, SPAN, budget)


def random_stream(seed: int, batches: int = 150, *, missing: bool) -> Driven:
    """Return rules that were shown windows of 10 s with delays of some seconds, now and then after a pause."""
    dice = np.random.default_rng(seed)
    driven = Driven(new_rules(budget=float(dice.choice([0.01, 0.1]))))
    now = 1_000 * SECOND + OFFSET_US
    for _ in range(batches):
        now += SECOND * int(dice.choice([1, 1, 1, 1, 2, 30], p=[0.3, 0.3, 0.2, 0.15, 0.04, 0.01]))
        late = dice.exponential(dice.choice([1, 3, 20]), int(dice.integers(0, 40))) * SECOND
        windows = (np.floor((now - late) / (10 * SECOND)).astype(np.int64) + 1) * 10 * SECOND
        keys, counts = np.unique(windows, return_counts=True)

        def drawn(_: int, keys: Int64s) -> NDArray[np.float64]:
            return np.where(dice.random(len(keys)) < 0.2, dice.integers(0, 50, len(keys)), 0).astype(
                np.float64
            )

        driven.step(now, keys.tolist(), counts.tolist(), drawn if missing else None)
    return driven


# -- what is counted -----------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", with_soak(range(6), range(2, 6)))
@pytest.mark.parametrize("missing", [False, True])
def test_late_rows_are_those_at_or_below_the_watermark_in_force_before_their_batch(
    seed: int, missing: bool
) -> None:
    driven = random_stream(seed, missing=missing)
    naive = np.zeros(driven.rules.rules)
    for now, keys, counts in driven.batches:
        in_force = driven.in_force_us(now, judging=True)
        for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
            naive += count * (key <= in_force)
    np.testing.assert_array_equal(driven.rules.late, naive)
    assert len(set(naive.tolist())) > 5, "rules that all lose the same would prove little"
    assert driven.rules.pairs == sum(int(counts.sum()) for _, _, counts in driven.batches)


@pytest.mark.slow
@pytest.mark.parametrize("seed", with_soak(range(6), range(2, 6)))
@pytest.mark.parametrize("missing", [False, True])
def test_latencies_are_those_of_a_recount_with_open_keys_as_of_now(seed: int, missing: bool) -> None:
    """A key is closed by the first batch that emits under a watermark at or above it; its end costs nothing before.

    A key that every rule was past when its first row came has cost nothing.
    """
    driven = random_stream(seed, missing=missing)
    rules = driven.rules
    first: dict[int, int] = {}
    for now, keys, _ in driven.batches:
        for key in keys.tolist():
            first.setdefault(key, now)
    closing = [(now, driven.in_force_us(now, judging=False)) for now in driven.walls]
    naive, end = np.zeros(rules.rules), driven.walls[-1]
    for key, came in first.items():
        if key > _done_before(driven, closing, came):
            for rule in range(rules.rules):
                emitted = next((now for now, mark in closing if mark[rule] >= key and now >= came), end)
                naive[rule] += max(emitted - key, 0) / SECOND
    np.testing.assert_allclose(rules.waits.latency(end), naive)
    assert len(rules.waits.key_us), "some keys must be open for this to say anything of them"


def _done_before(driven: Driven, closing: list[tuple[int, Int64s]], came: int) -> int:
    """Return the highest key with rows that every rule had closed before a batch."""
    known = {key for now, keys, _ in driven.batches if now < came for key in keys.tolist()}
    marks = [int(mark.min()) for now, mark in closing if now < came]
    return max([key for key in known if marks and key <= marks[-1]], default=NO_BASE_US)


@pytest.mark.parametrize("seed", range(4))
def test_what_is_at_stake_is_missing_from_keys_that_the_rule_has_closed(seed: int) -> None:
    driven = random_stream(seed, missing=False)
    rules = driven.rules
    short = np.arange(1.0, len(rules.waits.key_us) + 1)
    now = driven.walls[-1] + SECOND
    driven.step(now, [], [], lambda _, keys: short[: len(keys)])
    naive = [
        short[: len(rules.waits.key_us)][rules.waits.key_us <= mark].sum() for mark in rules.watermark_us
    ]
    np.testing.assert_array_equal(rules.at_stake, naive)


@pytest.mark.parametrize("lag", [20, 49])
def test_rows_to_come_for_closed_keys_are_those_that_older_keys_got(lag: int) -> None:
    """A key a second, of which a fifth of the rows comes with a lag: so many keys that are closed still owe theirs."""
    driven = Driven(new_rules(keys_per_trigger=1.0))
    for second in range(1, 6 * lag + 101):
        rows = {second - 1: 80} | ({second - lag: 20} if second > lag else {})
        driven.step(
            second * SECOND, [key * SECOND for key in sorted(rows)], [rows[key] for key in sorted(rows)]
        )
    rules = driven.rules
    waits = rules._age >= lag - 1
    assert waits.any() and not waits.all()  # noqa: PT018
    assert (rules.to_come[waits] == 0).all()
    still = 20 * (lag - np.maximum(rules._age[~waits], 0))
    np.testing.assert_allclose(rules.to_come[~waits], still, rtol=0.1)


# -- watermarks ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("seed", with_soak(range(6), range(2, 6)))
@pytest.mark.parametrize("missing", [False, True])
def test_no_watermark_ever_goes_back(seed: int, missing: bool) -> None:
    marks = np.array([mark for _, mark in random_stream(seed, missing=missing).decided])
    assert (np.diff(marks, axis=0) >= 0).all()
    assert (marks[-1] > marks[len(marks) // 2]).mean() > 0.5, "they do go forward"


@pytest.mark.parametrize("seed", range(6))
def test_without_missing_rows_a_higher_price_never_waits_longer(seed: int) -> None:
    """A dearer wait is a shorter one, at every moment, so its latency too is never above."""
    driven = random_stream(seed, missing=False)
    marks = np.array([mark for _, mark in driven.decided]).reshape(-1, FAMILIES, len(PRICES))
    assert (np.diff(marks, axis=2) >= 0).all()
    latency = driven.rules.waits.latency(driven.walls[-1]).reshape(FAMILIES, -1)
    assert (np.diff(latency, axis=1) <= 1e-9).all()
    assert (latency[:, 0] > latency[:, -1]).any()
    late = driven.rules.late.reshape(FAMILIES, -1)
    assert (np.diff(late, axis=1) >= 0).all(), "and loses no less"


@pytest.mark.parametrize("lag", [4, 20, 31, 49, 100])
def test_the_age_at_which_a_cheap_wait_closes_admits_the_rows_it_waits_for(lag: int) -> None:
    """A fifth of the rows comes with a lag that never changes: a rule that waits for them must not lose them."""
    driven = Driven(new_rules(keys_per_trigger=1.0))
    lost_by: dict[int, NDArray[np.float64]] = {}
    for second in range(1, 6 * lag + 101):
        rows = {second - 1: 80} | ({second - lag: 20} if second > lag else {})
        driven.step(
            second * SECOND, [key * SECOND for key in sorted(rows)], [rows[key] for key in sorted(rows)]
        )
        lost_by[second] = driven.rules.late.copy()
    recent = lost_by[6 * lag + 100] - lost_by[6 * lag + 50]
    patient = (driven.rules.price <= PRICES[0]) & (LONGEST_MEMORY)
    assert patient.any()
    assert (recent[patient] == 0).all(), f"closes at age {driven.rules._age[patient].max():.1f}"


@pytest.mark.slow
def test_what_a_wait_is_worth_does_not_depend_on_how_often_batches_run() -> None:
    """The same rows in windows of 10 s, with triggers of 1 s and of 200 ms: each rule closes at about the same age."""
    dice = np.random.default_rng(7)
    closes_s = []
    for triggers_a_second in (1, 5):
        trigger_us = SECOND // triggers_a_second
        span = SPAN * triggers_a_second
        rules = RuleSet(trigger_us, 1 / span, span, BUDGET)
        for second in range(1, 801):
            now = second * SECOND + OFFSET_US
            rules.advance(triggers_a_second, second * triggers_a_second)
            late_s = dice.pareto(1.2, 200)
            keys, counts = np.unique((second - late_s) // SPAN + 1, return_counts=True)
            rules.add(now, clocks(now), (keys * SPAN).astype(np.int64) * SECOND, counts)
            rules.close(now)
            nothing = np.zeros(len(rules.waits.key_us))
            elapsed = second * triggers_a_second
            rules.decide(
                now, now + DELAY_US, clocks(now + DELAY_US), nothing, elapsed=elapsed, longest_hold=0.0
            )
        ages = [rules.outlook(rule).age / triggers_a_second for rule in range(rules.rules)]
        closes_s.append(np.array(ages)[LONGEST_MEMORY & (rules.price >= PRICES[CYCLE_PRICES])])
    slow, fast = closes_s
    assert slow.max() > 4 * np.median(slow), "rules that all close alike would prove little"
    assert np.abs(fast - slow).max() <= 1 + 0.1 * slow.max()


@pytest.mark.parametrize("seed", range(3))
def test_without_missing_rows_and_lags_a_rule_is_the_same_in_each_family(seed: int) -> None:
    own = random_stream(seed, missing=False).rules.watermark_us[: -len(PRICES)]
    marks = own.reshape(len(MEMORIES), -1, len(PRICES))
    for held in (marks[:, 1], marks[:, 2], marks[:, 3]):
        np.testing.assert_array_equal(marks[:, 0], held)


# -- holds ---------------------------------------------------------------------------------------------------

ROWS = 100
"""Rows of a key, of which one ends each second; they come in the five seconds after. The budget is one of them."""
AGES = range(1, 6)
SILENT = 200
"""The key of which no row comes, or not all."""


def stalled(
    until: int, lack: Callable[[int], float], arriving: Callable[[int], int] = lambda _: 0
) -> tuple[Driven, list[NDArray[np.float64]]]:
    """Return rules over a steady stream in which one key lacks rows, and by how much each rule is held after each step.

    The key ends at ``SILENT`` s; ``lack`` tells how many rows it misses ``age`` seconds after, ``arriving`` how many
    come then. What is returned is the age at which the key would be closed if it were now, 0 once it is.
    """
    driven = Driven(new_rules(keys_per_trigger=1.0))
    ages = []
    for second in range(1, until):
        now, age = second * SECOND, second - SILENT

        def short(_: int, keys: Int64s, age: int = age) -> NDArray[np.float64]:
            return np.where(keys == SILENT * SECOND, lack(age) if age >= 0 else 0, 0).astype(float)

        rows = {second - back: ROWS // len(AGES) for back in AGES if second - back != SILENT}
        if age >= 0 and arriving(age):
            rows[SILENT] = arriving(age)
        if age == 0:
            driven.rules.waits.open(np.array([SILENT * SECOND]))
        driven.step(now, [key * SECOND for key in sorted(rows)], [rows[key] for key in sorted(rows)], short)
        ages.append(np.where(driven.rules.watermark_us < SILENT * SECOND, float(age + 2), 0.0))
    return driven, ages


def released(ages: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return the highest age at which each rule was still held."""
    last: NDArray[np.float64] = np.max(np.array(ages), axis=0)
    return last


def worth(driven: Driven) -> NDArray[np.float64]:
    """Return for how many seconds each rule waits for a row."""
    rules = driven.rules
    value: NDArray[np.float64] = 1 / (rules.price * BUDGET * rules.rows_a_key(driven.walls[-1] / SECOND))
    return value


@pytest.mark.parametrize("rows", [1.0, 3.0, 10.0])
def test_a_hold_lasts_as_long_as_the_missing_rows_are_worth_and_no_longer(rows: float) -> None:
    """A ski rental: who gives up when the wait has cost what the rows are worth pays at most twice."""
    driven, ages = stalled(SILENT + 190, lambda _: rows)
    last = released(ages)
    value = worth(driven)
    longest = LONGEST_HOLD_SPANS * SPAN
    limit = np.minimum(driven.rules._age + value * rows, longest)
    fair = HOLDS & ~WHOLE & (driven.rules._age > 2)
    assert fair.sum() >= 9
    assert (last[fair] <= limit[fair] + 1e-6).all()
    assert (last[fair] > limit[fair] - 1.2).all(), "and not a trigger less"
    assert (last[~HOLDS] <= 5).all(), "a rule without the hold waits as for any key"
    assert (last[WHOLE & (driven.rules._age > 2)] == longest).all(), "the whole hold asks for no worth"


def test_no_hold_lasts_longer_than_the_longest_one() -> None:
    """While a stream is young that is a fixed number of spans; nothing was seen to come later."""
    driven, ages = stalled(SILENT + 190, lambda _: 1e9)
    last = released(ages)
    old = HOLDS & (driven.rules._age > 2)
    assert old.sum() > 9
    assert (last[old] == LONGEST_HOLD_SPANS * SPAN).all()
    assert (last[HOLDS] <= LONGEST_HOLD_SPANS * SPAN).all()


@pytest.mark.parametrize("rows", [2.0, 50.0])
def test_when_the_missing_rows_come_at_once_the_hold_ends(rows: float) -> None:
    driven, ages = stalled(
        SILENT + 190, lambda age: rows if age < 3 else 0, lambda age: int(rows) if age == 3 else 0
    )
    brief = HOLDS & (driven.rules._age > 2)
    assert brief.sum() > 9
    assert (released(ages)[brief] <= 5).all()


def test_a_key_that_is_missing_is_opened_and_closed_without_a_row() -> None:
    """In a silence of all nothing else would hold the watermark before it; and what never came has no latency."""
    driven = Driven(new_rules(keys_per_trigger=1.0))
    for second in range(1, 100):
        driven.step(second * SECOND, [second * SECOND], [ROWS])
    before = driven.rules.waits.latency(99 * SECOND)
    driven.rules.waits.open(np.array([100 * SECOND, 101 * SECOND]))
    assert driven.rules.waits.key_us[-2:].tolist() == [100 * SECOND, 101 * SECOND]
    for second in range(100, 130):
        driven.step(second * SECOND, [], [])
    assert not len(driven.rules.waits.key_us)
    assert driven.rules.waits.done_us == 101 * SECOND
    assert (driven.rules.waits.latency(130 * SECOND) - before <= 3).all()


# -- scaling and reasons -------------------------------------------------------------------------------------


def test_the_outlook_tells_the_rule_by_family_and_price() -> None:
    rules = random_stream(1, missing=False).rules
    found = [rules.outlook(rule) for rule in range(rules.rules)]
    assert [one.price for one in found[: len(PRICES)]] == list(PRICES)
    holds = [one.holds for one in found[:: len(PRICES)]]
    assert holds == [*[False, True, True, False] * len(MEMORIES), False], (
        "that of the cycles follows the first"
    )
    memories = [one.memory for one in found[: -len(PRICES) : 4 * len(PRICES)]]
    assert memories == [SPAN * memory for memory in MEMORIES]
    assert all(one.age >= 0 and one.late_rows_a_key >= 0 for one in found)


def test_ten_times_the_rows_are_decided_alike() -> None:
    """Prices are multiples of the budget of a key, which has ten times the rows too."""
    few, many = Driven(new_rules()), Driven(new_rules())
    dice = np.random.default_rng(5)
    for second in range(200):
        now = (1_000 + second) * SECOND + OFFSET_US
        late = dice.exponential(3, 30) * SECOND
        windows = (np.floor((now - late) / (10 * SECOND)).astype(np.int64) + 1) * 10 * SECOND
        keys, counts = np.unique(windows, return_counts=True)
        few.step(now, keys.tolist(), counts.tolist())
        many.step(now, keys.tolist(), (10 * counts).tolist())
    np.testing.assert_array_equal(few.rules.watermark_us, many.rules.watermark_us)
    np.testing.assert_array_equal(10 * few.rules.late, many.rules.late)
