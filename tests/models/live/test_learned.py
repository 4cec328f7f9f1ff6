"""What a policy has learned, packed and unpacked: the same after it, and refused when it is anything else."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import Operator, row_level, session, tumbling
from tidemark.models.live.learned import FORMAT, Learned, unpacked
from tidemark.models.live.policy import Setup
from tidemark.models.live.tidemark import Tidemark

from support.seen import drawn_batches

SECOND = 1_000_000
OPERATORS = [tumbling("10 s"), session("7 s"), row_level()]


def setup(operator: Operator) -> Setup:
    return Setup(operator=operator, trigger_us=SECOND, target_ppm=990_000)


@cache
def lived(operator: Operator) -> Tidemark:
    """Return a policy that has seen three minutes."""
    policy = Tidemark(setup(operator))
    for seen in drawn_batches(5, 180, step_us=SECOND):
        policy.observe(seen)
        policy.decide(seen.now_us, seen.now_us + 2 * SECOND)
    return policy


def learned() -> Learned:
    operator = tumbling("10 s")
    return Learned(
        operator=str(operator),
        target_ppm=990_000,
        trigger_us=SECOND,
        partitions=("0", "ä", "c"),
        arrays=lived(operator).learned(),
    )


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
def test_a_policy_that_goes_on_knows_exactly_what_the_one_before_it_knew(operator: Operator) -> None:
    known = lived(operator).learned()
    later = Tidemark(setup(operator))
    later.resume(known)

    again = later.learned()
    assert again.keys() == known.keys()
    for name, array in known.items():
        np.testing.assert_array_equal(again[name], array, name)


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
def test_what_was_learned_does_not_change_while_the_policy_goes_on(operator: Operator) -> None:
    """It is written down in another thread."""
    policy = Tidemark(setup(operator))
    policy.resume(lived(operator).learned())
    known = policy.learned()
    before = {name: array.copy() for name, array in known.items()}
    for seen in drawn_batches(6, 60, step_us=SECOND):
        policy.observe(seen)
        policy.decide(seen.now_us, seen.now_us + 2 * SECOND)

    for name, array in before.items():
        np.testing.assert_array_equal(known[name], array, name)


def test_it_is_unpacked_as_it_was_packed_and_takes_a_few_kilobytes() -> None:
    packed = learned().packed()
    found = unpacked(packed)

    assert replace(found, arrays={}) == replace(learned(), arrays={})
    assert found.arrays.keys() == learned().arrays.keys()
    for name, array in learned().arrays.items():
        np.testing.assert_array_equal(found.arrays[name], array, name)
    assert len(packed) < 32_000


@given(st.data())
def test_what_is_cut_off_or_damaged_is_refused(data: st.DataObject) -> None:
    packed = bytearray(learned().packed())
    with pytest.raises(ValueError, match="damaged"):
        unpacked(bytes(packed[: data.draw(st.integers(0, len(packed) - 1), "cut at")]))
    packed[data.draw(st.integers(0, len(packed) - 1), "place")] ^= data.draw(st.integers(1, 255), "by")
    with pytest.raises(ValueError, match="damaged"):
        unpacked(bytes(packed))


def test_what_a_later_release_says_besides_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    write = json.dumps
    monkeypatch.setattr(json, "dumps", lambda head: write({**head, "of_a_later_release": {"deep": [1]}}))
    assert replace(unpacked(learned().packed()), arrays={}) == replace(learned(), arrays={})


def test_another_format_is_refused_with_both_formats_in_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    packed = learned().packed()
    monkeypatch.setattr("tidemark.models.live.learned.FORMAT", FORMAT + 1)
    with pytest.raises(ValueError, match=f"format {FORMAT}, and this Tidemark reads {FORMAT + 1}"):
        unpacked(packed)


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("rules.late", np.zeros(3)),
        ("budget.seen", np.full(96, np.nan)),
        ("missing.rows", np.zeros((2, 2))),
        ("missing.profiles.first", np.array(10_000)),
        ("rules.stragglers.rows", None),
    ],
)
def test_arrays_of_another_form_are_refused_by_name(name: str, array: np.ndarray | None) -> None:
    arrays = lived(tumbling("10 s")).learned()
    arrays.pop(name)
    if array is not None:
        arrays[name] = array
    with pytest.raises(ValueError, match=name.rsplit(".", maxsplit=1)[-1]):
        Tidemark(setup(tumbling("10 s"))).resume(arrays)
