"""Misdated rows: what no delay explains has no need, what is late by weeks has one, and the reason is named."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.evidence.ledger import judge
from tidemark.models.evidence.misdated import LONGEST_DELAY_US, explained, misdated
from tidemark.models.evidence.needs import needs_against
from tidemark.models.evidence.slots import DAY_US, HOUR_US
from tidemark.models.live.reports import PartitionBases, observation_of

from support.reports import START_US, TEN_SECONDS
from support.streams import SECOND, report_of

MINUTE_US = 60 * SECOND
YEAR_2038_US = 2**31 * SECOND


def is_misdated(event_us: int, base_us: int | None = START_US, arrival_us: int = START_US) -> bool:
    return bool(misdated(np.array([event_us], np.int64), base_us, arrival_us)[0])


@pytest.mark.parametrize(
    ("what", "event_us", "wrong"),
    [
        ("the newest", START_US, False),
        ("a minute late", START_US - MINUTE_US, False),
        ("a phone that was offline for three weeks", START_US - 21 * DAY_US, False),
        ("a correction after eleven months", START_US - 330 * DAY_US, False),
        ("the longest delay", START_US - LONGEST_DELAY_US, False),
        ("more than that", START_US - LONGEST_DELAY_US - 1, True),
        ("seconds read as milliseconds", START_US // 1_000, True),
        ("seconds read as microseconds", START_US // 1_000_000, True),
        ("a missing time", 0, True),
        ("a device after a reset", int(datetime(2000, 1, 1, tzinfo=UTC).timestamp()) * SECOND, True),
    ],
)
def test_a_row_is_misdated_if_no_delay_explains_its_time(what: str, event_us: int, wrong: bool) -> None:
    assert is_misdated(event_us) == wrong, what


@given(
    st.integers(0, 10 * 365 * DAY_US),
    st.integers(-LONGEST_DELAY_US, HOUR_US),
    st.integers(START_US - 5 * 365 * DAY_US, YEAR_2038_US),
)
def test_a_replay_of_old_data_is_not_misdated(ago_us: int, delay_us: int, now_us: int) -> None:
    """However old it is: its delays are behind its own base."""
    base_us = now_us - ago_us
    assert not is_misdated(base_us + delay_us, base_us, now_us)


@given(st.sampled_from([1_000, 1_000_000]), st.integers(-300 * DAY_US, 0), st.sampled_from([None, -1, 0, 1]))
def test_where_every_row_is_a_factor_off_each_is_misdated_though_none_is_behind_another(
    factor: int, delay_us: int, base_days: int | None
) -> None:
    event_us = (START_US + delay_us) // factor
    base_us = None if base_days is None else START_US // factor + base_days * DAY_US
    assert is_misdated(event_us, base_us)


@given(st.integers(0, 1_000 * SECOND), st.integers(0, 1_000 * SECOND))
def test_a_stream_whose_clock_began_at_0_is_not_misdated(event_us: int, arrival_us: int) -> None:
    """As in tests and made-up traces."""
    assert not is_misdated(event_us, arrival_us, arrival_us)


@given(st.integers(-(2**60), 2**60), st.integers(-(2**60), 2**60), st.integers(-(2**60), 2**60))
def test_any_time_can_be_asked_about(event_us: int, base_us: int, arrival_us: int) -> None:
    assert is_misdated(event_us, base_us, arrival_us) in {True, False}
    assert explained(event_us, arrival_us).startswith("dated ")


@pytest.mark.parametrize(
    ("event_us", "text"),
    [
        (START_US // 1_000, "dated 1970-01-21: seconds read as milliseconds?"),
        (START_US // 1_000_000, "dated 1970-01-01: seconds read as microseconds?"),
        (0, "dated 1970-01-01: is the time missing, or 0?"),
        (START_US - 2 * LONGEST_DELAY_US, "dated 2023-12-31, longer ago than any delay (366 d)"),
        (START_US * 1_000, "dated in the year 57,971: microseconds read as milliseconds?"),
        (START_US + 2 * LONGEST_DELAY_US, "dated 2028-01-03, in the future"),
        (2**60, "dated in the year 38,504: microseconds read as milliseconds?"),
    ],
)
def test_the_unit_that_explains_a_date_is_named(event_us: int, text: str) -> None:
    assert explained(event_us, START_US) == text


ROWS = (
    [("0", START_US - 5 * SECOND)] * 40 + [("3", START_US // 1_000)] * 6 + [("4", START_US - 30 * DAY_US)] * 2
)
REPORT = report_of(
    ROWS,
    TEN_SECONDS,
    granule_us=SECOND,
    started_us=START_US,
    late_watermark_ms=START_US // 1_000 - 60_000,
    late_base_ms=START_US // 1_000,
)


def test_a_misdated_row_has_no_need_and_is_still_late_in_the_ledger() -> None:
    needs = needs_against(REPORT, START_US // 1_000)
    assert needs.pairs == 42
    assert needs.need_us.max() < 31 * DAY_US
    assert (needs.misdated_rows, needs.misdated_late) == (6, 6)
    assert judge(REPORT).total.late_min == 8


def test_the_live_policy_does_not_learn_from_a_misdated_row() -> None:
    seen = observation_of(REPORT, PartitionBases(), START_US // 1_000)
    assert seen.count.sum() == 42
    assert seen.need_us.shape == seen.count.shape
    assert seen.event_us.min() > START_US - 31 * DAY_US
