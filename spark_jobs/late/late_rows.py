"""Which batches are due, and which of their rows Spark dropped: by the late rule, in Spark's own SQL.

Rows that batch n dropped are those with a key at or below W(n-1), among the rows between the offsets of n-1 and of n.
So both entries of the offset log must be there, and Spark keeps no more than ``minBatchesToRetain`` of them.

A row of batch n is late iff its key is at or below W(n-1). Where Live treats future-dated rows, their key is that of
the time they were set back to, by the clock that the checkpoint has of the batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Closed, Operator, RowLevel, SessionWindow, TimeWindow
from tidemark.models.base.read_json import read_object
from tidemark.spark_jobs.core.binding import not_in_real_time
from tidemark.spark_jobs.live.future_rows import AHEAD, FutureRowRule
from tidemark.spark_jobs.spark.checkpoint import LogEntry, Offset
from tidemark.spark_jobs.spark.event_time import quoted

LATE, NO_EVENT_TIME, SET_ASIDE = "late", "no event time", "set aside"
"""Reasons: at or below the watermark; dropped by every window; taken out by ``future_rows="aside"``."""

LATE_IN_REAL_TIME = not_in_real_time("late= has not been tried in it", "take late= out")

LATE_COLUMN = "late"
"""Column that is added to each row."""

BATCH = "__tidemark_batch"
_CLOCK = "__tidemark_clock"
_TIME, _KEY = "__tidemark_time", "__tidemark_key"
REASON, FIRST, WATERMARK = "__tidemark_reason", "__tidemark_first", "__tidemark_watermark"
"""Columns of ``judged``."""


PURGED = (
    "Spark has purged their entries of the offset log; "
    "raise spark.sql.streaming.minBatchesToRetain, or catch up more often"
)
NOT_KEPT = "late rows were only counted then, as the policy or the job said, and can no longer be read"
"""Why late rows are missing that nobody wanted."""


@dataclass(frozen=True, slots=True)
class FutureRowTreatment:
    """How a live query treats future-dated rows.

    Args:
        rule: which rows they are, and what becomes of them.
        granule_us: width of the granules by which they are found, in microseconds.
        closed: which edge belongs to a granule.
    """

    rule: FutureRowRule
    granule_us: int
    closed: Closed

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, fields: object) -> FutureRowTreatment:
        """Return what ``to_json`` made JSON of."""
        return read_object(cls, fields)


@dataclass(frozen=True, slots=True)
class LateRule:
    """What the stream's query does with a row.

    Args:
        event_time: name of the event-time column.
        operator: the stateful operator behind the watermark.
        partition: name of the column that names a row's partition; None when there is none.
        future: how future-dated rows are treated; None where they are taken as they are.
    """

    event_time: str
    operator: Operator
    partition: str | None
    future: FutureRowTreatment | None = None


def with_batch(rows: DataFrame, batch: DueBatch) -> DataFrame:
    """Return ``rows``, all of one batch, with its number."""
    return rows.withColumn(BATCH, F.lit(batch.batch_id).cast("long"))


def late_rows(rows: DataFrame, batches: list[DueBatch], rule: LateRule) -> DataFrame:
    """Return those of ``rows`` that Spark dropped, with a struct column ``late``.

    A row of a sliding window comes out once for each window it was too late for. The struct holds ``batch_id``;
    ``key``, what was compared with the watermark; ``partition``; ``by_us``, how far below the watermark the key was, in
    microseconds; ``reason``. Key and ``by_us`` are null where nothing was compared.

    Raises:
        ValueError: when the rows have a column ``late`` already.
    """
    columns = [name for name in rows.columns if name != BATCH]
    if LATE_COLUMN in (name.lower() for name in columns):
        raise ValueError(
            f"rows that are late get a column {LATE_COLUMN!r}, and parse makes one: name it otherwise"
        )
    lost = judged(rows, batches, rule).filter(F.col(REASON).isNotNull())
    keys = F.when(F.col(REASON) == LATE, _keys_us(F.col(FIRST), rule.operator))
    keyed = lost.withColumn(_KEY, F.explode_outer(keys))
    partition = F.lit(None) if rule.partition is None else F.col(quoted(rule.partition))
    late = F.struct(
        F.col(BATCH).alias("batch_id"),
        F.timestamp_micros(F.col(_KEY)).alias("key"),
        partition.cast("string").alias("partition"),
        F.try_subtract(F.col(WATERMARK), F.col(_KEY)).alias("by_us"),
        F.col(REASON).alias("reason"),
    )
    return keyed.select(*(F.col(quoted(name)) for name in columns), late.alias(LATE_COLUMN))


def judged(rows: DataFrame, batches: list[DueBatch], rule: LateRule) -> DataFrame:
    """Return ``rows`` with the reason why Spark dropped them, null where it did not; with lowest key and watermark.

    A row comes out once, however many windows it is in. Both times are in microseconds.
    """
    windowed = not isinstance(rule.operator, RowLevel)
    timed = _with_time(_with_watermark(rows, batches), rule)
    keyed = timed.withColumn(FIRST, _first_key_us(F.unix_micros(F.col(_TIME)), rule.operator))
    # Without a key nothing is compared; a window drops a row without an event time, other operators keep it.
    reason = F.when(F.col(REASON).isNotNull(), F.col(REASON))
    if windowed:
        reason = reason.when(F.col(_TIME).isNull(), NO_EVENT_TIME)
    return keyed.withColumn(REASON, reason.when(F.col(FIRST) <= F.col(WATERMARK), LATE))


def _with_watermark(rows: DataFrame, batches: list[DueBatch]) -> DataFrame:
    """Return ``rows`` with watermark and clock of their batch, in microseconds."""
    watermark_us = {batch.batch_id: batch.late_watermark_ms * SPARK_TICK_US for batch in batches}
    clock_us = {batch.batch_id: batch.clock_ms * SPARK_TICK_US for batch in batches}
    return rows.withColumn(WATERMARK, _looked_up(watermark_us)).withColumn(_CLOCK, _looked_up(clock_us))


def _looked_up(values: dict[int, int]) -> Column:
    if len(values) == 1:
        return F.lit(*values.values()).cast("long")
    pairs = [F.lit(number).cast("long") for pair in values.items() for number in pair]
    return F.create_map(*pairs)[F.col(BATCH)]


def _with_time(rows: DataFrame, rule: LateRule) -> DataFrame:
    """Return ``rows`` with the time they were judged by, and with the reason where they were not judged."""
    rows = rows.withColumn(_TIME, F.col(quoted(rule.event_time)))
    nothing = F.lit(None).cast("string")
    if rule.future is None:
        return rows.withColumn(REASON, nothing)
    future = rule.future.rule
    reason = nothing
    if future.treatment == "aside":
        reason = F.when(future.beyond_arrival(), SET_ASIDE)
    rows = rows.withColumn(REASON, reason)
    if future.treatment == "clamp" and future.marks:
        rows = future.judging(_TIME).mark(rows).drop(AHEAD)
    clock = F.timestamp_micros(F.col(_CLOCK))
    back = future.judging(_TIME).back_to(clock, rule.future.granule_us, rule.future.closed)
    return rows.withColumn(_TIME, back)


def _first_key_us(time_us: Column, operator: Operator) -> Column:
    """Return the lowest key of a row, null where it is out of range."""
    if isinstance(operator, RowLevel):
        return time_us
    if isinstance(operator, SessionWindow):
        return F.try_add(time_us, F.lit(operator.gap_us))
    slide_us = operator.slide_us
    offset_us = (operator.start_us + operator.size_us) % slide_us
    return F.try_add(
        time_us,
        slide_us - F.pmod(F.pmod(time_us, F.lit(slide_us)) - offset_us, F.lit(slide_us)),
    )


def _keys_us(first: Column, operator: Operator) -> Column:
    """Return the keys of a late row that are at or below the watermark, of which the lowest is ``first``."""
    if not isinstance(operator, TimeWindow) or operator.max_keys == 1:
        return F.array(first)
    time_us = F.unix_micros(F.col(_TIME))
    start_us, slide_us, size_us = operator.start_us, operator.slide_us, operator.size_us
    last = time_us - F.pmod(F.pmod(time_us, F.lit(slide_us)) - start_us, F.lit(slide_us)) + size_us
    return F.sequence(first, F.least(last, F.col(WATERMARK)), F.lit(slide_us))


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


@dataclass(frozen=True, slots=True)
class Unknown:
    """Batches whose late rows can no longer be known, or were not to be kept."""

    first: int
    last: int
    reason: str


@dataclass(frozen=True, slots=True)
class DueBatches:
    """What is to be dealt with next, in the order of the batches."""

    batches: tuple[DueBatch, ...] = ()
    unknown: tuple[Unknown, ...] = ()

    @property
    def last(self) -> int | None:
        """The last batch in it; None when nothing is due."""
        ends = [batch.batch_id for batch in self.batches[-1:]] + [gap.last for gap in self.unknown[-1:]]
        return max(ends, default=None)


def due_batches(
    entries: Mapping[int, LogEntry], committed: int, done: int, source: str, at_most: int
) -> DueBatches:
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
    return DueBatches(tuple(batches), tuple(gaps(missing, PURGED)))


def gaps(numbers: Iterable[int], reason: str) -> list[Unknown]:
    """Return the batches as runs of consecutive numbers."""
    runs: list[Unknown] = []
    for number in sorted(numbers):
        if runs and runs[-1].last == number - 1:
            runs[-1] = Unknown(runs[-1].first, number, reason)
        else:
            runs.append(Unknown(number, number, reason))
    return runs


def unknown_and_unwanted(
    unreadable: Iterable[Unknown], off: Iterable[tuple[int, int]]
) -> tuple[list[Unknown], list[Unknown]]:
    """Return batches that are unknown, and those among them whose late rows were not to be kept.

    Args:
        unreadable: batches that can no longer be read.
        off: first and last batches of the times in which late rows were only counted; they may overlap.
    """
    spans = list(off)
    unknown: list[Unknown] = []
    not_kept: list[Unknown] = []
    for gap in unreadable:
        edges = {edge for first, last in spans for edge in (first, last + 1) if gap.first < edge <= gap.last}
        for first, after in pairwise(sorted({gap.first, *edges, gap.last + 1})):
            if any(begin <= first <= end for begin, end in spans):
                not_kept.append(Unknown(first, after - 1, NOT_KEPT))
            else:
                unknown.append(Unknown(first, after - 1, gap.reason))
    return unknown, not_kept
