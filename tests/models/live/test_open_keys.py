"""Open keys: what has arrived and waits for the watermark, against the plain set of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.live import control
from tidemark.models.live.control import OpenKeys
from tidemark.models.live.policy import NO_BASE_US

keys = st.integers(-50, 50) | st.integers(-(2**62), 2**62)
ticks = st.lists(
    st.tuples(st.just("add"), st.lists(keys, max_size=8), keys)
    | st.tuples(st.just("close"), st.just([]), keys),
    max_size=30,
)


@given(ticks, st.lists(keys))
def test_a_watermark_closes_something_iff_a_key_that_came_above_the_watermark_lies_at_or_below_it(
    history: list[tuple[str, list[int], int]], asked: list[int]
) -> None:
    """Spark's rule: a key at the watermark is closed by it, and a row that came too late opens nothing."""
    found, open_, highest = OpenKeys(), set[int](), NO_BASE_US
    for what, came, at_us in history:
        if what == "add":
            found.add(np.array(came, np.int64), at_us)
            open_ |= {key for key in came if key > at_us}
            highest = max([highest, *came])
        else:
            found.close(at_us)
            open_ = {key for key in open_ if key > at_us}

        assert len(found) == len(open_)
        assert found.max_us == highest
        for until_us in [*asked, *open_, *(key - 1 for key in open_)]:
            assert found.closes(until_us) == any(key <= until_us for key in open_)


def test_a_key_that_is_closed_and_comes_again_is_open_again() -> None:
    """A row above the watermark in force is admitted, whatever has been offered since."""
    found = OpenKeys()
    found.add(np.array([10], np.int64), 0)
    found.close(20)
    assert not found.closes(20)

    found.add(np.array([10], np.int64), 0)
    assert found.closes(20)


def test_of_too_many_keys_the_next_to_close_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_MAX_KEYS", 3)
    found = OpenKeys()
    found.add(np.array([50, 40, 30, 20, 10], np.int64), 0)

    assert len(found) == 3
    assert found.closes(10)
    assert found.max_us == 50
    found.close(30)
    assert not found.closes(100)
