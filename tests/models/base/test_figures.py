"""Numbers as people read them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.target import PPM, format_share
from tidemark.models.base.text import format_number


@given(number=st.floats(-1e17, 1e17), digits=st.integers(1, 8))
def test_no_number_is_written_in_scientific_notation_and_each_reads_back(number: float, digits: int) -> None:
    text = format_number(number, digits)
    assert "e" not in text.lower()
    assert math.isclose(float(text.replace(",", "")), number, rel_tol=0.5 * 10 ** (1 - digits), abs_tol=0)


@pytest.mark.parametrize(
    ("number", "text"),
    [(380, "380"), (3.84e2, "384"), (0.0042, "0.0042"), (1.5, "1.5"), (4_215.4, "4,215"), (0, "0")],
)
def test_two_digits_are_enough_but_whole_numbers_keep_theirs(number: float, text: str) -> None:
    assert format_number(number, 2) == text


def test_numbers_that_nobody_can_read_are_not_written_out() -> None:
    assert format_number(math.nan) == "unknown"
    assert format_number(1e300) == format_number(math.inf) == "more than 1,000,000,000,000,000,000"
    assert format_number(-1e300) == "less than -1,000,000,000,000,000,000"


@given(ppm=st.integers(-(10**15), 10**15))
def test_a_share_is_exact_however_great(ppm: int) -> None:
    text = format_share(ppm).removesuffix(" %")
    assert "e" not in text.lower()
    assert round(float(text) * 10_000) == ppm or abs(ppm) > PPM * 1_000_000
