"""What Live keeps at least, whatever happens before it: the target, or what plain Spark keeps at a bound of 0 s.

Behind a queue, after an outage, with a partition that stalls, all at once: the rows of one window at most may be
missing from it, since a live watermark is decided before the feed falls behind. Each further time may cost another.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidemark.models.backtest.arrivals import Arrivals
from tidemark.models.backtest.run import run, run_native, score
from tidemark.models.base.operators import TimeWindow
from tidemark.models.live.policy import Decision, Setup
from tidemark.models.live.tidemark import Tidemark

from support.policy_bench import ALL_KINDS, Cell
from support.short_streams import counted, setup
from support.soak import with_soak
from support.streams import SECOND
from support.synthetic import START_US, Rows, Trace, even_times, fifo, usual_delay
from support.system_kinds import window_us_of

pytestmark = pytest.mark.slow

RATE = 20
SERVED = 4 * RATE


def _trace(
    seed: int, spikes: list[tuple[int, int, int]], outages: list[tuple[int, int]], stall: int
) -> Trace:
    """Return twenty minutes of rows.

    Args:
        seed: of every draw.
        spikes: when traffic is how many times the usual, and for how many seconds, before a queue that serves four
            times the usual.
        outages: when nothing is read, and for how many seconds.
        stall: for how many seconds one of the partitions sends nothing.
    """
    rng = np.random.default_rng(seed)
    more = [at + even_times(rng, (factor - 1) * RATE, lasts) for at, factor, lasts in spikes]
    event_s = np.sort(np.concatenate([even_times(rng, RATE, 1_200), *more]))
    partition = rng.integers(4, size=len(event_s))
    stopped = np.array([(at, at + lasts) for at, lasts in sorted(outages)], np.float64).reshape(-1, 2)
    entered = event_s + usual_delay(rng, len(event_s))
    stalls = (partition == 0) & (entered >= 700) & (entered < 700 + stall)
    entered[stalls] = 700 + stall + rng.uniform(0, 1, int(stalls.sum()))
    return Rows(event_s, fifo(entered, stopped, SERVED), partition).trace(START_US)


moments = st.integers(200, 1_000)


@pytest.mark.long
@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    spikes=st.lists(st.tuples(moments, st.integers(2, 20), st.integers(5, 90)), max_size=1),
    outages=st.lists(st.tuples(moments, st.integers(5, 150)), max_size=1),
    stall=st.sampled_from([0, 0, 40]),
    target_ppm=st.sampled_from([990_000, 999_000]),
)
@example(seed=1, spikes=[(400, 20, 60)], outages=[], stall=0, target_ppm=990_000)
@example(seed=2, spikes=[], outages=[(600, 120)], stall=0, target_ppm=999_000)
def test_live_keeps_the_target_or_what_plain_spark_keeps_but_for_one_window(
    seed: int,
    spikes: list[tuple[int, int, int]],
    outages: list[tuple[int, int]],
    stall: int,
    target_ppm: int,
) -> None:
    asked = setup(target_ppm=target_ppm)
    arrivals = counted(_trace(seed, spikes, outages, stall), asked)
    live = score(arrivals, asked, run(arrivals, asked, Tidemark(asked)))
    plain = score(arrivals, asked, run_native(arrivals, asked, 0))
    slack = int(arrivals.pairs_by_key.max())
    floor = min(target_ppm / 1_000_000, plain.completeness)
    assert live.pairs - live.late + slack >= floor * live.pairs


def test_behind_a_full_queue_live_is_about_as_fast_as_plain_spark() -> None:
    """It does not wait for rows as if they were late: it follows them."""
    asked = setup()
    arrivals = counted(_trace(1, [(400, 20, 60)], [], 0), asked)
    live = score(arrivals, asked, run(arrivals, asked, Tidemark(asked)))
    plain = score(arrivals, asked, run_native(arrivals, asked, 0))
    assert live.latency_mean_us is not None
    assert plain.latency_mean_us is not None
    assert plain.latency_mean_us > 30 * SECOND
    assert live.latency_mean_us < 1.15 * plain.latency_mean_us


def test_after_an_outage_windows_do_not_wait_as_if_rows_were_that_late() -> None:
    """What waited together is one event: a quarter of an hour after it all is as it was before."""
    asked = setup(target_ppm=999_000)
    arrivals = counted(_trace(2, [], [(400, 150)], 0), asked)
    found = run(arrivals, asked, Tidemark(asked))
    waited_us = found.emit_wall_us - arrivals.keys_us
    after = arrivals.keys_us > START_US + 600 * SECOND
    assert np.median(waited_us[after]) < 6 * SECOND


class _Accounted(Tidemark):
    """A policy that writes down, at each decision, what it and plain Spark have lost."""

    def __init__(self, asked: Setup) -> None:
        super().__init__(asked)
        self._share = (1_000_000 - asked.target_ppm) / 1_000_000
        self.follows_plain: list[bool] = []
        self.decided_us: list[int] = []
        self.accounts: list[tuple[int, int, float]] = []
        """Rows that it has lost, that plain Spark has lost, and that the budget allows."""
        self.watermarks_us: list[tuple[int, int]] = []
        """Its own after each decision, and that of plain Spark."""

    def decide(self, now_us: int, in_force_us: int) -> Decision:
        decision = super().decide(now_us, in_force_us)
        self.decided_us.append(now_us)
        self.follows_plain.append(self._follows_plain)
        self.accounts.append((self._late, self._plain.late, self._share * self._rules.pairs))
        self.watermarks_us.append((self._watermark_us, self._plain.watermark_us))
        return decision


def _half_an_hour(kind: str, triggers: float, target_ppm: int = 990_000) -> tuple[Setup, Arrivals]:
    """Return half an hour of a kind, and what was asked of it, with so many triggers a window."""
    window_us = window_us_of(kind)
    cell = Cell(kind, 101, window_us, int(window_us / triggers), seconds=1_800)
    operator = TimeWindow(window_us, window_us)
    asked = replace(setup(target_ppm=target_ppm), operator=operator, trigger_us=cell.trigger_us)
    return asked, counted(cell.trace(), asked)


@pytest.mark.parametrize("triggers", [2, 10])
@pytest.mark.parametrize("kind", ["outages", "sparse"])
def test_what_live_says_that_it_lost_is_what_was_lost_also_after_pauses_without_decisions(
    kind: str, triggers: float
) -> None:
    """In a pause no watermark is in force that nobody asked for."""
    asked, arrivals = _half_an_hour(kind, triggers, target_ppm=999_000)
    policy = _Accounted(asked)
    assert run(arrivals, asked, policy).late == policy.accounts[-1][0]


@pytest.mark.parametrize("kind", with_soak(ALL_KINDS, [kind for kind in ALL_KINDS if kind != "growth"]))
@pytest.mark.parametrize("triggers", [0.5, 2, 10])
def test_once_live_has_lost_more_than_the_budget_and_than_plain_spark_it_loses_what_plain_spark_loses(
    kind: str, triggers: float
) -> None:
    """Rows of the windows that it has closed by then apart: it goes on from there."""
    asked, arrivals = _half_an_hour(kind, triggers)
    policy = _Accounted(asked)
    late = run(arrivals, asked, policy).late
    plain_late = run_native(arrivals, asked, 0).late

    lost, plain, budget = np.array(policy.accounts).T
    own_us, plain_us = np.array(policy.watermarks_us).T
    follows = np.array(policy.follows_plain)
    assert (lost <= np.maximum(plain, budget))[~follows].all()
    assert (own_us[1:] <= np.maximum(own_us[:-1], plain_us[1:]))[follows[1:]].all()
    since = np.flatnonzero(~follows)[-1]
    came_us = arrivals.first_us + (arrivals.slot + 1) * asked.trigger_us
    closed = (came_us > policy.decided_us[since]) & (arrivals.key_us <= own_us[since])
    assert late <= lost[since] + int(arrivals.count[closed].sum()) + plain_late - plain[since]
