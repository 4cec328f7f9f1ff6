"""Rows of any age: none keeps Live from deciding, nor spoils what it learns, at whatever point that is resumed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import Operator, RowLevel, SessionWindow, TimeWindow
from tidemark.models.live.fast import Order
from tidemark.models.live.learned import unpacked

from support.fast_streams import FastStream
from support.streams import SECOND

DAY_US = 86_400 * SECOND
OLDEST_US = 366 * DAY_US
"""Older rows are misdated."""


def lengths_us(least_us: int, most_us: int) -> st.SearchStrategy[int]:
    """Return times between two, in microseconds, each order of magnitude as often as the others."""
    powers = st.floats(math.log10(least_us), math.log10(most_us))
    return powers.map(lambda power: min(max(round(10**power), least_us), most_us) // 1_000 * 1_000)


ages = st.builds(
    lambda age_us, sign: age_us * sign, lengths_us(1_000, OLDEST_US), st.sampled_from([1, 1, -1])
)
"""Mostly in the past, else from the future."""


@dataclass(frozen=True)
class Stretch:
    """Some batches alike, and how the stream goes on after them."""

    batches: int
    partitions: frozenset[str]
    """Those that are there: each has three rows on time in a batch."""
    others_us: list[tuple[str, int]]
    """Partitions and ages of the other rows of each batch, in microseconds."""
    silence_us: int
    """Time without a batch."""
    resumes: bool
    """Whether another driver goes on with what was learned."""


@st.composite
def problems(draw: st.DrawFn) -> tuple[Operator, int, Order, list[Stretch]]:
    """Draw an operator, a trigger in microseconds, an order and a stream."""
    trigger_us = draw(lengths_us(100_000, 300 * SECOND)) // 100_000 * 100_000
    size_us = trigger_us * draw(st.sampled_from([1, 2, 10, 60]))
    sliding = TimeWindow(2 * size_us, size_us)
    operators: list[Operator] = [TimeWindow(size_us, size_us), sliding, SessionWindow(size_us), RowLevel()]
    operator = draw(st.sampled_from(operators))
    cap_us = draw(st.none() | st.just(5 * trigger_us))
    order = Order(
        bound_us=size_us, target_ppm=draw(st.sampled_from([900_000, 999_000])), latency_cap_us=cap_us
    )
    stretch = st.builds(
        Stretch,
        st.integers(1, 15),
        st.frozensets(st.sampled_from("abcde")),
        st.lists(st.tuples(st.sampled_from("abcxyz"), ages), max_size=4),
        st.just(0) | lengths_us(trigger_us, OLDEST_US),
        st.booleans(),
    )
    return operator, trigger_us, order, draw(st.lists(stretch, min_size=1, max_size=5))


@pytest.mark.slow
@given(problems())
def test_no_row_keeps_live_from_deciding_nor_spoils_what_it_learned(
    problem: tuple[Operator, int, Order, list[Stretch]],
) -> None:
    operator, trigger_us, order, stretches = problem
    stream = resumed = FastStream(operator, trigger_us=trigger_us)
    for stretch in stretches:
        for _ in range(stretch.batches):
            usual = [
                (name, stream.now_us - k * trigger_us // 2)
                for name in sorted(stretch.partitions)
                for k in range(3)
            ]
            rows = usual + [(name, stream.now_us - age_us) for name, age_us in stretch.others_us]
            stream.batch(rows, order, after_us=trigger_us)
            stream.decide(order)
            assert stream.policy.own.error is None
            learned = stream.policy.learned()
            assert learned is not None
            resumed = FastStream(operator, trigger_us=trigger_us, now_us=stream.now_us)
            resumed.policy.resume(unpacked(learned.packed()))
        stream.now_us += stretch.silence_us
        resumed.now_us = stream.now_us
        stream = resumed if stretch.resumes else stream
        assert stream.decide(order).activity.base_us <= stream.now_us
        assert stream.policy.own.error is None
