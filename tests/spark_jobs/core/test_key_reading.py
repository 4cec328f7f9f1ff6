"""Keys stand for what a row-by-row reading of them says."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.granules import Granules
from tidemark.models.base.operators import Closed
from tidemark.spark_jobs.core.time_numbers import AFTER, ASIDE, BEFORE, FIRST, KeyReading, TimeNumbers

CLOCK_US = 50_000_000
NAMES = ("b", "a", "b", "other")
"""Names of partitions by number; two have one name."""


@given(
    closed=st.sampled_from([None, "left", "right"]),
    width=st.sampled_from([1, 3]),
    checked=st.booleans(),
    keys=st.dictionaries(
        st.tuples(
            st.integers(0, len(NAMES) - 1),
            st.one_of(st.sampled_from([ASIDE, BEFORE, AFTER]), st.integers(-20, 120)),
            st.booleans(),
        ),
        st.integers(1, 5),
    ),
)
def test_keys_are_read_as_one_by_one(
    closed: Closed | None, width: int, checked: bool, keys: dict[tuple[int, int, bool], int]
) -> None:
    times = TimeNumbers(1_000_000, closed)
    granules = Granules(width * 1_000_000, closed or "left")
    first = times.of(CLOCK_US + 10_000_000)
    future = (first, times.of(CLOCK_US)) if checked else None
    packed: Counter[int] = Counter()
    cells: Counter[tuple[str, int]] = Counter()
    future_rows: Counter[str] = Counter()
    newest: dict[str, int] = {}
    for (partition, given_number, marked), rows in keys.items():
        special = given_number in {ASIDE, BEFORE, AFTER}
        number = given_number if special else times.of(given_number * 1_000_000 - 500_000) + times.end
        assert special or number >= FIRST
        key = partition << times.bits | number
        packed[~key if marked else key] += rows
        name = NAMES[partition]
        time = times.end if number == AFTER else None if special else number - times.end
        ahead = marked
        if time is not None and checked and time >= first:
            time, ahead = times.of(CLOCK_US), True
        future_rows[name] += rows * ahead
        if time is not None and time < times.end:
            granule = times.granule(time, granules)
            cells[name, granule] += rows
            if not ahead:
                newest[name] = max(granule, newest.get(name, granule))
    counts, found = KeyReading(times, granules, NAMES.__getitem__, future).read(
        np.array([*packed], np.int64), np.array([*packed.values()], np.int64)
    )

    assert found == newest
    assert {
        (part.partition, granule): rows
        for part in counts.by_partition()
        for granule, rows in zip(part.granules, part.counts, strict=True)
    } == cells
    assert dict(zip(counts.partitions, counts.future_rows, strict=True)) == future_rows
    assert list(counts.partitions) == sorted(future_rows)
