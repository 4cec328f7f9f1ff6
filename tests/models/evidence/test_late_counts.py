"""Counts by the values of a dimension: they add up in any order, and a value is called biased only if it is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.evidence.late_counts import (
    AGE_LIMITS_MS,
    AGES,
    BY_PARTITION,
    FACTOR,
    ByValue,
    LossCounts,
    late_counts,
    losses,
    merge,
)

pytestmark = pytest.mark.slow

HOUR_US = 3_600_000_000


@st.composite
def counts(draw: st.DrawFn) -> LossCounts:
    timeless, aside, taken, unknown_age = (draw(st.integers(0, 50)) for _ in range(4))
    ages = draw(st.lists(st.integers(1, 9), max_size=AGES))
    late = sum(ages) + unknown_age
    return LossCounts(
        rows=late + timeless + aside + taken,
        late=late,
        no_event_time=timeless,
        set_aside=aside,
        max_late_ms=draw(st.integers(0, 10**6)) if late else None,
        late_by_age=tuple(ages),
    )


PARTS = st.lists(
    st.builds(
        ByValue, st.dictionaries(st.none() | st.sampled_from("abcdef"), counts(), max_size=6), counts()
    ),
    max_size=6,
)


@given(PARTS, st.integers(1, 4), st.randoms())
def test_no_row_is_missing_whatever_is_merged_first_and_however_few_values_stand_by_themselves(
    parts: list[ByValue], limit: int, dice: np.random.Generator
) -> None:
    whole = merge(parts)
    shuffled = parts.copy()
    dice.shuffle(shuffled)
    assert merge([merge(shuffled[:2]), merge(shuffled[2:])]) == whole
    few = merge(parts, limit)
    assert few.total == whole.total == sum((part.total for part in parts), LossCounts(rows=0))
    assert len(few.values) <= limit
    assert set(few.values.items()) <= set(whole.values.items())
    if len(whole.values) > limit:
        assert min(each.rows for each in few.values.values()) >= max(
            each.rows for value, each in whole.values.items() if value not in few.values
        )


@given(PARTS)
def test_what_is_sent_is_what_was_counted(parts: list[ByValue]) -> None:
    counted, whole = merge(parts), ByValue({}, merge(parts).total)
    sent = late_counts(
        counted,
        whole,
        query_id="q",
        source="0",
        first_batch=3,
        last_batch=7,
        hour_us=HOUR_US,
        dimension="region",
    )
    assert sent.by_dimension == {"region": counted}
    assert replace(sent, partitions=sent.values, other_partitions=sent.other).by_dimension == {
        "region": counted,
        **({BY_PARTITION: counted} if counted.values else {}),
    }
    assert [each.rows for each in sent.values] == sorted((each.rows for each in sent.values), reverse=True)


@given(PARTS)
def test_shares_of_all_values_and_of_the_others_make_the_whole(parts: list[ByValue]) -> None:
    counted = merge(parts, 3)
    found = losses(counted)
    assert sum(each.rows for each in found) == counted.total.rows
    assert sum(each.lost for each in found) == counted.total.lost
    if counted.total.lost:
        assert 1_000_000 - len(found) <= sum(each.of_lost_ppm or 0 for each in found) <= 1_000_000
    assert not any(each.biased for each in found if each.other)


def test_a_value_that_loses_three_times_as_often_is_biased_and_one_with_few_rows_is_not() -> None:
    counted = ByValue(
        {
            "slow": LossCounts(rows=10_000, late=600, max_late_ms=7_000),
            "fast": LossCounts(rows=90_000, late=1_800),
            None: LossCounts(rows=20, late=9),
        },
        LossCounts(rows=1_000, late=30),
    )
    found = {(each.value, each.other): each for each in losses(counted)}
    slow = found["slow", False]
    assert [each for each in found.values() if each.biased] == [slow]
    assert slow.factor_ppm is not None
    assert FACTOR * 1_000_000 < slow.factor_ppm < 3_000_000
    assert (slow.lost_ppm, slow.of_rows_ppm, slow.of_lost_ppm) == (60_000, 98_990, 246_002)
    assert list(found) == [("fast", False), ("slow", False), (None, False), (None, True)]


def test_among_a_thousand_values_that_lose_alike_none_is_biased() -> None:
    dice = np.random.default_rng(5)
    for _ in range(20):
        lost = dice.binomial(1_000, 0.02, 1_000).tolist()
        counted = ByValue({str(n): LossCounts(rows=1_000, late=late) for n, late in enumerate(lost)})
        assert not any(each.biased for each in losses(counted))


def test_an_age_is_the_upper_edge_of_its_class_and_not_above_the_greatest_one() -> None:
    one_each = LossCounts(rows=17, late=17, max_late_ms=10**9, late_by_age=(1,) * AGES)
    assert [one_each.late_within_ms(number * 1_000_000 // 17 + 1) for number in range(17)] == [
        *AGE_LIMITS_MS,
        10**9,
    ]
    few = LossCounts(rows=200, late=100, max_late_ms=3_500, late_by_age=(60, 39, 1))
    assert [few.late_within_ms(share) for share in (500_000, 990_000, 999_000)] == [1_000, 2_000, 3_500]
    assert LossCounts(rows=9, late=2, max_late_ms=7).late_within_ms(500_000) is None, "no age was counted"
