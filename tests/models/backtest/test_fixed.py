"""The constant bound."""

from __future__ import annotations

import pytest

from tidemark.models.backtest.bounds import Fixed

from support.seen import seen_rows


def test_a_fixed_bound_is_native_and_never_moves() -> None:
    policy = Fixed(5_000_000)
    assert policy.native
    before = policy.decide(0, 0)
    policy.observe(seen_rows(10, [90_000_000]))
    assert policy.decide(10, 20) == before
    assert before.bound_us == 5_000_000


def test_a_negative_bound_is_rejected() -> None:
    with pytest.raises(ValueError, match="must be at least 0, not -1 us"):
        Fixed(-1)
