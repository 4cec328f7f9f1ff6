"""The reasons of the live policy, and what it counts for them."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tidemark.models.backtest.run import run
from tidemark.models.live.defaults import PILED_UP_TRIGGERS
from tidemark.models.live.policy import Decision, Observation
from tidemark.models.live.tidemark import Tidemark

from support.seen import drawn_batches
from support.short_streams import counted, setup, short_trace
from support.streams import SECOND

pytestmark = pytest.mark.slow


def test_before_the_first_decision_there_is_nothing_to_explain() -> None:
    policy = Tidemark(setup())
    assert policy.explain() == ()
    assert policy.decide(0, 0) == Decision()
    policy.observe(Observation(now_us=SECOND))
    assert policy.decide(SECOND, SECOND) == Decision()
    assert policy.explain() == ()


def test_a_decision_explains_itself_by_budget_rule_age_and_hold_with_figures() -> None:
    policy = Tidemark(setup())
    batches = drawn_batches(7, 400, step_us=SECOND)
    for seen in batches:
        policy.observe(seen)
        policy.decide(seen.now_us, seen.now_us + 2 * SECOND)
    pairs = sum(int(seen.count.sum()) for seen in batches[PILED_UP_TRIGGERS:])
    steps = {step.kind.label: step.reason for step in policy.explain()}
    assert list(steps) == ["budget", "rule", "age", "hold"]
    assert f"of {pairs:,} pairs were late" in steps["budget"]
    assert "0.99" in steps["budget"] or "99 %" in steps["budget"]
    assert "price" in steps["rule"]
    assert all(any(letter.isdigit() for letter in steps[name]) for name in ("budget", "rule", "age"))
    assert "missing" in steps["hold"]


def test_a_young_stream_says_first_how_many_windows_it_still_needs() -> None:
    policy, found = Tidemark(setup()), []
    for seen in drawn_batches(7, 600, step_us=SECOND):
        policy.observe(seen)
        policy.decide(seen.now_us, seen.now_us + 2 * SECOND)
        found.append({step.kind.label: step.reason for step in policy.explain()})
    learning = [steps["learning"] for steps in found if "learning" in steps]
    assert {next(iter(steps)) for steps in found[: len(learning)]} == {"learning"}
    assert learning[:PILED_UP_TRIGGERS] == ["no row has been counted yet"] * PILED_UP_TRIGGERS
    said = learning[PILED_UP_TRIGGERS]
    assert re.match(r"1 of the \d+ windows have passed that it needs before it trusts what it sees", said)
    assert "learning" not in found[-1]
    assert ["learning" in steps for steps in found] == [True] * len(learning) + [False] * (
        600 - len(learning)
    )
    passed, needed = map(int, re.findall(r"\d+", learning[-1])[:2])
    assert passed == needed - 1


def test_what_it_says_was_late_is_what_the_engine_counts() -> None:
    """The account is led by the policy itself, from the watermarks that it knows to be in force."""
    trace = short_trace("bursts")
    arrivals, policy = counted(trace, setup()), Tidemark(setup())
    found = run(arrivals, setup(), policy)
    assert found.late > 0
    first = int(arrivals.count[arrivals.slot < PILED_UP_TRIGGERS].sum())
    assert f"{found.late:,} of {arrivals.pairs - first:,} pairs were late" in policy.explain()[0].reason


def test_what_waited_for_the_job_when_the_stream_began_teaches_nothing() -> None:
    """A feed whose first batch is a snapshot of the last hour is decided like one that begins empty."""
    marks = []
    for oldest_s in (0, 3_600):
        policy, found = Tidemark(setup()), []
        for number, seen in enumerate(drawn_batches(7, 400, step_us=SECOND)):
            old = seen
            if number == 0:
                waited_us = seen.now_us // (10 * SECOND) * 10 * SECOND - oldest_s * SECOND
                old = replace(seen, key_us=np.full_like(seen.key_us, waited_us + 10 * SECOND))
                old = replace(old, event_us=np.full_like(seen.event_us, waited_us))
            policy.observe(old)
            found.append(policy.decide(seen.now_us, seen.now_us + 2 * SECOND))
        marks.append(found)
    assert marks[0] == marks[1]
    assert marks[0][-1].watermark_us is not None
