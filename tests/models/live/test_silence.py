"""Silence: partitions that have sent nothing for too long, alone or together."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from tidemark.models.live.chance import silent_partitions
from tidemark.models.live.defaults import SILENT_ROWS

from support.examples import examples

_UNSENT = st.floats(0.02, 30).map(lambda rows: round(rows, 3))
_SILENCE = st.integers(0, 60)


def silent(pace: Sequence[float], silence: Sequence[float]) -> list[int]:
    """Return the silent ones of partitions that send ``pace`` rows a trigger."""
    found = silent_partitions(np.array(pace) * np.array(silence), np.array(silence, np.float64))
    return [int(partition) for partition in found]


def by_definition(unsent: NDArray[np.float64], silence: NDArray[np.float64]) -> set[int]:
    """Return the silent partitions, with each number of them tried one by one."""
    alone = {at for at, rows in enumerate(unsent) if rows > SILENT_ROWS}
    expecting = [at for at in np.argsort(-silence, kind="stable").tolist() if unsent[at] > 0.01]
    sending = len(expecting) + sum(silence == 0)
    best, together = SILENT_ROWS, set()
    for count in range(1, len(expecting) + 1):
        picked = expecting[:count]
        since_the_last = sum(unsent[at] / silence[at] for at in picked) * silence[picked[-1]]
        evidence = since_the_last - math.log(math.comb(sending, count))
        if evidence > best:
            best, together = evidence, set(picked)
    return alone | together


@examples(200)
@given(st.lists(st.tuples(_UNSENT, _SILENCE), min_size=1, max_size=12))
def test_it_is_found_as_it_is_defined(partitions: list[tuple[float, int]]) -> None:
    silence = np.array([triggers for _, triggers in partitions], np.float64)
    unsent = np.array([rows for rows, _ in partitions]) * (silence > 0)
    assert set(silent_partitions(unsent, silence).tolist()) == by_definition(unsent, silence)


def test_one_partition_is_silent_when_twelve_rows_are_unsent() -> None:
    assert silent([1.0], [12]) == []
    assert silent([1.0], [12.5]) == [0]
    assert silent([10.0, 1.0], [0, 12.5]) == [1]


def test_five_of_sixteen_are_silent_together_long_before_each_would_be_alone() -> None:
    """It takes 12 unsent rows and the log of 4,368 choices, 8.4: after four triggers there are 20, after five 25."""
    pace = [1.0] * 16
    assert silent(pace, [4.0] * 5 + [0.0] * 11) == []
    assert silent(pace, [5.0] * 5 + [0.0] * 11) == [0, 1, 2, 3, 4]


def test_those_that_sent_lately_are_not_among_them() -> None:
    """Two groups: the choice of all would shorten the silence to a trigger."""
    assert silent([1.0] * 16, [8.0] * 5 + [1.0] * 11) == [0, 1, 2, 3, 4]


def test_the_more_partitions_there_are_the_longer_some_must_be_silent_together() -> None:
    """Of many, some are always silent."""
    needed = [
        next(
            triggers for triggers in range(1, 100) if silent([1.0] * all_, [triggers] * 5 + [0] * (all_ - 5))
        )
        for all_ in (5, 16, 100, 1_000)
    ]
    assert needed == sorted(needed)
    assert needed[0] == 3
    assert needed[-1] <= 9


def test_partitions_that_have_long_stopped_do_not_hide_a_stall_of_others() -> None:
    """What they should send has faded to nearly nothing."""
    stopped = 200
    found = silent([1.0] * 16 + [1e-6] * stopped, [6.0] * 5 + [0.0] * 11 + [900.0] * stopped)
    assert found == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("partitions", "pace"), [(4, 0.5), (40, 0.1), (100, 1.0)])
def test_chance_alone_silences_none_in_thousands_of_looks(partitions: int, pace: float) -> None:
    """Gaps of independent rows are exponential."""
    dice = np.random.default_rng(5)
    silence = np.ceil(dice.exponential(1 / pace, (3_000, partitions))) - 1
    alarms = sum(len(silent_partitions(pace * each, each)) > 0 for each in silence)
    assert alarms <= 1


def test_where_nobody_sends_nobody_is_silent() -> None:
    assert silent_partitions(np.zeros(3), np.zeros(3)).tolist() == []
    assert silent_partitions(np.empty(0), np.empty(0)).tolist() == []
