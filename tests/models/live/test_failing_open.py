"""A live policy that raises: the bound decides, the reason names the error, and another one learns anew."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.live.fast import Order
from tidemark.models.live.learned import Learned, unpacked

from support.fast_streams import TEN_SECONDS, FastStream
from support.streams import SECOND, Row

pytestmark = pytest.mark.slow

BOUND_US = 30 * SECOND
ORDER = Order(bound_us=BOUND_US, target_ppm=900_000)


def rows_at(now_us: int, dice: Random) -> list[Row]:
    return [(name, now_us - round(dice.expovariate(2) * SECOND)) for name in "ab" for _ in range(20)]


def ran(stream: FastStream, batches: int, order: Order = ORDER) -> Iterator[tuple[int | None, str]]:
    """Run so many batches; yield how far each watermark is behind, in microseconds, and its reason."""
    dice = Random(stream.batches)
    for _ in range(batches):
        stream.batch(rows_at(stream.now_us, dice), order)
        wanted = stream.decide(order)
        behind_us = None if wanted.watermark_us is None else wanted.activity.base_us - wanted.watermark_us
        yield behind_us, wanted.reason


@functools.cache
def learned_by(batches: int = 60) -> Learned:
    """Return what a policy has learned in so many batches; made when a test asks, not when it is collected."""
    stream = FastStream(TEN_SECONDS)
    list(ran(stream, batches))
    learned = stream.policy.learned()
    assert learned is not None
    return learned


def poisoned(name: str, value: float) -> Learned:
    """Return what was learned with one array full of a value."""
    learned = learned_by()
    array = learned.arrays[name]
    spoiled = np.full(array.shape, value).astype(array.dtype)
    return replace(learned, arrays=learned.arrays | {name: spoiled})


def poison() -> Learned:
    """Return what was learned, with numbers each of which can be counted with, and their sum cannot."""
    return poisoned("rules.stragglers.rows", 1e37)


@pytest.mark.slow
def test_the_bound_decides_and_the_reason_names_the_error_until_another_policy_knows_enough() -> None:
    stream = FastStream(TEN_SECONDS)
    stream.policy.resume(poison())
    found = list(ran(stream, 400))
    by_bound = [reason.startswith("the live policy failed") for _, reason in found]
    taken_over = by_bound.index(False)

    assert "FloatingPointError: overflow" in found[0][1]
    assert found[0][1].endswith("30 s behind partition a") or found[0][1].endswith("30 s behind partition b")
    assert all(behind_us == BOUND_US for behind_us, _ in found[:taken_over])
    assert taken_over > 20
    assert not any(by_bound[taken_over:]), "a policy that has learned anew decides from then on"
    assert stream.policy.own.failure is None
    behind_us = found[-1][0]
    assert behind_us is not None
    assert behind_us < BOUND_US


def test_what_a_policy_that_failed_had_learned_is_kept_once_and_nothing_of_it_is_resumed() -> None:
    stream = FastStream(TEN_SECONDS)
    stream.policy.resume(poison())
    list(ran(stream, 3))
    unusable, learned = stream.policy.own.take_unusable(), stream.policy.learned()

    assert unusable is not None
    assert learned is not None
    assert unusable.arrays["rules.stragglers.rows"].max() > 1e36
    assert unusable.arrays["elapsed"] > learned.arrays["elapsed"]
    assert stream.policy.own.take_unusable() is None
    assert stream.policy.begun_anew is None, "nor is it learned again from the same reports"
    other = FastStream(TEN_SECONDS, now_us=stream.now_us)
    other.policy.resume(unpacked(learned.packed()))
    assert all("failed" not in reason for _, reason in ran(other, 30))


def test_without_a_target_there_is_no_policy_that_could_fail() -> None:
    stream = FastStream(TEN_SECONDS)
    stream.policy.resume(poison())
    list(ran(stream, 3))
    list(ran(stream, 1, replace(ORDER, target_ppm=None)))
    assert stream.policy.own.failure is None


@given(
    st.deferred(lambda: st.sampled_from(sorted(learned_by().arrays))),
    st.sampled_from([0.0, -1.0, 1e-300, 1e18, -1e18, 1e37, 1e300, -1e300]),
)
@pytest.mark.filterwarnings("ignore:.*encountered in cast:RuntimeWarning")
def test_whatever_is_in_what_was_learned_nothing_is_raised_later_and_the_watermark_is_behind_the_clock(
    name: str, value: float
) -> None:
    stream = FastStream(TEN_SECONDS)
    try:
        stream.policy.resume(poisoned(name, value))
    except (ValueError, ArithmeticError):
        assert stream.policy.learned() is None
    for behind_us, reason in ran(stream, 15):
        assert stream.policy.own.error is None or "the live policy failed" in reason
        assert behind_us is None or behind_us >= -3 * SECOND
    learned = stream.policy.learned()
    assert learned is not None
    unpacked(learned.packed())
