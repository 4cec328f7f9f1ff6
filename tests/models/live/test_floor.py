"""What Live keeps at least, whatever happens before it: the target, or what plain Spark keeps at a bound of 0 s.

Behind a queue, after an outage, with a partition that stalls, all at once: the rows of one window at most may be
missing from it, since a live watermark is decided before the feed falls behind. Each further time may cost another.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tidemark.models.backtest.run import run, run_native, score
from tidemark.models.live.tidemark import Tidemark

from support.short_streams import counted, setup
from support.streams import SECOND
from support.synthetic import START_US, Rows, Trace, even_times, fifo, usual_delay

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
