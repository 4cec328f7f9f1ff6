"""Finished windows and the late rows that they miss, put together.

Windows are absolute: they are what the query wrote, plus all late rows that were kept. So whoever writes them over
finished ones, by their keys, may do so any number of times, as long as ``finished`` stays what the query wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, get_args

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tidemark.models.base.operators import Operator, TimeWindow
from tidemark.spark_jobs.late.late_rows import LATE, LATE_COLUMN
from tidemark.spark_jobs.spark.event_time import quoted

Combination = Literal["sum", "min", "max"]
"""How the values of two parts of a window become one."""

WINDOW = "window"
"""Column that late rows get, as ``pyspark.sql.functions.window`` makes it."""


def reconciled(
    finished: DataFrame,
    late: DataFrame,
    operator: Operator,
    aggregate: Callable[[DataFrame], DataFrame],
    combine: Mapping[str, Combination],
) -> DataFrame:
    """Return the windows that late rows belong to, as they would be had no row been late.

    Windows of which every row was late are among them, though the query never emitted them.

    Args:
        finished: windows as the query emitted them, one row for each combination of keys.
        late: rows of a side folder.
        operator: the windows, as in the job.
        aggregate: makes windows of rows that have a column ``window``, with ``finished``'s columns. The stream's own
            aggregation can be this function when it is given ``rows.withColumn("window", window(...))``.
        combine: how each aggregated column is combined; all others are keys.

    Raises:
        ValueError: when the operator has no windows that stay as they are, or columns do not fit.
    """
    if not isinstance(operator, TimeWindow):
        raise ValueError(  # noqa: TRY004 - it is an operator, of the wrong kind
            f"{operator} cannot be reconciled: only tumbling and sliding windows keep their edges when rows are added; "
            "compute its results anew from the rows in the folder and the input"
        )
    parts = aggregate(_with_window(late, operator))
    _check_columns(finished, parts, combine)
    keys = [name for name in parts.columns if name not in combine]
    same = [F.col(f"before.{quoted(name)}").eqNullSafe(F.col(f"added.{quoted(name)}")) for name in keys]
    both = parts.alias("added").join(finished.alias("before"), same, "left")
    return both.select(
        *(
            _combined(name, combine[name]) if name in combine else F.col(f"added.{quoted(name)}")
            for name in parts.columns
        )
    )


def _with_window(late: DataFrame, operator: TimeWindow) -> DataFrame:
    """Return the rows that windows miss, each with its window: one of a sliding window is there once for each."""
    end_us = F.unix_micros(f"{LATE_COLUMN}.key")
    edges = F.struct(
        F.timestamp_micros(end_us - operator.size_us).alias("start"), F.timestamp_micros(end_us).alias("end")
    )
    return late.filter(F.col(f"{LATE_COLUMN}.reason") == LATE).withColumn(WINDOW, edges)


def _check_columns(finished: DataFrame, parts: DataFrame, combine: Mapping[str, Combination]) -> None:
    for name, how in combine.items():
        if how not in get_args(Combination):
            raise ValueError(f"{name} is combined by {how!r}; it must be {', '.join(get_args(Combination))}")
    if not combine:
        raise ValueError("nothing is combined: name the aggregated columns, such as rows=sum")
    for wanted, have, whose in (
        (set(combine), set(parts.columns), "aggregate makes"),
        (set(parts.columns), set(finished.columns), "the finished windows have"),
    ):
        if missing := sorted(wanted - have):
            raise ValueError(
                f"{whose} no column {', '.join(missing)}; the columns are {', '.join(sorted(have))}"
            )


def _combined(name: str, how: Combination) -> Column:
    """Return the combination of both parts; a part without a value, or that is not there, adds nothing."""
    before, added = F.col(f"before.{quoted(name)}"), F.col(f"added.{quoted(name)}")
    if how == "sum":
        return F.coalesce(before + added, before, added).alias(name)
    return (F.least(before, added) if how == "min" else F.greatest(before, added)).alias(name)
