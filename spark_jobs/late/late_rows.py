"""Which of the rows of known batches Spark dropped, by the late rule and in Spark's own SQL.

A row of batch n is late iff its key is at or below W(n-1). Where Live treats future-dated rows, their key is that of
the time they were set back to, by the clock that the checkpoint has of the batch.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Closed, Operator, RowLevel, SessionWindow, TimeWindow
from tidemark.models.base.read_json import read_object
from tidemark.spark_jobs.late.due import DueBatch
from tidemark.spark_jobs.live.future_rows import AHEAD, FutureRowRule
from tidemark.spark_jobs.tap import quoted

LATE, NO_EVENT_TIME, SET_ASIDE = "late", "no event time", "set aside"
"""Reasons: at or below the watermark; dropped by every window; taken out by ``future_rows="aside"``."""

LATE_COLUMN = "late"
"""Column that is added to each row."""

BATCH = "__tidemark_batch"
_CLOCK = "__tidemark_clock"
_TIME, _KEY = "__tidemark_time", "__tidemark_key"
REASON, FIRST, WATERMARK = "__tidemark_reason", "__tidemark_first", "__tidemark_watermark"
"""Columns of ``judged``."""


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

    Args:
        rows: the user's columns, and the number of the batch.
        batches: the batches in ``rows``.
        rule: what the query does with a row.

    Raises:
        ValueError: when the rows have a column ``late`` already.
    """
    columns = [name for name in rows.columns if name != BATCH]
    if LATE_COLUMN in (name.lower() for name in columns):
        raise ValueError(
            f"rows that are late get a column {LATE_COLUMN!r}, and parse makes one: name it otherwise"
        )
    found = judged(rows, batches, rule).filter(F.col(REASON).isNotNull())
    keys = F.when(F.col(REASON) == LATE, _keys_us(F.col(FIRST), rule.operator))
    keyed = found.withColumn(_KEY, F.explode_outer(keys))
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
