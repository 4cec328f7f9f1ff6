"""Which batches are set aside: counts that no rate explains, and rows that come last by the order of reading."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.operators import tumbling
from tidemark.models.base.ranges import MAX_ROWS
from tidemark.models.evidence.set_aside import LEAST_ROWS, RECENT, TIMES, behind_us, is_excessive

from support.streams import SECOND, report_of

GAP_US = 30 * SECOND


def recent(counts: list[int]) -> list[tuple[int, int]]:
    """Return batches of so many rows, the newest at 0."""
    return [(rows, -number * GAP_US) for number, rows in enumerate(counts)]


@given(rate=st.integers(1, 10**9), rows=st.integers(0, MAX_ROWS), gaps=st.integers(1, 100_000))
def test_a_batch_is_excessive_beyond_a_thousand_times_what_the_rate_explains_of_its_time(
    rate: int, rows: int, gaps: int
) -> None:
    """After an outage of a month a backlog of a month is none."""
    found = is_excessive(rows, gaps * GAP_US, recent([rate] * RECENT))
    assert found == (rows >= LEAST_ROWS and rows > TIMES * rate * gaps)


@pytest.mark.parametrize(
    ("counts", "excessive"),
    [
        ([], False),
        ([1] * 9, False),
        ([1] * 10, True),
        ([10**12] * 10 + [1] * 10, False),
        ([10**12] * 9 + [1] * 11, True),
    ],
    ids=["first batch", "new stream", "known rate", "rate that has risen", "several mad counts"],
)
def test_a_rate_is_known_after_ten_batches_and_a_new_one_counts_after_as_many(
    counts: list[int], excessive: bool
) -> None:
    assert is_excessive(10**12, GAP_US, recent(counts)) is excessive


@pytest.mark.parametrize(
    ("base_s", "newest_s", "behind_s"),
    [(1_000, 800, 200), (1_000, 900, 0), (1_000, 1_200, 0), (None, 800, 0), (1_000, None, 0)],
    ids=["all behind", "within the bound", "newer", "no base", "no rows"],
)
def test_a_batch_is_behind_when_its_newest_row_is_late_by_more_than_the_bound(
    base_s: int | None, newest_s: int | None, behind_s: int
) -> None:
    rows = [] if newest_s is None else [("0", newest_s * SECOND), ("0", newest_s * SECOND - 50 * SECOND)]
    report = report_of(rows, tumbling("10s"), late_watermark_ms=0, bound_ms=100_000)
    assert behind_us(report, None if base_s is None else base_s * 1_000) == behind_s * SECOND
