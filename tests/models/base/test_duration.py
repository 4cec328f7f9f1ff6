"""Durations: what people and Spark write, and nothing that means two things."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.duration import format_about, format_duration, parse_delay, parse_duration


@pytest.mark.parametrize(
    ("text", "expected_us"),
    [
        ("0", 0),
        ("0 seconds", 0),
        ("10 minutes", 600_000_000),
        ("1 hour 30 minutes", 5_400_000_000),
        ("interval 5 seconds", 5_000_000),
        ("INTERVAL 5 Seconds", 5_000_000),
        ("INTERVAL '10' MINUTE", 600_000_000),
        ("INTERVAL '10' MINUTES '5' SECONDS", 605_000_000),
        ("interval '10 minutes 5 s'", 605_000_000),
        ("INTERVAL -'10' MINUTE", -600_000_000),
        ("INTERVAL - '-10' MINUTE", 600_000_000),
        (".5 s", 500_000),
        ("1. s", 1_000_000),
        ("5s", 5_000_000),
        ("250ms", 250_000),
        ("1h30m", 5_400_000_000),
        ("2 days", 172_800_000_000),
        ("1 week", 604_800_000_000),
        ("1.5s", 1_500_000),
        ("0.000001 s", 1),
        ("7 us", 7),
        ("-5s", -5_000_000),
        ("+5s", 5_000_000),
        ("1h -30m", 1_800_000_000),
        ("  3  min ", 180_000_000),
    ],
)
def test_a_duration_is_read_in_microseconds(text: str, expected_us: int) -> None:
    """Spark's interval strings and a command line's short forms are one language."""
    assert parse_duration(text) == expected_us


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected something like"),
        ("interval", "expected something like"),
        ("5", "expected something like"),
        ("s", "expected something like"),
        ("5s!", "expected something like"),
        ("'10 minutes'", "expected something like"),
        ("'10 minutes", "expected something like"),
        (". s", "expected something like"),
        (10, "must be text with a unit, such as '10 minutes'"),
        (None, "must be text with a unit"),
        ("5s 3", "expected something like"),
        ("1e3 s", "unknown unit 'e'|expected something like"),
        ("5 fortnights", "unknown unit 'fortnights'"),
        ("1 month", "a month has no fixed length"),
        ("2 years", "a years has no fixed length"),
        ("0.0000001s", "finer than one microsecond"),
        ("0.5us", "finer than one microsecond"),
    ],
)
def test_what_is_no_duration_is_rejected_with_the_text(text: Any, said: str) -> None:
    """The one who wrote it must find it again."""
    with pytest.raises(ValueError, match=said) as refused:
        parse_duration(text)
    assert repr(text) in str(refused.value)


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [
        ("10 minutes", 600_000),
        ("1 month", 31 * 86_400_000),
        ("INTERVAL '2' MONTHS 3 days", 65 * 86_400_000),
        ("1 year", 372 * 86_400_000),
        ("1 month -31 days", 0),
        ("1500 us", 1),
        ("999.9 us", 0),
        ("0", 0),
    ],
)
def test_the_delay_of_a_watermark_counts_31_days_for_a_month_and_is_cut_to_the_millisecond_as_spark_does(
    text: str, expected_ms: int
) -> None:
    assert parse_delay(text) == expected_ms


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("-5 s", "must be at least 0"),
        ("-1 us", "at least 0"),
        ("1 quarter", "unknown unit"),
        (5, "text with"),
    ],
)
def test_what_is_no_delay_is_rejected(text: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_delay(text)


def test_parts_finer_than_a_microsecond_may_add_up_to_whole_ones() -> None:
    """Only the sum is a duration."""
    assert parse_duration("0.5us 0.5us") == 1


@pytest.mark.parametrize(
    ("duration_us", "text"),
    [
        (0, "0 s"),
        (1, "1 us"),
        (999, "999 us"),
        (1_000, "1 ms"),
        (250_000, "250 ms"),
        (1_250_000, "1.25 s"),
        (-1_250_000, "-1.25 s"),
        (10_870_741, "10.871 s"),
        (600_000_000, "10 min"),
        (65_000_000, "65 s"),
        (90_000_000, "90 s"),
        (100_000_000_000, "1 d 3 h 46 min 40 s"),
        (28 * 86_400_000_000 + 1_000, "28 d 0.001 s"),
        (5_400_000_000, "1 h 30 min"),
        (604_800_000_000, "7 d"),
    ],
)
def test_a_duration_is_written_to_the_millisecond_in_seconds_and_from_two_minutes_on_in_larger_units(
    duration_us: int, text: str
) -> None:
    """Few zeros to count, and none of it lost."""
    assert format_duration(duration_us) == text


@given(st.integers(-(10**12), 10**12))
def test_a_bound_of_whole_milliseconds_reads_back_exactly(duration_ms: int) -> None:
    """It is copied from the table into a job; rounded down it would lose the rows it was chosen for."""
    assert parse_duration(format_duration(duration_ms * 1_000)) == duration_ms * 1_000


@given(st.integers(-(10**15), 10**15))
def test_any_duration_reads_back_within_half_a_millisecond(duration_us: int) -> None:
    """Mean latencies have more digits than anybody reads."""
    assert abs(parse_duration(format_duration(duration_us)) - duration_us) <= 500


@pytest.mark.parametrize(
    ("duration_us", "text"),
    [
        (0.0, "0 s"),
        (0.4, "< 1 us"),
        (7_104.6, "7.105 ms"),
        (943_412.0, "943 ms"),
        (-943_412.0, "-943 ms"),
        (5_282_345.6, "5.28 s"),
        (119_999_999.0, "2 min"),
        (1_023_433_410_000.0, "11 d 20 h"),
        (172_800_000_000.0 + 61_000_000, "2 d 1 min"),
    ],
)
def test_a_measured_duration_is_written_without_digits_that_nobody_reads(
    duration_us: float, text: str
) -> None:
    """A mean latency of days has no milliseconds."""
    assert text == format_about(duration_us)
