"""The settings of Flink as a policy."""

from __future__ import annotations

import pytest

from tidemark.models.backtest.flink import Flink


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ((-1,), "a bound of Flink must be at least 0, not -1 us"),
        ((0, 0), "the idle timeout of Flink must be above 0"),
        ((0, None, -5), "the tick of Flink must be above 0"),
    ],
)
def test_what_flink_does_not_take_is_rejected(settings: tuple[int | None, ...], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Flink(*settings)  # type: ignore[arg-type]


def test_its_bound_is_known_before_any_row() -> None:
    assert Flink(5_000).native
    assert Flink(5_000).decide(0, 0).bound_us == 5_000
