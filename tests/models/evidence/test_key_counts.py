"""Pairs summed by partition and key: the same as those of each granule by itself, however wide the windows are."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.models.base.granules import granule_first_us, granule_last_us
from tidemark.models.base.operators import Operator, TimeWindow, sliding
from tidemark.models.evidence import key_counts as module
from tidemark.models.evidence.key_counts import ReportCells, cells_of, key_counts, table_size, window_numbers
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import Report

from support.streams import SECOND, operators, report_of

rows = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-30_000, 30_000)), max_size=25)


def by_definition(report: Report) -> Counter[tuple[str, int, int]]:
    """Return (row, key) pairs by partition, lowest and highest key, granule by granule."""
    found: Counter[tuple[str, int, int]] = Counter()
    for part in report.counts.by_partition():
        for granule, count in zip(part.granules, part.counts, strict=True):
            edges = [
                edge(granule, report.granule_us, report.closed)
                for edge in (granule_first_us, granule_last_us)
            ]
            first, last = (report.operator.keys(np.array([time], np.int64))[1].tolist() for time in edges)
            for low, high in zip(first, last, strict=True):
                found[part.partition, low, high] += count
    return found


def summed(report: Report) -> Counter[tuple[str, int, int]]:
    pairs = key_counts(report)
    columns = (pairs.parts, pairs.first_us, pairs.last_us, pairs.counts)
    found: Counter[tuple[str, int, int]] = Counter()
    for part, low, high, count in zip(*(each.tolist() for each in columns), strict=True):
        found[pairs.partitions[part], low, high] += count
    return found


@pytest.mark.parametrize("table", [1, 7, 250_000])
@given(operator=operators(1_000), batch=rows)
def test_the_sums_are_those_of_each_granules_rows(
    table: int, operator: Operator, batch: list[tuple[str, int]]
) -> None:
    report = report_of(batch, operator, late_watermark_ms=0)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "_MAX_TABLE", table)
        assert summed(report) == by_definition(report)


@given(operators(1_000), rows)
def test_of_windows_each_partition_and_key_comes_once_in_order(
    operator: Operator, batch: list[tuple[str, int]]
) -> None:
    pairs = key_counts(report_of(batch, operator, late_watermark_ms=0))
    cells = list(zip(pairs.parts.tolist(), pairs.first_us.tolist(), strict=True))
    if isinstance(operator, TimeWindow):
        assert cells == sorted(set(cells))
    assert pairs.counts.min(initial=1) > 0


@given(operators(1_000).filter(lambda each: isinstance(each, TimeWindow)), rows.filter(bool))
def test_the_size_is_known_before_anything_is_summed(
    operator: TimeWindow, batch: list[tuple[str, int]]
) -> None:
    report = report_of(batch, operator, late_watermark_ms=0)
    pairs = key_counts(report)
    windows, sums = table_size(operator, cells_of(report), report.granule_us)
    assert windows == len(set(pairs.first_us.tolist()))
    assert len(pairs.counts) <= sums == windows * len(report.counts.partitions)


def test_the_size_of_windows_without_number_is_known_at_once() -> None:
    """A granule of 767 bytes of JSON can be in a quadrillion windows."""
    operator = TimeWindow(2**60, 1_000)
    cells = ReportCells(("p",), np.zeros(1, np.int64), np.array([1], np.int64), 0, np.array([5], np.int64))
    assert table_size(operator, cells, 1_000) == (-(-(2**60) // 1_000), -(-(2**60) // 1_000))


def test_the_first_and_last_window_of_a_row_at_an_edge() -> None:
    """10 s every 4 s: at 8 s a row is in [0, 10), [4, 14) and [8, 18); at 11 s only in [4, 14) and [8, 18)."""
    operator = sliding("10s", "4s")
    first, last = window_numbers(operator, np.array([8 * SECOND, 11 * SECOND], np.int64))
    ends = [
        [10 + 4 * number for number in range(low, high + 1)] for low, high in zip(first, last, strict=True)
    ]
    assert ends == [[10, 14, 18], [14, 18]]


def test_the_sums_of_a_day_by_the_minute_are_as_many_as_there_are_partitions_and_windows() -> None:
    """Not as many as there are granules and windows: 64 partitions of 5 granules would have 460,800."""
    batch = [(str(number), second * 60 * SECOND) for number in range(64) for second in range(5)]
    report = report_of(batch, sliding("24h", "1m"), late_watermark_ms=0, granule_us=SECOND)
    pairs = key_counts(report)
    assert len(pairs.counts) == 64 * (1_440 + 4)
    assert pairs.counts.sum() == 64 * 5 * 1_440
    assert key_counts(replace(report, counts=GranuleCounts.of(()))).counts.tolist() == []
