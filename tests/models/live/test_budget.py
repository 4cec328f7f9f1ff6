"""The budget: accounts made by hand, and the rule that may be followed under them."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidemark.models.live import budget as module
from tidemark.models.live.budget import Account, RuleChoice, RuleChooser
from tidemark.models.live.defaults import PATIENT_PRICES, PRICES, REPAY_SHARE
from tidemark.models.live.rules import FAMILIES

from support.examples import examples

RULES = FAMILIES * len(PRICES)
PRICE = np.arange(RULES) % len(PRICES) - PATIENT_PRICES
"""Place of each rule's price, the lowest first; those of the patient ones are below 0."""
DEAREST = int(PRICE.max())
NOTHING: NDArray[np.float64] = np.zeros(RULES)
SHARE = 0.01
SPAN_US = 10_000_000
MASS = 1e8
"""Rows, so many that margins for chance are nothing beside the budget."""
A_KEY = 1e3
WAITED: NDArray[np.float64] = 1e6 / (1 + PATIENT_PRICES + PRICE)
"""A dearer wait is a shorter one."""


def account(lost: float, by_rule: NDArray[np.float64], mass: float = MASS) -> Account:
    """Return an account; losses are shares of the budget."""
    budget = SHARE * mass
    return Account(mass, lost * budget, by_rule * budget, NOTHING, NOTHING, A_KEY, NOTHING)


def stream(
    lost: float, pace: Callable[[int], NDArray[np.float64]], mass: float = MASS, spans: int = 200
) -> list[Account]:
    """Return the accounts of a stream that ends with ``mass`` rows, one a span.

    Args:
        lost: what the policy itself loses, as a share of the budget.
        pace: what each rule loses in a span, as a share of the span's budget.
    """
    a_span = SHARE * mass / spans
    by_rule: NDArray[np.float64] = np.cumsum([pace(span) * a_span for span in range(spans)], axis=0)
    return [
        Account(
            (1 + span) * mass / spans,
            lost * (1 + span) * a_span,
            by_rule[span],
            NOTHING,
            NOTHING,
            A_KEY,
            NOTHING,
        )
        for span in range(spans)
    ]


def chosen(*accounts: Account, step_us: int = SPAN_US, waited: NDArray[np.float64] = WAITED) -> RuleChoice:
    """Return the last choice, of one an account."""
    budget = RuleChooser(SHARE, SPAN_US, 10.0)
    found = [budget.choose((1 + at) * step_us, one, waited) for at, one in enumerate(accounts)]
    return found[-1]


def between_turns(*accounts: Account) -> int:
    """Return the price that is followed at the end while the next dearer one does not have its turn."""
    budget = RuleChooser(SHARE, SPAN_US, 10.0)
    found = [budget.choose((1 + at) * SPAN_US, one, WAITED).rule for at, one in enumerate(accounts)]
    return int(PRICE[found[-10:]].min())


RISING: NDArray[np.float64] = 0.25 * np.maximum(1.0 + PRICE, 0)
"""Of the budget, what each rule has lost: all of it with the fourth price."""


# -- the account ---------------------------------------------------------------------------------------------


def test_the_dearest_price_that_the_budget_bears_is_followed() -> None:
    """With an even account, that which loses no more than the budget as it goes on; the next one takes turns."""
    choice = chosen(*stream(0.9, lambda _: RISING))
    assert choice.within_budget
    assert PRICE[choice.rule] in {3, 4}
    assert choice.spent == pytest.approx(0.9)


@pytest.mark.parametrize("lost", [0.0, 0.3, 0.5, 0.8, 0.95, 0.99])
def test_what_was_not_lost_yet_may_be_lost_by_a_dearer_price(lost: float) -> None:
    """Over half as much mass again: what is unspent comes on top of what the mass to come allows.

    The next dearer price may have its turn just now.
    """
    choice = chosen(*stream(lost, lambda _: RISING))
    allowed = (1 + REPAY_SHARE - lost) / REPAY_SHARE
    assert RISING[choice.rule] - 0.25 <= allowed <= RISING[choice.rule] + 0.26


@examples(60)
@given(
    lost=st.floats(0, 3),
    by_rule=st.lists(st.floats(0, 5), min_size=RULES, max_size=RULES),
    mass=st.sampled_from([1e2, 1e4, 1e8]),
    spans=st.integers(1, 12),
)
def test_a_rule_is_only_followed_if_what_it_would_lose_fits(
    lost: float, by_rule: list[float], mass: float, spans: int
) -> None:
    """What was lost and what the rule would lose as it did, by the time that the mass has grown."""
    one = account(lost, np.array(by_rule), mass)
    choice = chosen(*[one] * spans)
    assert choice.spent == pytest.approx(lost)
    if choice.within_budget:
        assert lost + by_rule[choice.rule] * REPAY_SHARE <= 1 + REPAY_SHARE


def test_what_is_still_to_come_for_keys_that_are_closed_is_spent_already() -> None:
    """Otherwise a stream whose last rows come back after hours is within its budget until they do."""
    accounts = stream(0.9, lambda _: RISING)
    to_come = np.where(PRICE >= 3, REPAY_SHARE * SHARE, 0)
    owing = [replace(one, to_come_by_rule=to_come * one.mass) for one in accounts]
    assert between_turns(*accounts) == 3
    assert between_turns(*owing) == 2


def test_when_nothing_fits_the_rule_that_loses_least_is_followed() -> None:
    by_rule = 2 + RISING
    by_rule[PRICE == 7] = 1.5
    choice = chosen(account(3, by_rule))
    assert not choice.within_budget
    assert PRICE[choice.rule] == 7
    assert choice.spent == pytest.approx(3)


def test_the_worse_of_ever_and_lately_counts() -> None:
    """A rule that lost little for long and loses much of late is not believed to go on losing the mean of both."""

    def changing(span: int) -> NDArray[np.float64]:
        return np.where(PRICE >= 4, 0.2 if span < 120 else 3.0, 0.2)

    def even(span: int) -> NDArray[np.float64]:
        return np.where(PRICE >= 4, 0.6 * 0.2 + 0.4 * 3, 0.2)

    assert between_turns(*stream(0.6, changing)) == 3
    assert between_turns(*stream(0.6, even)) == DEAREST


def test_a_rule_that_lost_much_long_ago_is_not_believed_to_lose_little() -> None:
    """The other way round the mean counts: what lost much once may do so again."""

    def improving(span: int) -> NDArray[np.float64]:
        return np.where(PRICE >= 4, 4.0 if span < 120 else 0.2, 0.2)

    assert between_turns(*stream(0.6, improving)) == 3


def test_what_comes_in_clumps_needs_room_for_one() -> None:
    """Of two rules with the same losses in all, the one that has them at once is not followed where room is scarce."""

    def even(span: int) -> NDArray[np.float64]:
        return np.where(PRICE >= 4, 0.85, 0.2)

    def clumped(span: int) -> NDArray[np.float64]:
        return np.where(PRICE >= 4, 0.85 * 200 if span == 160 else 0, 0.2)

    assert PRICE[chosen(*stream(0.9, even)).rule] == DEAREST
    assert PRICE[chosen(*stream(0.9, clumped)).rule] == 3


@pytest.mark.parametrize("lost", [0.8, 0.9, 0.99])
def test_few_rows_need_a_margin_for_chance(lost: float) -> None:
    """Of a hundred late rows ten come by chance; of a million a thousand."""
    few, many = (between_turns(*stream(lost, lambda _: RISING, mass)) for mass in (1e4, 1e8))
    assert few <= many


def test_at_first_a_price_is_believed_to_spend_as_it_says() -> None:
    """Nobody has lost anything after two keys, which says nothing: only prices far below the budget are followed."""
    young = Account(2 * A_KEY, 0, NOTHING, NOTHING, NOTHING, A_KEY, NOTHING)
    old = replace(young, mass=1_000 * A_KEY)
    price = [PRICES[chosen(one).rule % len(PRICES)] for one in (young, old)]
    assert price[0] < 1
    assert price[1] == PRICES[-1]


def test_before_anything_came_a_rule_is_still_chosen() -> None:
    choice = chosen(Account(0, 0, NOTHING, NOTHING, NOTHING, 1e-9, NOTHING), waited=NOTHING)
    assert 0 <= choice.rule < RULES
    assert choice.spent == 0


# -- patient prices ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("others_lose", "patient"), [(0.9, False), (1.1, True)])
def test_patient_prices_are_followed_only_while_all_others_lose_more_than_the_budget(
    others_lose: float, patient: bool
) -> None:
    choice = chosen(*stream(1.5, lambda _: np.where(PRICE < 0, 0.1, others_lose)))
    assert not choice.within_budget
    assert (PRICE[choice.rule] < 0) == patient


def test_a_patient_price_is_not_followed_because_the_others_are_unknown_yet() -> None:
    assert PRICE[chosen(account(0.0, NOTHING, mass=A_KEY)).rule] >= 0


# -- turns ---------------------------------------------------------------------------------------------------


def turns(spans: int, ahead: float = 0.0, pace: tuple[float, float] = (0.3, 2.6)) -> tuple[list[int], float]:
    """Return the price followed in each span, and the share of the budget that is spent in the end.

    Prices up to the fourth lose the first of ``pace`` of a span's budget, the others the second, which also close
    ``ahead`` keys at once when they take over. A span has one key.
    """
    budget = RuleChooser(SHARE, SPAN_US, 10.0)
    a_span = SHARE * A_KEY
    lost_a_span = np.where(PRICE > 3, pace[1], pace[0]) * a_span
    lost, followed = 0.0, [0]
    for span in range(1, spans + 1):
        beyond = np.where((PRICE > 3) & (followed[-1] <= 3), ahead, 0.0)
        now = Account(span * A_KEY, lost, span * lost_a_span, NOTHING, NOTHING, A_KEY, beyond)
        followed.append(int(PRICE[budget.choose(span * SPAN_US, now, WAITED).rule]))
        rule = PATIENT_PRICES + followed[-1]
        lost += lost_a_span[rule] * (1 + beyond[rule])
    return followed, lost / (spans * a_span)


def test_two_prices_take_turns_where_the_one_spends_too_little_and_the_next_too_much() -> None:
    followed, spent = turns(2_000)
    assert set(followed[1_000:]) == {3, 4}
    assert 0.9 < spent <= 1


@pytest.mark.parametrize("ahead", [3.0, 30.0])
def test_a_turn_counts_for_all_the_keys_that_it_closes_at_once(ahead: float) -> None:
    followed, spent = turns(2_000, ahead)
    alone, _ = turns(2_000)
    assert spent <= 1
    assert followed[1_000:].count(4) < alone[1_000:].count(4) / ahead


def test_a_turn_is_not_passed_on_to_another_price_within_the_span() -> None:
    """When the price that has its turn fits by itself, the next dearer one still has none."""
    budget = RuleChooser(SHARE, SPAN_US, 10.0)
    a_span = SHARE * A_KEY
    pace = np.select([PRICE <= 3, PRICE == 4], [0.3, 2.6], 10.0) * a_span
    for span in range(1, 1_000):
        now = Account(span * A_KEY, 0.8 * span * a_span, span * pace, NOTHING, NOTHING, A_KEY, NOTHING)
        if PRICE[budget.choose(span * SPAN_US, now, WAITED).rule] == 4:
            break
    else:
        pytest.fail("no turn was taken")
    rich = replace(now, lost=0.0)
    assert PRICE[budget.choose(span * SPAN_US + 1, rich, WAITED).rule] == 4


def test_no_turn_is_taken_that_the_budget_has_no_room_for() -> None:
    followed, spent = turns(200, ahead=1e6)
    assert max(followed) <= 3
    assert spent < 0.5


# -- missing rows --------------------------------------------------------------------------------------------


def letting_go(at_stake: float, *, before: float = 0.0) -> int:
    """Return the price that is followed where the dearer ones let rows go.

    All prices lose the same. At stake is a multiple of twice what there is room for; ``before``, in rows, is what was
    at stake once and never came.
    """
    lost = 0.5
    room = 1 + REPAY_SHARE * (1 - lost) - lost
    story = stream(lost, lambda _: np.full(RULES, lost))
    dear = np.where(PRICE >= 4, 1.0, 0.0)
    story[100] = replace(story[100], at_stake_by_rule=before * dear)
    story[-1] = replace(story[-1], at_stake_by_rule=at_stake * 2 * room * SHARE * MASS * dear)
    return int(PRICE[chosen(*story).rule])


@pytest.mark.parametrize(("at_stake", "fits"), [(0.9, True), (1.1, False)])
def test_a_rule_that_lets_missing_rows_go_needs_room_for_half_of_them(at_stake: float, fits: bool) -> None:
    assert (letting_go(at_stake) == DEAREST) == fits


def test_missing_rows_need_less_room_where_such_rows_never_came() -> None:
    assert letting_go(1.1) < DEAREST
    assert letting_go(1.1, before=20 * A_KEY) == DEAREST


def test_a_turn_is_not_taken_while_the_rows_it_lets_go_have_no_room() -> None:
    budget = RuleChooser(SHARE, SPAN_US, 10.0)
    a_span = SHARE * A_KEY
    lost_a_span = np.where(PRICE > 3, 2.6, 0.3) * a_span
    turns_taken = 0
    for span in range(1, 300):
        now = Account(span * A_KEY, 0.8 * span * a_span, span * lost_a_span, NOTHING, NOTHING, A_KEY, NOTHING)
        in_a_stall = replace(now, at_stake_by_rule=np.where(PRICE > 3, span * a_span, 0.0))
        held = deepcopy(budget).choose(span * SPAN_US, in_a_stall, WAITED).rule
        if PRICE[budget.choose(span * SPAN_US, now, WAITED).rule] > 3:
            turns_taken += 1
            assert PRICE[held] <= 3
    assert turns_taken > 10


# -- families ------------------------------------------------------------------------------------------------


def test_of_one_price_the_family_that_costs_least_is_followed() -> None:
    """Latency plus losses at that price."""
    fast = np.arange(RULES) // len(PRICES) == 3
    choice = chosen(account(0.9, RISING), waited=np.where(fast, 0.8, 1.0) * WAITED)
    assert choice.rule // len(PRICES) == 3
    at_a_loss = np.where(fast, 50 * RISING, RISING)
    assert chosen(account(0.9, at_a_loss), waited=np.where(fast, 0.8, 1.0) * WAITED).rule // len(PRICES) != 3


def test_what_is_at_stake_counts_as_lost_when_families_are_compared() -> None:
    """A rule that has closed keys whose rows are missing is cheap only as long as they do not come."""
    even = account(0.9, RISING)
    first = chosen(even).rule // len(PRICES)
    staked = np.where(np.arange(RULES) // len(PRICES) == first, 1e6, 0.0)
    assert chosen(replace(even, at_stake_by_rule=staked)).rule // len(PRICES) != first


# -- scaling -------------------------------------------------------------------------------------------------

stories = st.lists(st.tuples(st.floats(0.0, 2.0), st.integers(0, 2**32 - 1)), min_size=1, max_size=10)


def story(drawn: list[tuple[float, int]], scale: float = 1.0) -> list[Account]:
    """Return accounts that grow, with losses drawn for each rule; every number of rows times ``scale``."""
    accounts: list[Account] = []
    lost, by_rule = 0.0, np.zeros(RULES)
    for at, (own, seed) in enumerate(drawn):
        dice = np.random.default_rng(seed)
        lost += own * SHARE * MASS
        by_rule = by_rule + dice.exponential(SHARE * MASS, RULES) * dice.random()
        accounts.append(
            Account(
                (1 + at) * MASS * scale,
                lost * scale,
                by_rule * scale,
                NOTHING,
                NOTHING,
                A_KEY * scale,
                NOTHING,
            )
        )
    return accounts


@examples(60)
@given(drawn=stories, power=st.integers(-8, 12))
def test_the_choice_is_the_same_for_a_stream_of_many_times_the_rows(
    drawn: list[tuple[float, int]], power: int
) -> None:
    """But for the margin for chance, which many rows need less of; powers of two, so that nothing is rounded."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "BUDGET_DEVIATIONS", 0.0)
        assert chosen(*story(drawn)) == chosen(*story(drawn, 2.0**power))
