"""What a checkpoint holds as state, by Spark's own sources ``state-metadata`` and ``statestore`` (4.0 and later).

Rows of state are read as of one committed batch, so a query that runs meanwhile changes nothing and is not disturbed.
Spark marks the columns of the event time, and of windows of it, in the schema that it keeps beside the state. It writes
that schema when the state is made and leaves it as it is (tried on 4.2: a restart with another delay did not change
it), so a delay from there is that of the first start.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from tidemark.spark_jobs.spark.checkpoint import HadoopFiles, numbers_in
from tidemark.spark_jobs.spark.event_time import DELAY, SESSION_WINDOW, TIME_WINDOW, quoted
from tidemark.spark_jobs.spark.jvm import Py4JJavaError

_JOIN = "symmetricHashJoin"
_VARIABLE = "stateVarName"
_SIDES: Sequence[tuple[str | None, Mapping[str, str]]] = [
    (side, {"joinSide": side}) for side in ("left", "right")
]
_WHOLE: Sequence[tuple[str | None, Mapping[str, str]]] = [(None, {})]
_EXPIRY = "expiresAtMicros"
"""Column in which ``dropDuplicatesWithinWatermark`` keeps the watermark that ends a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateRows:
    """The rows of state of one operator, or of one side or state variable of it."""

    operator: int
    """Its number in the checkpoint. Spark counts from the sink's side: 0 is the last operator."""
    name: str | None
    """Spark's own name of it; None where a Spark before 4.0 wrote the state, which keeps none."""
    part: str | None = None
    """A join's side, or the state variable of a ``transformWithState``; None where there is but one part."""
    rows: int | None = None
    """Rows of state; None when they cannot be read."""
    windows: int | None = None
    """Windows among them; None where rows are not kept by window."""
    event_time: str | None = None
    """Column that decides when a row goes; None where none does."""
    oldest_us: int | None = None
    """Least time in that column, of a window its end, in microseconds since the epoch; None without rows."""
    newest_us: int | None = None
    """Greatest such time."""
    first_bound_ms: int | None = None
    """Delay of the watermark when the state was made, in milliseconds; None where the schema does not hold it."""
    unread: str | None = None
    """Why the rows cannot be read; None when they are."""


@dataclass(frozen=True, slots=True)
class StateWindow:
    """A window that is in the state."""

    operator: int
    part: str | None
    """As in ``StateRows``."""
    start_us: int
    """In microseconds since the epoch."""
    end_us: int
    rows: int
    """Rows of state: one for each group."""


@dataclass(frozen=True, slots=True)
class State:
    """The state as of one batch."""

    parts: list[StateRows]
    windows: list[StateWindow]
    """The open windows of each operator that end first."""


@dataclass(frozen=True, slots=True)
class _Operator:
    """An operator with state."""

    number: int
    name: str | None
    parts: Sequence[tuple[str | None, Mapping[str, str]]]
    """Its parts, each with the options of Spark's source for it."""


@dataclass(frozen=True, slots=True)
class _Time:
    """The column by which rows of state go."""

    name: str
    column: Column
    is_window: bool
    delay_ms: int | None


def read_state(spark: SparkSession, files: HadoopFiles, batch: int, windows: int) -> State:
    """Return the state as of a committed batch.

    Args:
        spark: a session of Spark 4.0 or later.
        files: the checkpoint's.
        windows: maximum number of windows to return of each operator.

    Raises:
        ValueError: when Spark cannot read what operators there are.
    """
    # A session makes what its state stores report to with its first query, and reading them needs it (4.2).
    spark._jsparkSession.streams()  # noqa: SLF001 - it is made by this call in the JVM
    state = State([], [])
    for operator in _operators(spark, files):
        for part, options in operator.parts:
            reader = spark.read.format("statestore").option("batchId", batch)
            reader = reader.option("operatorId", operator.number).options(**options)
            what = StateRows(operator=operator.number, name=operator.name, part=part)
            try:
                rows, open_windows = _read(reader.load(files.uri), what, windows)
            except (PySparkException, Py4JJavaError) as error:
                rows, open_windows = replace(what, unread=_reason_of(error)), []
            state.parts.append(rows)
            state.windows.extend(open_windows)
    return state


def _reason_of(error: Exception) -> str:
    """Return what Spark says is wrong, in one line: of nested errors the first one that Spark words, else the last."""
    if not isinstance(error, Py4JJavaError):
        return " ".join(str(error).split())
    cause, text = error.java_exception, ""
    while cause is not None:
        text = str(cause.getMessage() or text)
        if text.startswith("["):
            break
        cause = cause.getCause()
    return " ".join(text.split())


def _operators(spark: SparkSession, files: HadoopFiles) -> list[_Operator]:
    """Return the operators with state."""
    try:
        named = spark.read.format("state-metadata").load(files.uri).collect()
    except (PySparkException, Py4JJavaError) as error:
        raise ValueError(f"{files.path('state/*/_metadata')} cannot be read: {_reason_of(error)}") from error
    operators = {row.operatorId: _Operator(row.operatorId, row.operatorName, _parts_of(row)) for row in named}
    for number in numbers_in(files, "state"):
        if number not in operators:
            is_join = any(name.startswith("left-") for name in files.names(f"state/{number}/0"))
            operators[number] = _Operator(number, _JOIN if is_join else None, _SIDES if is_join else _WHOLE)
    return [operators[number] for number in sorted(operators)]


def _parts_of(operator: Row) -> Sequence[tuple[str | None, Mapping[str, str]]]:
    if operator.operatorName == _JOIN:
        return _SIDES
    properties = json.loads(operator.asDict().get("operatorProperties") or "{}")
    variables = sorted(
        str(described["stateName"])
        for described in properties.get("stateVariables", ())
        if described["stateVariableType"] != "TimerState"
    )
    return [(variable, {_VARIABLE: variable}) for variable in variables] or _WHOLE


def _read(state: DataFrame, what: StateRows, windows: int) -> tuple[StateRows, list[StateWindow]]:
    # What a transformWithState keeps, it drops by its own timers.
    time = None if what.part is not None and what.name != _JOIN else _time_of(state.schema)
    row, shown = _counted(state, time, windows)
    if time is None:
        return replace(what, rows=row.rows), []
    rows = replace(
        what,
        rows=row.rows or 0,
        windows=row.windows if time.is_window else None,
        event_time=time.name,
        oldest_us=row.oldest,
        newest_us=row.newest,
        first_bound_ms=time.delay_ms,
    )
    return rows, [StateWindow(what.operator, what.part, row.start, row.end, row.rows) for row in shown]


def _counted(state: DataFrame, time: _Time | None, windows: int) -> tuple[Row, list[Row]]:
    """Return the sums of a part of the state, and the rows of the windows that end first."""
    if time is None or not time.is_window:
        edge = F.lit(None).cast("long") if time is None else time.column
        sums = state.agg(
            F.count("*").alias("rows"), F.min(edge).alias("oldest"), F.max(edge).alias("newest")
        ).first()
        assert sums is not None
        return sums, []
    edges = [_micros(time.column[edge]).alias(edge) for edge in ("start", "end")]
    by_window = state.groupBy(*edges).agg(F.count("*").alias("rows")).cache()  # the state is read once
    try:
        sums = by_window.agg(
            F.sum("rows").alias("rows"),
            F.count("*").alias("windows"),
            F.min("end").alias("oldest"),
            F.max("end").alias("newest"),
        ).first()
        assert sums is not None
        return sums, by_window.orderBy("end", "start").limit(windows).collect()
    finally:
        by_window.unpersist()


def _time_of(schema: StructType) -> _Time | None:
    """Return the column of a state's rows by which they go: a window, an event time, or when they expire."""
    columns = list(_columns_of(schema))
    expiry = next((column for column, field in columns if field.name == _EXPIRY), None)
    if expiry is not None:
        return _Time(_EXPIRY, expiry, False, None)
    marked = [
        pair for pair in columns if TIME_WINDOW in pair[1].metadata or SESSION_WINDOW in pair[1].metadata
    ]
    marked += [pair for pair in columns if DELAY in pair[1].metadata]
    for column, field in marked:
        delay = field.metadata.get(DELAY)
        if isinstance(field.dataType, StructType) and {"start", "end"} <= set(field.dataType.names):
            return _Time(field.name, column, True, delay)
        if isinstance(field.dataType, TimestampType | TimestampNTZType):
            return _Time(field.name, _micros(column), False, delay)
    return None


def _columns_of(schema: StructType) -> Iterator[tuple[Column, StructField]]:
    for part in schema:
        if part.name in {"key", "value"} and isinstance(part.dataType, StructType):
            for field in part.dataType:
                yield F.col(f"{part.name}.{quoted(field.name)}"), field


def _micros(column: Column) -> Column:
    return F.unix_micros(column.cast("timestamp"))
