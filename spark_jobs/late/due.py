"""Which batches are due: committed, and not dealt with. And which can no longer be known. Pure.

Rows that batch n dropped are those with a key at or below W(n-1), among the rows between the offsets of n-1 and of n.
So both entries of the offset log must be there, and Spark keeps no more than ``minBatchesToRetain`` of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from tidemark.spark_jobs.late.offset_log import LogEntry, Offset

PURGED = (
    "Spark has purged their entries of the offset log; "
    "raise spark.sql.streaming.minBatchesToRetain, or catch up more often"
)


@dataclass(frozen=True, slots=True)
class DueBatch:
    """A batch whose late rows are to be read."""

    batch_id: int
    late_watermark_ms: int
    """W(n-1), in milliseconds: rows whose key is at or below it were dropped."""
    clock_ms: int
    """What ``current_timestamp()`` is in the batch, in milliseconds since the epoch."""
    start: Offset
    """Where the batch begins in its source; None where the source begins."""
    end: Offset
    """Where it ends; None when the source had nothing yet."""

    @property
    def has_rows(self) -> bool:
        """Whether the batch read anything of the source."""
        return self.end is not None and self.end != self.start


NOT_KEPT = "late rows were only counted then, as the policy or the job's call said, and can no longer be read"
"""Why late rows are missing that nobody wanted."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Batches whose late rows can no longer be known, or were not to be kept."""

    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class Due:
    """What is to be dealt with next, in the order of the batches."""

    batches: tuple[DueBatch, ...] = ()
    unknown: tuple[Unknown, ...] = ()

    @property
    def last(self) -> int | None:
        """The last batch in it; None when nothing is due."""
        ends = [batch.batch_id for batch in self.batches[-1:]] + [gap.last for gap in self.unknown[-1:]]
        return max(ends, default=None)


def due(entries: Mapping[int, LogEntry], committed: int, done: int, source: str, at_most: int) -> Due:
    """Return the batches after ``done`` and up to ``committed``, no more than ``at_most`` of them to be read.

    Args:
        entries: the offset log; an entry may vanish between being listed and being read.
        committed: the last batch that is committed, -1 for none.
        done: the last batch that was dealt with, -1 for none.
        source: the source that is read, as the entries name it.
        at_most: how many batches to read.
    """
    listed = sorted(entries)
    batches: list[DueBatch] = []
    missing: list[int] = []
    number = done + 1
    if listed and listed[0] > 0:
        # The first entry that is left says where its batch ends, not where it begins.
        first = min(listed[0] + 1, committed + 1)
        missing += range(number, first)
        number = max(number, first)
    while number <= committed and len(batches) < at_most:
        entry, before = entries.get(number), entries.get(number - 1)
        if entry is None or (before is None and number):
            missing.append(number)
        else:
            batches.append(
                DueBatch(
                    batch_id=number,
                    late_watermark_ms=0 if before is None else before.watermark_ms,
                    clock_ms=entry.clock_ms,
                    start=None if before is None else before.offsets.get(source),
                    end=entry.offsets.get(source),
                )
            )
        number += 1
    return Due(tuple(batches), tuple(gaps(missing, PURGED)))


def gaps(numbers: Iterable[int], reason: str) -> list[Unknown]:
    """Return the batches as runs of consecutive numbers."""
    found: list[Unknown] = []
    for number in sorted(numbers):
        if found and found[-1].last == number - 1:
            found[-1] = Unknown(found[-1].first, number, reason)
        else:
            found.append(Unknown(number, number, reason))
    return found


def apart(found: Iterable[Unknown], off: Iterable[tuple[int, int]]) -> tuple[list[Unknown], list[Unknown]]:
    """Return batches that are unknown, and those among them whose late rows were not to be kept.

    Args:
        found: batches that can no longer be read.
        off: first and last batches of the times in which late rows were only counted; they may overlap.
    """
    spans = list(off)
    unknown: list[Unknown] = []
    not_kept: list[Unknown] = []
    for gap in found:
        edges = {edge for first, last in spans for edge in (first, last + 1) if gap.first < edge <= gap.last}
        for first, after in pairwise(sorted({gap.first, *edges, gap.last + 1})):
            if any(begin <= first <= end for begin, end in spans):
                not_kept.append(Unknown(first, after - 1, NOT_KEPT))
            else:
                unknown.append(Unknown(first, after - 1, gap.reason))
    return unknown, not_kept
