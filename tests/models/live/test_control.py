"""The control: it never goes back, never beyond what a stream allows, and moves only when that closes something."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.stateful import WatermarkPolicy
from tidemark.models.live.control import Control, OpenKeys, StreamTarget
from tidemark.models.live.policy import NO_BASE_US

from support.examples import examples
from support.streams import SECOND

WINDOW_US = 10 * SECOND
CEILING_US = 7_200 * SECOND


@dataclass(frozen=True)
class _Tick:
    came: list[list[int]]
    wanted: list[int | None]


def _histories(streams: int) -> st.SearchStrategy[list[_Tick]]:
    came = st.lists(st.lists(st.integers(1, 300), max_size=4), min_size=streams, max_size=streams)
    wanted = st.lists(st.none() | st.integers(1, 300), min_size=streams, max_size=streams)
    return st.lists(st.builds(_Tick, came, wanted), max_size=40)


def _keys(*key_us: int) -> OpenKeys:
    keys = OpenKeys()
    keys.add(np.array(key_us, np.int64), 0)
    return keys


@pytest.mark.slow
@given(
    st.integers(1, 3).flatmap(lambda streams: _histories(streams).map(lambda drawn: (streams, drawn))),
    st.integers(1, 20),
    st.integers(0, 100),
    st.sampled_from(["min", "max"]),
)
@examples(300)
def test_the_offer_moves_forward_to_what_the_policy_makes_of_the_wants_and_only_if_a_key_closes_or_by_a_doubled_step(
    drawn: tuple[int, list[_Tick]], step_us: int, ceiling_us: int, policy: WatermarkPolicy
) -> None:
    streams, history = drawn
    control, keys = Control(step_us, ceiling_us, lambda: policy), [OpenKeys() for _ in range(streams)]
    open_: list[set[int]] = [set() for _ in range(streams)]
    highest, step = NO_BASE_US, step_us
    for tick in history:
        before = control.offered_us
        for mine, shadow, came in zip(keys, open_, tick.came, strict=True):
            mine.add(np.array(came, np.int64), max(before, 0))
            shadow |= {key for key in came if key > before}
            highest = max([highest, *came])
        wants = [StreamTarget(wanted, mine) for wanted, mine in zip(tick.wanted, keys, strict=True)]
        offered = control.offer(wants)
        allowed = [wanted for wanted in tick.wanted if wanted is not None]
        combined = (min if policy == "min" else max)(allowed, default=NO_BASE_US)
        wanted = combined if len(allowed) == streams else NO_BASE_US

        assert offered == control.offered_us >= before, "it went back"
        closes = any(key <= wanted for shadow in open_ for key in shadow)
        beyond = NO_BASE_US < before < highest + ceiling_us and highest <= wanted
        stepped = not closes and beyond and wanted >= before + step
        assert (offered > before) == (wanted > before and (closes or stepped))
        if offered > before:
            assert offered == wanted
            step = step_us if closes else 2 * step
            open_ = [{key for key in shadow if key > offered} for shadow in open_]


def test_a_stream_that_wants_nothing_holds_the_whole_query() -> None:
    control = Control(WINDOW_US, CEILING_US)

    assert control.offer([StreamTarget(50, _keys(10)), StreamTarget(None, _keys(10))]) == NO_BASE_US
    assert control.offer([]) == NO_BASE_US


def test_a_key_of_any_stream_moves_the_one_watermark_of_the_query() -> None:
    """In a join the rows of one input wait for the other."""
    control = Control(WINDOW_US, CEILING_US)

    assert control.offer([StreamTarget(50, _keys(99)), StreamTarget(40, _keys(30))]) == 40


@given(st.integers(0, 20), st.integers(0, 2 * 3_600), st.sampled_from([1, 60, 900]), st.integers(1, 30))
def test_a_stream_that_falls_silent_costs_a_few_offers_and_then_none(
    windows: int, lag_s: int, ceiling_s: int, step_s: int
) -> None:
    """Each offer is a batch and a no-data batch after it, and a stream may be silent for a weekend."""
    step_us, ceiling_us = step_s * SECOND, ceiling_s * SECOND
    start_us = 1_767_225_600 * SECOND
    last_us = start_us + windows * WINDOW_US
    keys = _keys(*range(start_us, last_us + 1, WINDOW_US))
    control = Control(step_us, ceiling_us)
    offers, stopped_s, offered = 0, 0, NO_BASE_US
    end_s = windows * 10 + lag_s + 8 * ceiling_s + 8 * step_s
    for second in range(end_s + 1):
        wanted_us = start_us + (second - lag_s) * SECOND
        now_offered = control.offer([StreamTarget(wanted_us, keys)])
        if now_offered != offered:
            offers, stopped_s, offered = offers + 1, second, now_offered
    steps = math.ceil(math.log2(max(ceiling_us / step_us, 1))) + 1

    assert offers <= (windows + 1) + steps
    assert offered >= last_us + ceiling_us, "what waits downstream for as long as the ceiling is let go, too"
    assert stopped_s < end_s, "and then it does not move"


def test_when_rows_come_again_the_steps_begin_anew() -> None:
    control, keys = Control(WINDOW_US, CEILING_US), _keys(WINDOW_US)
    offers = [control.offer([StreamTarget(second * SECOND, keys)]) // SECOND for second in range(10, 100)]
    assert sorted(set(offers)) == [10, 20, 40, 80]

    keys.add(np.array([100 * SECOND], np.int64), 0)
    again = [control.offer([StreamTarget(second * SECOND, keys)]) // SECOND for second in range(100, 140)]

    assert sorted(set(again)) == [100, 110, 130]


def test_after_a_restart_nothing_below_what_the_checkpoint_says_is_offered() -> None:
    control = Control(WINDOW_US, CEILING_US)
    control.restore(70 * SECOND)
    control.restore(50 * SECOND)

    assert control.offer([StreamTarget(60 * SECOND, _keys(10 * SECOND))]) == 70 * SECOND
    assert control.offer([StreamTarget(80 * SECOND, _keys(75 * SECOND))]) == 80 * SECOND


def test_a_key_far_ahead_is_not_run_after_in_steps() -> None:
    """Nothing closes between here and there."""
    control, keys = Control(WINDOW_US, CEILING_US), _keys(10 * SECOND, 1_000 * SECOND)
    offers = {control.offer([StreamTarget(second * SECOND, keys)]) // SECOND for second in range(10, 1_000)}

    assert offers == {10}
