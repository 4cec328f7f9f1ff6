"""Moments as people read them, of every time that a report can have."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.base.clock import utc_text
from tidemark.models.base.ranges import MAX_TIME_US


@pytest.mark.parametrize(
    ("time_us", "text"),
    [
        (0, "1970-01-01 00:00:00 UTC"),
        (-1, "1969-12-31 23:59:59 UTC"),
        (1_767_225_600_123_456, "2026-01-01 00:00:00 UTC"),
        (253_402_300_799_999_999, "9999-12-31 23:59:59 UTC"),
        (253_402_300_800_000_000 + 86_400_000_000, "the year 10000"),
        (MAX_TIME_US, "the year 38504"),
        (-MAX_TIME_US, "the year -34565"),
    ],
)
def test_a_time_is_a_date_or_where_there_is_none_a_year(time_us: int, text: str) -> None:
    assert utc_text(time_us) == text


@given(st.integers(-MAX_TIME_US, MAX_TIME_US))
def test_every_time_has_a_text(time_us: int) -> None:
    """Python's dates end with the year 9999."""
    assert utc_text(time_us).endswith("UTC") or utc_text(time_us).startswith("the year ")
