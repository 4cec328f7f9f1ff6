"""The offset log as text, and which batches are due, for any log."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidemark.spark_jobs.late.late_rows import NOT_KEPT, Unknown, due_batches, gaps, unknown_and_unwanted
from tidemark.spark_jobs.spark.checkpoint import (
    LogEntry,
    LogFormatError,
    parse_entry,
)

METADATA = json.dumps({"batchWatermarkMs": 7_000, "batchTimestampMs": 9_000, "conf": {}})


def test_an_entry_has_watermark_clock_and_an_offset_of_each_source_none_where_there_is_none() -> None:
    entry = parse_entry(f'v1\n{METADATA}\n{{"t":{{"0":5}}}}\n-')

    assert entry == LogEntry(7_000, 9_000, {"0": {"t": {"0": 5}}, "1": None})


def test_in_version_2_a_source_is_known_by_its_name() -> None:
    entry = parse_entry(f'v2\n{METADATA}\nclicks:{{"logOffset":3}}\nother:-\nrate:17')

    assert entry.offsets == {"clicks": {"logOffset": 3}, "other": None, "rate": {"": 17}}


@pytest.mark.parametrize(
    "text", ["", "v3\n{}", "v1", "v1\n{}\n-", "v1\n[]\n-", f"v1\n{METADATA}\n{{", "v2\n{}\nx"]
)
def test_an_unknown_version_or_a_damaged_entry_is_an_error(text: str) -> None:
    with pytest.raises(LogFormatError, match="offset log"):
        parse_entry(text)


@given(st.sets(st.integers(0, 40)), st.integers(-1, 40), st.integers(-1, 40), st.integers(1, 50))
def test_every_committed_batch_is_read_or_unknown_once_and_in_order(
    logged: set[int], committed: int, done: int, at_most: int
) -> None:
    """Whatever was purged: none is skipped, none is taken twice, and the watermark is that of the batch before."""
    entries = {n: LogEntry(1_000 * n, n, {"0": {"logOffset": n}}) for n in logged}
    seen: list[int] = []
    while (found := due_batches(entries, committed, done, "0", at_most)).last is not None:
        assert len(found.batches) <= at_most
        for batch in found.batches:
            n = batch.batch_id
            assert n in logged
            assert batch.late_watermark_ms == (1_000 * (n - 1) if n else 0)
            assert batch.end == {"logOffset": n}
            assert batch.start == ({"logOffset": n - 1} if n else None)
        unknown = [n for gap in found.unknown for n in range(gap.first, gap.last + 1)]
        assert all(n not in logged or (n and n - 1 not in logged) for n in unknown)
        seen += sorted([*unknown, *(batch.batch_id for batch in found.batches)])
        done = found.last

    start = min(seen, default=committed + 1)
    assert seen == list(range(start, committed + 1))


def test_gaps_are_runs_of_consecutive_batches() -> None:
    assert [(gap.first, gap.last) for gap in gaps([3, 1, 2, 7], "x")] == [(1, 3), (7, 7)]


@given(
    st.sets(st.integers(0, 30)),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)).map(lambda span: (span[0], sum(span)))),
)
def test_what_can_no_longer_be_read_is_not_kept_where_it_was_off_and_unknown_elsewhere(
    missing: set[int], off: list[tuple[int, int]]
) -> None:
    unknown, not_kept = unknown_and_unwanted(gaps(missing, "purged"), off)
    was_off = {number for first, last in off for number in range(first, last + 1)}

    assert _numbers(not_kept) == sorted(missing & was_off)
    assert _numbers(unknown) == sorted(missing - was_off)
    assert {gap.reason for gap in unknown} <= {"purged"}
    assert {gap.reason for gap in not_kept} <= {NOT_KEPT}


def _numbers(found: list[Unknown]) -> list[int]:
    return [number for gap in found for number in range(gap.first, gap.last + 1)]
