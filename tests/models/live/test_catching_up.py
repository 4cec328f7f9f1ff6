"""A source that was cut off sends what it held, in order: that is still missing until it has come."""

from __future__ import annotations

import numpy as np
import pytest

from tidemark.models.backtest.run import run
from tidemark.models.base.operators import tumbling
from tidemark.models.live.policy import Setup
from tidemark.models.live.tidemark import Tidemark

from support.short_streams import counted
from support.streams import SECOND
from support.synthetic import START_US, Trace, fifo

pytestmark = pytest.mark.slow

CUT_S = (700.0, 730.0)


def cut_off(seed: int) -> Trace:
    """Return 15 minutes of packs of 20 rows in four partitions; one is cut off for three windows, and catches up."""
    rng = np.random.default_rng(seed)
    packs_s = np.sort(rng.uniform(0, 900, 900 * 5))
    event_s = np.repeat(packs_s, 20)
    partition = np.repeat(rng.integers(4, size=len(packs_s)), 20)
    arrival_s = event_s + rng.exponential(0.2, len(event_s))
    cut = partition == 1
    arrival_s[cut] = fifo(arrival_s[cut], np.array([CUT_S]), 60)
    order = np.argsort(arrival_s, kind="stable")
    event_us, arrival_us = (
        START_US + (time_s[order] * SECOND).astype(np.int64) for time_s in (event_s, arrival_s)
    )
    return Trace(event_us, arrival_us, partition[order].astype(np.int32))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_first_row_after_a_cut_does_not_close_the_windows_whose_rows_follow(seed: int) -> None:
    """Rows in packs hide that a cohort lacks those of one partition, so only its silence shows it.

    The window that closes just as the cut begins is decided a trigger ahead.
    """
    setup = Setup(operator=tumbling("10 s"), trigger_us=2 * SECOND, target_ppm=990_000)
    arrivals = counted(cut_off(seed), setup)
    found = run(arrivals, setup, Tidemark(setup))
    ended_s = (arrivals.keys_us - START_US) / SECOND
    held_back = (ended_s > CUT_S[0] + 10) & (ended_s <= CUT_S[1] + 10)
    rows = int(arrivals.pairs_by_key[held_back].sum()) / 4
    assert found.late_by_key[held_back].sum() < 0.05 * rows
