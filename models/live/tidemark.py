"""Tidemark's live policy: the watermark, moved by the clock, where price and stragglers balance.

Each batch is counted (``rules``, ``missing``), the losses and latencies of every rule are known on all arrivals, and of
the rules that the budget allows (``budget``) the one with the lowest latency is followed. The watermark is a point on
the clock, so the delay of a decision costs only the newest evidence: it gives the watermark for the
time when it is in force. While the feed as a whole falls behind, the clock stands, and the watermark stays behind the
newest event time read (``stream_clock``). One row with a wrong date moves nothing.
Everything is measured in triggers and keys, so a stream with all its times scaled gets the same decisions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tidemark.models.base.duration import format_about
from tidemark.models.base.operators import Int64s, RowLevel, SessionWindow, TimeWindow
from tidemark.models.base.target import PPM, format_target
from tidemark.models.live.ages import Float64s
from tidemark.models.live.budget import Account, RuleChoice, RuleChooser
from tidemark.models.live.cohorts import first_places, places_in, summed
from tidemark.models.live.defaults import FUTURE_COHORTS, PILED_UP_TRIGGERS
from tidemark.models.live.learned import Arrays, checked, joined, part_of
from tidemark.models.live.learning import GoodWindows, learning_of
from tidemark.models.live.missing import Missing
from tidemark.models.live.plain import PlainSpark, pairs_up_to
from tidemark.models.live.policy import NEVER_US, NO_BASE_US, Decision, Observation, Setup
from tidemark.models.live.rules import RuleSet
from tidemark.models.live.stream_clock import STREAM, StreamClock
from tidemark.models.live.summary import behind, deliveries, rule_steps, waiting
from tidemark.models.recommend.steps import DecisionStep, StepKind

_IDLE_STEPS = 200
"""Maximum number of steps to catch up with an idle time; they grow, so that a night takes no longer than an hour."""


def without_debt(learned: Arrays, target_ppm: int) -> Arrays:
    """Return what was learned with an account that is even: with as many late pairs as the target allows.

    For pairs that another bound has judged: their losses are neither the policy's debt nor its credit.
    """
    pairs = int(learned["rules.pairs"])
    late = round((PPM - target_ppm) / PPM * pairs)
    return learned | {"late": np.array(late), "assumed": np.array([late, pairs])}


class Tidemark:
    """The live policy for one stream."""

    native = False

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._operator = setup.operator
        self._trigger_us = setup.trigger_us
        spacing_us, span = setup.key_spacing_us, setup.span_triggers
        granule_us = setup.cohort_us
        self._granule_us = granule_us
        self._future_us = FUTURE_COHORTS * granule_us
        late_share = (PPM - setup.target_ppm) / PPM
        self._rules = RuleSet(setup.trigger_us, setup.trigger_us / spacing_us, span, late_share)
        self._clock = StreamClock(setup.trigger_us, span, granule_us)
        self._missing = Missing(granule_us, setup.trigger_us, span)
        self._plain = PlainSpark(setup.trigger_us)
        good_windows = setup.objective == "timeslices"
        self._good_windows = GoodWindows(self._rules.rules, late_share) if good_windows else None
        share = (PPM - setup.good_windows_ppm) / PPM if good_windows else late_share
        self._span_us = round(span * setup.trigger_us)
        self._budget = RuleChooser(share, self._span_us, span)
        self._began_us: int | None = None
        self._elapsed_before = 0.0
        self._at_us = 0
        self._decided_us: int | None = None
        self._caught_up_us = 0
        self._delay_us = 0
        self._watermark_us = NO_BASE_US
        self._pending: list[tuple[int, int]] = []
        self._judging_us = NO_BASE_US
        self._newest_key_us = NO_BASE_US
        self._resting = False
        self._capped = False
        self._follows_plain = False
        self._late = 0
        self._assumed = 0, 0
        """Late pairs, and all pairs, of the account that it did not judge itself: see ``without_debt``."""
        self._choice: RuleChoice | None = None

    def learned(self) -> Arrays:
        """Return what it has learned, for ``resume`` of a policy for the same problem.

        Raises:
            ValueError: with the objective ``timeslices``, whose windows are not kept.
        """
        if self._good_windows is not None:
            raise ValueError("what was learned is kept for the objective occurrences alone")
        own = {
            "elapsed": np.array(self.age_triggers),
            "late": np.array(self._late),
            "assumed": np.array(self._assumed),
        }
        parts = {
            "rules": self._rules.learned(),
            "missing": self._missing.learned(),
            "feed": self._clock.feed.learned(),
            "budget": self._budget.learned(),
            "plain": self._plain.learned(),
        }
        return {name: array.copy() for name, array in (own | joined(parts)).items()}

    def resume(self, learned: Arrays) -> None:
        """Go on with what an earlier run learned, as if no time had passed since; before the first batch.

        Raises:
            ValueError: when it is not of this form.
        """
        checked(learned, {"elapsed": (), "late": (), "assumed": (2,)})
        self._rules.resume(part_of(learned, "rules"))
        self._missing.resume(part_of(learned, "missing"))
        self._clock.feed.resume(part_of(learned, "feed"))
        if len(learned["feed.lags"]) < len(learned["missing.rows"]):
            raise ValueError("it knows partitions of which it does not know how far behind they usually are")
        self._budget.resume(part_of(learned, "budget"))
        self._plain.resume(part_of(learned, "plain"))
        self._elapsed_before, self._late = float(learned["elapsed"]), int(learned["late"])
        self._assumed = int(learned["assumed"][0]), int(learned["assumed"][1])

    def observe(self, seen: Observation, *, representative: bool = True) -> None:
        """Observe a batch; those of a stream's first triggers are not counted: they read what waited for the job.

        Args:
            seen: what the batch showed.
            representative: whether its rows show how late rows usually come; else they show only how far the stream is.
        """
        if self._began_us is None and not len(seen.key_us):
            return
        self._catch_up(seen.now_us)
        clock_us = self._clock.at(seen.now_us)
        stream_us = int(clock_us[0])
        self._advance(stream_us)
        while self._pending and self._pending[0][0] < seen.now_us:
            self._judging_us = max(self._judging_us, self._pending.pop(0)[1])
        # Future-dated rows show nothing: Spark at 0 s would follow a wrong clock.
        past_us = seen.event_us[seen.event_us <= seen.now_us]
        self._plain.read(seen.now_us, int(past_us.max(initial=NO_BASE_US)))
        event_us, key_us = self._counted_by(seen)
        latest_us = seen.now_us + self._operator.span_us
        # Future-dated rows are never late, and show nothing about late rows.
        near = key_us <= latest_us + self._future_us
        if not near.any():
            return
        self._clock.feed.observe(seen)
        self._resting = False
        key, count = summed(key_us[near], seen.count[near])
        begun = key[: key.searchsorted(latest_us, side="right")]
        if len(begun):
            self._newest_key_us = max(self._newest_key_us, int(begun[-1]))
        if self._is_start(seen.now_us) or not representative:
            return
        if self._good_windows is not None:
            judging = np.append(self._rules.judging_us(seen.now_us), self._judging_us)
            self._good_windows.add(key, count, judging)
        self._rules.add(seen.now_us, clock_us, key, count)
        self._plain.add(key, count)
        self._late += pairs_up_to(self._judging_us, key, count)
        once = near if self._operator.max_keys == 1 else near & (key_us == self._first_key(event_us))
        if once is near or once.any():
            self._missing.add(stream_us, seen.partition[once], event_us[once], seen.count[once])

    def rest(self) -> None:
        """Let the clock run on until the next row: the source says that nothing is left to read."""
        self._resting = not self._clock.feed.delivers[STREAM]

    def decide(self, now_us: int, in_force_us: int) -> Decision:
        """Return the watermark for the time when the decision is in force."""
        if self._began_us is None:
            return Decision()
        if self._decided_us is None or now_us > self._decided_us:
            self._catch_up(now_us)
            self._delay_us = in_force_us - now_us
            self._step(now_us)
        return Decision() if self._watermark_us == NO_BASE_US else Decision(watermark_us=self._watermark_us)

    @property
    def wait_us(self) -> int:
        """For how long after its end it waits for a key that misses no rows, in microseconds; 0 before a decision."""
        if self._choice is None:
            return 0
        return round(self._rules.outlook(self._choice.rule).age * self._trigger_us)

    def explain(self) -> tuple[DecisionStep, ...]:
        """Return the reasons of the newest decision, first to last; empty before the first one."""
        if self._choice is None:
            return ()
        verdict = "the budget allows it"
        if not self._choice.within_budget:
            verdict = "the account is overdrawn, so little is spent"
        if self._follows_plain:
            verdict += ", and nothing closes before it would in plain Spark at 0 s, which had lost fewer rows"
        lag_us = self._clock.lag_us
        behind_step = (DecisionStep(StepKind.CATCHING_UP, None, behind(lag_us)),) if lag_us else ()
        rows_a_key = self._rules.rows_a_key(self.age_triggers)
        return (
            *self._learning_step(),
            *behind_step,
            DecisionStep(StepKind.BUDGET, None, self._budget_reason(self._choice.spent)),
            *rule_steps(self._setup, self._rules.outlook(self._choice.rule), rows_a_key, verdict),
            *self._cap_step(),
        )

    def summary(self, partitions: Sequence[str] = ()) -> str | None:
        """Return what it waits for, what that costs and what it loses, in one sentence; None before a decision.

        ``explain`` has the figures that lead to it.

        Args:
            partitions: names of the partitions, in order of their numbers.
        """
        if self._choice is None:
            return None
        if self._clock.lag_us:
            return behind(self._clock.lag_us)
        outlook = self._rules.outlook(self._choice.rule)
        return "; ".join(
            [
                waiting(self._operator, outlook, self.wait_us),
                *deliveries(self._clock.feed, partitions, self._span_us, waited_for=outlook.by_partitions),
            ]
        )

    def _budget_reason(self, spent: float) -> str:
        late, pairs = self._assumed
        losses = f"{self._late - late:,} of {self._rules.pairs - pairs:,} pairs were late"
        share, target = f"{100 * spent:.0f} %", format_target(self._setup.target_ppm)
        if not pairs:
            return f"{losses}, {share} of what the target {target} allows"
        return f"{losses} since it began with {pairs:,} earlier ones and an even account, of which {share} is spent"

    @property
    def knows_enough(self) -> bool:
        """Whether the stream has been seen for long enough to trust what it shows."""
        return not self._learning_step()

    def _learning_step(self) -> tuple[DecisionStep, ...]:
        if not self._rules.pairs:
            return (DecisionStep(StepKind.LEARNING, None, "no row has been counted yet"),)
        learning = learning_of(self._setup, self._rules.pairs, round(self.age_triggers * self._trigger_us))
        if learning is None or learning.enough:
            return ()
        keys = "windows" if isinstance(self._operator, TimeWindow) else "triggers"
        reason = (
            f"{learning.seen:,} of the {learning.needed:,} {keys} have passed that it needs before it trusts what it "
            "sees; until then they wait longer"
        )
        return (DecisionStep(StepKind.LEARNING, None, reason),)

    def _cap_step(self) -> tuple[DecisionStep, ...]:
        cap_us = self._setup.latency_cap_us
        if cap_us is None:
            return ()
        cap = f"no key waits longer than the cap of {format_about(cap_us)}"
        reason = f"{cap}, so more rows may be late" if self._capped else f"{cap}, and none would"
        return (DecisionStep(StepKind.LATENCY_CAP, None, reason),)

    def _is_start(self, now_us: int) -> bool:
        """Return whether the stream has just begun; after a restart the caller knows what waited for the job."""
        began_us = now_us if self._began_us is None else self._began_us
        return not self._elapsed_before and now_us <= began_us + PILED_UP_TRIGGERS * self._trigger_us

    def _counted_by(self, seen: Observation) -> tuple[Int64s, Int64s]:
        """Return cohort and key of each count, as this policy counts them, shape (counts,) each."""
        event_us = seen.event_us // self._granule_us * self._granule_us
        if isinstance(self._operator, TimeWindow):
            return event_us, seen.key_us
        return event_us, self._first_key(event_us)

    def _first_key(self, event_us: Int64s) -> Int64s:
        """Return the lowest key of each cohort: that of the window which closes first."""
        operator = self._operator
        match operator:
            case TimeWindow():
                offset = (operator.start_us + operator.size_us) % operator.slide_us
                first: Int64s = ((event_us - offset) // operator.slide_us + 1) * operator.slide_us + offset
                return first
            case SessionWindow():
                return event_us + operator.gap_us
            case RowLevel():
                return event_us

    def _advance(self, now_us: int) -> None:
        if self._began_us is None:
            self._began_us = self._at_us = now_us - self._trigger_us
        triggers = round((now_us - self._at_us) / self._trigger_us)
        if triggers <= 0:
            return
        self._at_us = now_us
        self._rules.advance(triggers, self.age_triggers)
        self._missing.advance(triggers, self._clock.outstanding(now_us))

    @property
    def age_triggers(self) -> float:
        """How much of the stream it has seen, in triggers, with what it resumed."""
        if self._began_us is None:
            return self._elapsed_before
        return self._elapsed_before + (self._at_us - self._began_us) / self._trigger_us

    def _catch_up(self, now_us: int) -> None:
        """Step through the time without decisions, so that rules close what they would have closed."""
        if self._decided_us is None:
            return
        at, step = max(self._decided_us, self._caught_up_us) + self._trigger_us, 1
        in_force_us, pending = self._watermark_us, len(self._pending)
        while at < now_us and len(self._rules.waits.key_us) and step < _IDLE_STEPS:
            self._step(at)
            at += self._trigger_us * max(1, step // 16)
            step += 1
        # Nobody asked, so no watermark of these steps ever was in force.
        self._watermark_us = in_force_us
        del self._pending[pending:]
        self._caught_up_us = now_us

    def _step(self, now_us: int) -> None:
        in_force_us = now_us + self._delay_us
        longest = self._rules.longest_hold(self.age_triggers, stopped=self._missing.stopped)
        # What a feed that has stopped may still send of its last window must fit into the budget.
        spare = (PPM - self._setup.target_ppm) / PPM * self._rules.pairs - self._late
        runs_on = self._resting or self._rules.rows_a_key(self.age_triggers) <= spare
        clock_us = self._clock.decide(now_us, in_force_us, longest, runs_on=runs_on)
        stream_us = min(now_us, int(clock_us[0]))
        self._advance(stream_us)
        self._rules.close(now_us)
        self._missing.close(stream_us, self._rules.waits.settled_us - self._operator.span_us + 1)
        missing = self._missing_by_key(stream_us, lambda: self._clock.patience(longest))
        age = self.age_triggers
        self._rules.decide(stream_us, in_force_us, clock_us, missing, elapsed=age, longest_hold=longest)
        self._choice = self._budget.choose(stream_us, self._account(), self._rules.waits.latency(now_us))
        self._rules.follow(self._budget.followed)
        required_us = int(self._rules.watermark_us[self._choice.rule])
        overdrawn = self._good_windows is None and not self._choice.within_budget
        self._follows_plain = overdrawn and self._late > self._plain.late
        if self._follows_plain:
            # From here on it loses no row that plain Spark keeps, so that what it has lost more grows no further.
            required_us = min(required_us, self._plain.watermark_us)
        if self._clock.silent and not self._resting:
            # The last windows of a feed that has stopped come out; what it may still send belongs to later ones.
            required_us = min(required_us, self._newest_key_us)
        if self._setup.latency_cap_us is not None:
            capped_us = in_force_us - self._setup.latency_cap_us - 1
            self._capped = capped_us > required_us
            required_us = max(required_us, capped_us)
        self._watermark_us = max(self._watermark_us, required_us)
        self._pending.append((in_force_us, self._watermark_us))
        self._decided_us = now_us

    def _missing_by_key(self, now_us: int, patience: Callable[[], Float64s]) -> Float64s:
        """Return how many rows each open key is missing, shape (keys,); keys that miss all their rows are opened."""
        feed = self._clock.feed
        behind_us = np.where(feed.behind, feed.base_us, NEVER_US) if feed.some_behind else None
        missing = self._missing.shortfall(now_us, patience, behind_us)
        (short,) = missing.nonzero()
        if not len(short):
            return np.zeros(len(self._rules.waits.key_us))
        first = self._first_key(self._missing.start_us[short])
        self._rules.waits.open(first[first_places(first)])
        keys = self._rules.waits.key_us
        if not len(keys):
            return np.zeros(0)
        at, open_ = places_in(keys, first)
        return np.bincount(at[open_], missing[short][open_], len(keys)).astype(np.float64)

    def _account(self) -> Account:
        rules = self._rules
        pairs_a_key = rules.rows_a_key(self.age_triggers)
        ahead_us = np.maximum(rules.watermark_us - max(self._watermark_us, rules.waits.done_us), 0)
        ahead = ahead_us / self._span_us
        if self._good_windows is not None:
            missed, windows = self._good_windows.missed(), float(self._good_windows.windows)
            # Single rows that come late miss no window, whatever the time of the day.
            none = np.zeros(rules.rules)
            at_stake = rules.at_stake / pairs_a_key
            return Account(windows, float(missed[-1]), missed[:-1], at_stake, none, 1.0, ahead)
        return Account(
            mass=float(rules.pairs),
            lost=float(self._late),
            lost_by_rule=rules.late,
            at_stake_by_rule=rules.at_stake,
            to_come_by_rule=rules.to_come,
            mass_a_key=pairs_a_key,
            spans_ahead=ahead,
            to_come_by_cycle=rules.to_come_by_cycle,
            late_share=rules.late_share,
        )
