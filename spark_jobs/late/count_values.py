"""Rows and losses by the values of a dimension, of batches that are read again.

It is one more read of these batches, and only where a dimension is named. To count while the late rows are written
would save it, but ``Observation`` waits for an event that Spark drops when it is busy, and ``approx_top_k`` over value
and reason has no place for how late the rows were.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.ranges import MAX_VALUE_LENGTH
from tidemark.models.evidence.late_counts import (
    AGE_LIMITS_MS,
    MAX_VALUES,
    ByValue,
    LossCounts,
    merge,
)
from tidemark.spark_jobs.late.late_rows import (
    FIRST,
    LATE,
    NO_EVENT_TIME,
    REASON,
    SET_ASIDE,
    WATERMARK,
    DueBatch,
    LateRule,
    judged,
)
from tidemark.spark_jobs.spark.event_time import quoted

_VALUE, _AGE, _AGES = "value", "age", "ages"
_SUMS = _ROWS, _LATE, _NO_EVENT_TIME, _SET_ASIDE = "rows", "late", "no_event_time", "set_aside"
_BY_US = "by_us"


def count_values(
    rows: DataFrame,
    batches: list[DueBatch],
    rule: LateRule,
    dimensions: Sequence[str],
    limit: int = MAX_VALUES,
) -> list[ByValue]:
    """Return exactly how many rows came and how many were lost, by the values of each of some columns as text.

    Args:
        rows: the user's columns, and the number of the batch.
        rule: what the query does with a row.
        dimensions: names of the columns.
        limit: how many values stand by themselves: those with most rows.
    """
    reason = F.col(REASON)
    by_us = F.when(reason == LATE, F.try_subtract(F.col(WATERMARK), F.col(FIRST)))
    names = [f"{_VALUE}{number}" for number in range(len(dimensions))]
    values = (
        F.col(quoted(column)).cast("string").alias(name)
        for name, column in zip(names, dimensions, strict=True)
    )
    together = (
        judged(rows, batches, rule)
        .groupBy(*values, _age(by_us).alias(_AGE))
        .agg(
            F.count(F.lit(1)).alias(_ROWS),
            F.count(F.when(reason == LATE, 1)).alias(_LATE),
            F.count(F.when(reason == NO_EVENT_TIME, 1)).alias(_NO_EVENT_TIME),
            F.count(F.when(reason == SET_ASIDE, 1)).alias(_SET_ASIDE),
            F.max(by_us).alias(_BY_US),
        )
        .persist()  # read once for all dimensions
    )
    try:
        return [_by_value(together.withColumnRenamed(name, _VALUE), limit) for name in names]
    finally:
        together.unpersist()


def _by_value(together: DataFrame, limit: int) -> ByValue:
    by_age = together.groupBy(_VALUE, _AGE).agg(*_added())
    ages = F.collect_list(F.when(F.col(_AGE).isNotNull(), F.struct(_AGE, _LATE))).alias(_AGES)
    counted = by_age.groupBy(_VALUE).agg(*_added(), ages)
    ranked = counted.orderBy(F.desc(_ROWS), _VALUE).limit(limit + 1).collect()
    other = LossCounts(rows=0)
    if len(ranked) > limit:
        ranked = ranked[:limit]
        other = _sums(counted.filter(_is_none_of([row[_VALUE] for row in ranked])))
    # Names that are cut may be the same then.
    return merge([ByValue({_short(row[_VALUE]): _counts(row)}) for row in ranked] + [ByValue({}, other)])


def _sums(counted: DataFrame) -> LossCounts:
    sums = counted.agg(*_added(), F.flatten(F.collect_list(_AGES)).alias(_AGES)).first()
    assert sums is not None, "an aggregate without keys has one row"
    return _counts(sums)


def _added() -> list[Column]:
    return [*(F.sum(name).alias(name) for name in _SUMS), F.max(_BY_US).alias(_BY_US)]


def _age(by_us: Column) -> Column:
    """Return the number of the class of ``AGE_LIMITS_MS`` that a row's age is in; null of a row that is not late."""
    age = F.when(by_us.isNull(), None)
    for number, limit_ms in enumerate(AGE_LIMITS_MS):
        age = age.when(by_us <= limit_ms * SPARK_TICK_US, number)
    return age.otherwise(len(AGE_LIMITS_MS))


def _is_none_of(values: list[str | None]) -> Column:
    value = F.col(_VALUE)
    is_named = value.isin([text for text in values if text is not None])
    return F.when(value.isNull(), F.lit(None not in values)).otherwise(~is_named)


def _counts(row: Row) -> LossCounts:
    by_us = row[_BY_US]
    return LossCounts(
        rows=row[_ROWS],
        late=row[_LATE],
        no_event_time=row[_NO_EVENT_TIME],
        set_aside=row[_SET_ASIDE],
        max_late_ms=None if by_us is None else by_us // SPARK_TICK_US,
        late_by_age=_ages(row[_AGES]),
    )


def _ages(rows_by_age: list[Row]) -> tuple[int, ...]:
    by_age = Counter[int]()
    for age, rows in rows_by_age:
        by_age[age] += rows
    return tuple(by_age[age] for age in range(max(by_age, default=-1) + 1))


def _short(value: str | None) -> str | None:
    """Return a value as it can be stored; a long one keeps its beginning and gets a digest."""
    if value is None:
        return None
    value = value.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if len(value) <= MAX_VALUE_LENGTH:
        return value
    return f"{value[: MAX_VALUE_LENGTH - 17]}~{hashlib.sha256(value.encode()).hexdigest()[:16]}"
