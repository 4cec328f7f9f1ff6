"""The budget: which rule may be followed, so that the target holds whenever the stream should end.

For each price: the family (memory and hold) with the lowest cost so far, which is latency plus losses at that price.
Among the prices: the one with the lowest latency that the budget allows. Losses so far, the missing rows that the rule
does not wait for as far as such rows came before (``at_stake``), the rows that usually come for keys that it has
closed (``to_come``), and what it would lose if it goes on as before must fit into the budget of that time, less a
margin. Windows that end at one point between two triggers close at few different ages, so the next dearer price may
spend several times as much: then the two take turns, each for a span, in the proportion that spends the budget. The
losses of all rules on all arrivals are known, so no feedback loop has to correct its own error.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from tidemark.models.live.ages import Float64s
from tidemark.models.live.defaults import (
    AT_STAKE_PRIOR_KEYS,
    BUDGET_DEVIATIONS,
    CLUMP_MEMORY,
    CLUMP_SHARE,
    CYCLE_PRICES,
    FAMILIARITY_KEYS,
    LOSS_HALF_LIFE_SHARE,
    PATIENT_PRICES,
    PRICE_WAIT_SPANS,
    PRICES,
    REPAY_SHARE,
    SPENT_WHEN_OVERDRAWN,
)
from tidemark.models.live.learned import Arrays, checked, joined, part_of
from tidemark.models.live.rules import FAMILIES, FIRST_CYCLE_RULE

_USUAL_PRICES = len(PRICES) - CYCLE_PRICES - PATIENT_PRICES


@dataclass(frozen=True, slots=True)
class Account:
    """What the SLO has counted so far: pairs, or windows."""

    mass: float
    """Pairs that arrived (windows that ended)."""
    lost: float
    """Of these, lost (missed) by the policy itself."""
    lost_by_rule: Float64s
    """Of these, lost (missed) by each rule, shape (rules,)."""
    at_stake_by_rule: Float64s
    """What each rule will also have lost if the missing rows come, shape (rules,)."""
    to_come_by_rule: Float64s
    """What each rule will lose of keys that it has closed, as rows came for older ones, shape (rules,)."""
    mass_a_key: float
    """Mean number of pairs per key (1 for windows)."""
    spans_ahead: Float64s
    """By how many spans each rule's watermark is ahead of the policy's own, shape (rules,)."""
    to_come_by_cycle: Float64s = field(default_factory=lambda: np.zeros(FAMILIES * len(PRICES)))
    """What each rule will lose of keys that it has closed, as rows came in earlier periods, shape (rules,)."""
    late_share: Float64s | None = None
    """Share of the mass that the rules of the cycles lose in a period, shape (prices,); None without a cycle."""


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """The rule to follow, and why."""

    rule: int
    spent: float
    within_budget: bool
    """Whether the budget allows the rule; else it is the one that loses the fewest rows."""


def keys_until_trusted(share: float, mass_a_key: float) -> int:
    """Return after how many keys without a loss the budget allows the fastest rule: before, it is too little known.

    It is the smallest K with ``budget - BUDGET_DEVIATIONS * sqrt(budget) >= REPAY_SHARE * what a rule of the dearest
    price is assumed to spend in FAMILIARITY_KEYS``, where the budget is that of K keys (``RuleChooser``).
    """
    assumed = FAMILIARITY_KEYS * PRICES[-1] * REPAY_SHARE
    deviation = BUDGET_DEVIATIONS / math.sqrt(share * mass_a_key)
    root = (deviation + math.sqrt(deviation**2 + 4 * assumed)) / 2
    return math.ceil(round(root**2, 9))


class RuleChooser:
    """Chooses the rule of one stream within its error budget."""

    def __init__(self, share: float, span_us: int, span_triggers: float) -> None:
        rules = FAMILIES * len(PRICES)
        self._share = share
        self._span_us = span_us
        self._price_wait = PRICE_WAIT_SPANS * span_triggers
        self._price = np.tile(np.array(PRICES), FAMILIES)
        self._seen = np.zeros(rules)
        self._mass = 0.0
        self._recent_lost = np.zeros(rules)
        self._recent_mass = 0.0
        self._at_stake = AtStake(rules)
        self._clump = np.zeros(rules)
        self._clump_from = np.zeros(rules)
        self._clump_us: int | None = None
        self._turn_us: int | None = None
        self._turns_due = 0.0
        self._turn: int | None = None
        self.followed = np.arange(len(PRICES))
        """The best rule of each price but those of the cycles, shape (prices,)."""

    def choose(self, now_us: int, account: Account, waited: Float64s) -> RuleChoice:
        """Return the rule to follow, by each rule's latencies so far in triggers, summed over keys."""
        self._remember(now_us, account)
        # From here on, what is at stake is what is expected to come of it.
        to_come = self._at_stake.share_to_come(account.mass_a_key) * account.at_stake_by_rule
        account = replace(
            account,
            at_stake_by_rule=to_come + account.to_come_by_cycle,
            to_come_by_rule=np.maximum(account.to_come_by_rule - account.to_come_by_cycle, 0),
        )
        best = self._best_of_each_price(account, waited)
        allowed = self._share * account.mass
        if account.late_share is None:
            best = best[CYCLE_PRICES:]
        usual = best[(best >= FIRST_CYCLE_RULE) | (np.arange(len(best)) >= len(best) - _USUAL_PRICES)]
        fits = self._foreseen(account, usual, careful=True) <= self._allowed(account)
        if fits.any():
            rules = usual[np.flatnonzero(fits)[-1] :][:2]
            rule, within_budget = int(rules[-1 if self._takes_turn(now_us, account, rules) else 0]), True
        else:
            rule, within_budget = self._repaying(account, best), False
        return RuleChoice(rule, account.lost / max(allowed, 1e-9), within_budget)

    def learned(self) -> Arrays:
        """Return what each rule has lost, recently and at once, and what became of rows at stake."""
        own = {
            "seen": self._seen,
            "mass": np.array(self._mass),
            "recent_lost": self._recent_lost,
            "recent_mass": np.array(self._recent_mass),
            "clump": np.maximum(self._clump, self._seen - self._clump_from),
        }
        return own | joined({"at_stake": self._at_stake.learned()})

    def resume(self, learned: Arrays) -> None:
        """Go on with what an earlier run learned."""
        rules = self._seen.shape
        shapes = {"seen": rules, "mass": (), "recent_lost": rules, "recent_mass": (), "clump": rules}
        checked(learned, shapes)
        self._at_stake.resume(part_of(learned, "at_stake"))
        self._seen, self._mass = learned["seen"].copy(), float(learned["mass"])
        self._recent_lost, self._recent_mass = learned["recent_lost"].copy(), float(learned["recent_mass"])
        self._clump, self._clump_from = learned["clump"].copy(), self._seen.copy()

    def _remember(self, now_us: int, account: Account) -> None:
        lost = account.lost_by_rule - self._seen
        mass = account.mass - self._mass
        decay = 0.5 ** (mass / max(LOSS_HALF_LIFE_SHARE * account.mass, 1))
        self._at_stake.add(account.at_stake_by_rule, lost)
        self._recent_lost = self._recent_lost * decay + lost
        self._recent_mass = self._recent_mass * decay + mass
        self._seen, self._mass = account.lost_by_rule.copy(), account.mass
        if self._clump_us is None:
            self._clump_us = now_us
        if now_us - self._clump_us >= self._span_us:
            self._clump = np.maximum(self._clump * CLUMP_MEMORY, self._seen - self._clump_from)
            self._clump_from, self._clump_us = self._seen.copy(), now_us

    def _best_of_each_price(self, account: Account, waited: Float64s) -> NDArray[np.intp]:
        """Return the rule of the family with the lowest cost, for each price, shape (prices,)."""
        worth = self._price_wait / (self._price * self._share * account.mass_a_key)
        cost = waited + worth * (account.lost_by_rule + account.at_stake_by_rule)
        if account.late_share is None:
            cost[FIRST_CYCLE_RULE:] = math.inf
        by_family = cost.reshape(FAMILIES, -1)
        by_family[:-1, :CYCLE_PRICES] = math.inf
        price = np.arange(len(PRICES))
        own = by_family[:-1, CYCLE_PRICES:].argmin(axis=0) * len(PRICES) + price[CYCLE_PRICES:]
        self.followed = np.concatenate([own[:1].repeat(CYCLE_PRICES), own])
        family = by_family.argmin(axis=0)
        best: NDArray[np.intp] = family * len(PRICES) + price
        return best

    def _repaying(self, account: Account, rules: NDArray[np.intp]) -> int:
        """Return the fastest rule that lets the account recover, else the one that loses the fewest rows.

        A patient one is taken only where all others lose more than the budget.
        """
        pace = self._pace(account, rules, foreseen=True)
        if pace[-_USUAL_PRICES:].min() <= self._share:
            rules, pace = rules[-_USUAL_PRICES:], pace[-_USUAL_PRICES:]
        saving = np.flatnonzero(pace <= SPENT_WHEN_OVERDRAWN * self._share)
        return int(rules[saving[-1] if len(saving) else pace.argmin()])

    def _takes_turn(self, now_us: int, account: Account, rules: NDArray[np.intp]) -> bool:
        """Return whether the second of two rules, which spends too much all the time, is followed in this span.

        A turn is one price's: within the span another one may have become the next. It closes at once what that price
        has closed before, and counts for so many spans.
        """
        if len(rules) < 2:
            return False
        price = int(rules[1]) % len(PRICES)
        if self._turn_us is not None and now_us - self._turn_us < self._span_us:
            return self._turn == price
        self._turn_us = now_us
        allowed = self._allowed(account)
        foreseen = self._foreseen(account, rules, careful=False) + self._unfamiliar(account, rules)
        share = (allowed - foreseen[0]) / max(foreseen[1] - foreseen[0], 1e-9)
        self._turns_due += min(max(share, 0.0), 1.0)
        dearer = rules[1:]
        spans = 1 + float(account.spans_ahead[dearer[0]])
        at_once = spans * self._clumps(dearer)[0] + account.at_stake_by_rule[dearer][0]
        room = allowed - self._share * REPAY_SHARE * account.mass - account.lost
        takes_turn = self._turns_due >= 1 and bool(at_once + self._unfamiliar(account, dearer)[0] <= room)
        self._turn = price if takes_turn else None
        # Turns that could not be taken are not saved up.
        self._turns_due = self._turns_due - spans if takes_turn else min(self._turns_due, 1.0)
        return takes_turn

    def _clumps(self, rules: NDArray[np.intp]) -> Float64s:
        """Return the largest loss of each rule within a span, shape (rules,)."""
        clumps: Float64s = np.maximum(self._clump, self._seen - self._clump_from)[rules]
        return clumps

    def _unfamiliar(self, account: Account, rules: NDArray[np.intp]) -> Float64s:
        """Return what each rule is assumed to spend by its price before it is known, shape (rules,)."""
        spent: Float64s = (
            FAMILIARITY_KEYS * self._price[rules] * self._share * account.mass_a_key * REPAY_SHARE
        )
        return spent

    def _allowed(self, account: Account) -> float:
        """Return what may be lost by the time when the mass has grown by ``REPAY_SHARE``."""
        budget = self._share * account.mass
        return budget * (1 + REPAY_SHARE) - BUDGET_DEVIATIONS * math.sqrt(budget)

    def _pace(self, account: Account, rules: NDArray[np.intp], *, foreseen: bool = False) -> Float64s:
        """Return the share of the mass that each rule loses, recently or in all, whichever is worse, shape (rules,).

        For the rules of the cycles what the longest one foresees counts too, or (``foreseen``) in place of all:
        what they lost before it was known says nothing of what they lose now.
        """
        ever = account.lost_by_rule / max(account.mass, 1)
        if (share := account.late_share) is not None:
            ever[FIRST_CYCLE_RULE:] = share if foreseen else np.maximum(ever[FIRST_CYCLE_RULE:], share)
        pace: Float64s = np.maximum(self._recent_lost[rules] / max(self._recent_mass, 1), ever[rules])
        return pace

    def _foreseen(self, account: Account, rules: NDArray[np.intp], *, careful: bool) -> Float64s:
        """Return what would be lost by the time when the mass has grown by ``REPAY_SHARE``, shape (rules,)."""
        ahead = REPAY_SHARE * account.mass
        closed = account.lost + account.at_stake_by_rule[rules] + account.to_come_by_rule[rules]
        foreseen = closed + self._pace(account, rules) * ahead
        if careful:
            clump = CLUMP_SHARE * self._clumps(rules)
            foreseen = np.maximum(foreseen, account.lost + clump + self._share * ahead)
            foreseen = foreseen + self._unfamiliar(account, rules)
        return foreseen


class AtStake:
    """Follows what becomes of the rows at stake, for ``rules`` rules."""

    def __init__(self, rules: int) -> None:
        self._rows = np.zeros(rules)
        self._came = 0.0
        self._dropped = 0.0

    def add(self, rows: Float64s, lost: Float64s) -> None:
        """Add what is at stake now, and what was lost since the last call, shape (rules,) each.

        Rows that are no longer at stake have come as far as rows were lost; the rest no longer counts as missing.
        """
        if self._rows.any():
            settled = np.maximum(self._rows - rows, 0)
            came = np.minimum(settled, lost)
            self._came += float(came.mean())
            self._dropped += float((settled - came).mean())
        self._rows = rows

    def share_to_come(self, mass_a_key: float) -> float:
        """Return the share of the rows at stake that is expected to come: one half before anything is known."""
        prior = AT_STAKE_PRIOR_KEYS * mass_a_key
        return (self._came + prior / 2) / (self._came + self._dropped + prior)

    def learned(self) -> Arrays:
        """Return how many came, and how many did not."""
        return {"came": np.array(self._came), "dropped": np.array(self._dropped)}

    def resume(self, learned: Arrays) -> None:
        """Go on with what an earlier run learned."""
        checked(learned, {"came": (), "dropped": ()})
        self._came, self._dropped = float(learned["came"]), float(learned["dropped"])
