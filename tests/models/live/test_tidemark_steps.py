"""What each step of the live policy keeps to, on a stream of a few minutes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tidemark.models.live.defaults import FUTURE_COHORTS
from tidemark.models.live.policy import Observation
from tidemark.models.live.tidemark import Tidemark

from support.seen import drawn_batches
from support.short_streams import setup
from support.streams import SECOND

BATCHES = drawn_batches(7, 90, step_us=SECOND)


def decided(policy: Tidemark, seen: Observation) -> int:
    """Return the watermark that the policy gives after a batch; -1 before it gives any."""
    policy.observe(seen)
    found = policy.decide(seen.now_us, seen.now_us + 2 * SECOND).watermark_us
    return -1 if found is None else found


@pytest.mark.slow
def test_the_watermark_never_goes_back_though_the_rule_that_is_followed_wants_a_lower_one() -> None:
    """A job cannot take it back: Spark ignores a lower one, and the policy would count by what is not in force."""
    policy = Tidemark(setup())
    watermarks, wanted = [], []
    for seen in BATCHES:
        watermarks.append(decided(policy, seen))
        if policy._choice is not None:
            wanted.append(int(policy._rules.watermark_us[policy._choice.rule]))
    assert (np.diff(wanted) < 0).any(), "else this proves nothing"
    assert (np.diff(watermarks) >= 0).all()


def test_a_row_dated_further_ahead_than_the_limit_is_not_counted() -> None:
    """However many come, they neither claim memory nor make the account look better."""
    last = BATCHES[-1]
    reach_us = FUTURE_COHORTS * setup().granule_us + setup().operator.span_us

    def pairs_with(ahead_us: int) -> int:
        policy = Tidemark(setup())
        for seen in BATCHES[:-1]:
            policy.observe(seen)
        before = policy._rules.pairs
        key_us = last.key_us.copy()
        key_us[-1] = last.now_us + ahead_us
        policy.observe(replace(last, key_us=key_us))
        return policy._rules.pairs - before

    rows = int(last.count.sum())
    assert pairs_with(reach_us) == rows
    assert pairs_with(reach_us + 1) == rows - int(last.count[-1])
