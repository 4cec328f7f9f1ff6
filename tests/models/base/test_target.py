"""Targets: decimal strings and parts per million, exactly, and never a float."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.target import PPM, format_target, parse_target


@pytest.mark.parametrize(
    ("value", "expected_ppm"),
    [
        *[
            ("0.995", 995_000),
            ("0.9990", 999_000),
            ("0.999999", 999_999),
            ("1e-6", 1),
            (995_000, 995_000),
            (1, 1),
        ],
        *[("99.5%", 995_000), ("99.9 %", 999_000), ("99.9999%", 999_999)],
    ],
)
def test_a_target_is_read_in_parts_per_million(value: str | int, expected_ppm: int) -> None:
    """A share as text, in percent too; parts per million as an integer."""
    assert parse_target(value) == expected_ppm


@pytest.mark.parametrize("value", [0.995, 1.0, True, None, b"0.9"])
def test_floats_and_other_types_are_rejected(value: Any) -> None:
    """A float 0.999 is not 0.999; True is 1."""
    with pytest.raises(TypeError, match=r"write a decimal string such as '0\.995'"):
        parse_target(value)


@pytest.mark.parametrize(
    "value",
    [
        "0.9990000000000001",
        "0.9999999",
        "99.99999%",
        "0.99900000000000000000000000000000001",
        "1e-7",
        "1e-99999999",
    ],
)
def test_a_share_finer_than_a_millionth_is_rejected(value: str) -> None:
    """0.9990000000000001 is what a float leaves behind; the digits past decimal's precision count too."""
    with pytest.raises(ValueError, match="finer than one part per million") as refused:
        parse_target(value)
    assert repr(value) in str(refused.value)


@pytest.mark.parametrize(
    "value", ["0", "1", "1.0", "99.5", "100%", "-0.5", "nan", "inf", "-inf", 0, 1_000_000, -1, 10**30]
)
def test_a_share_outside_0_and_1_is_rejected(value: str | int) -> None:
    """All rows or none is no objective."""
    with pytest.raises(ValueError, match=r"between 0 and 1|between 0% and 100%"):
        parse_target(value)


@pytest.mark.parametrize("value", ["", "%", "99 %%", "99,5%", "0,99", "high", "sNaN"])
def test_what_is_no_number_is_rejected(value: str) -> None:
    """With an example of what would be one."""
    with pytest.raises(ValueError, match=r"is not a number such as '99\.5%' or '0\.995'"):
        parse_target(value)


@given(st.integers(1, PPM - 1))
def test_a_target_reads_back_as_it_was_written(ppm: int) -> None:
    """Shown, stored and shown again, it is still the one that was set, without a trailing zero or an exponent."""
    text = format_target(ppm)
    assert parse_target(text) == ppm
    assert text == text.rstrip("0")
    assert "e" not in text.lower()
