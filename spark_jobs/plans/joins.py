"""What Spark makes of a query's stream-stream joins, by its own helpers.

Whether a query starts is decided on the analysed plan, retention on the optimised one: the optimizer moves a filter
behind an inner join into its condition, where it ends the waiting. So the plan is optimised here as it will be for each
batch; that takes some tens of milliseconds, and is done for queries with such a join alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal

from pyspark.errors import AnalysisException

from tidemark.models.specs.findings import JoinedQuery, JoinInput, JoinType, StreamJoin
from tidemark.spark_jobs.spark.event_time import delay_ms, is_event_time
from tidemark.spark_jobs.spark.jvm import JOIN_HELPER, SparkContext, find, items

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_CHECK = "spark.sql.streaming.unsupportedOperationCheck"
_NO_EQUALITY = "Stream-stream join without equality predicate is not supported"
"""Spark's own words (``SparkStrategies.StreamingJoinStrategy``), which it says when it plans a batch."""
_WATERMARK_MS = 10**12
"""Any watermark; Py4J hands over a whole number as a Long only if it is no Int."""

_TYPES: dict[str, JoinType] = {
    "Inner": "inner",
    "LeftOuter": "left_outer",
    "RightOuter": "right_outer",
    "FullOuter": "full_outer",
    "LeftSemi": "left_semi",
    "LeftAnti": "left_anti",
}

_Node = Any
"""A node of a plan, or an expression, in the JVM."""


def read_joins(session: _Node, analysed: _Node, output_mode: str = "append") -> JoinedQuery | None:
    """Return what Spark makes of the joins of two streams in a plan; None when there are none, or it does not say.

    Args:
        session: Spark's own session (``_jsparkSession``) whose settings the query runs with.

    Raises:
        Py4JError: when the plan cannot be walked.
    """
    written = list(_stream_joins(analysed))
    if not written:
        return None
    refused = refusal(session, analysed, output_mode)
    helper = find(JOIN_HELPER)
    if helper is None:
        return None
    planned = list(_stream_joins(session.sessionState().optimizer().execute(analysed)))
    # The optimizer drops columns that nothing reads, and may make two joins of one.
    as_written = written if len(written) == len(planned) else planned
    policy: Literal["min", "max"] = "max" if session.conf().get(_POLICY).lower() == "max" else "min"
    return JoinedQuery(
        tuple(_read(helper, *pair) for pair in zip(planned, as_written, strict=True)),
        sum(node.nodeName() == "EventTimeWatermark" for node in _nodes(analysed)),
        policy,
        refused,
    )


def refusal(session: _Node, analysed: _Node, output_mode: str) -> str | None:
    """Return the message with which Spark would refuse to start a query."""
    if session.conf().get(_CHECK).lower() == "false":
        return None
    mode = getattr(_jvm().org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    try:
        _jvm().org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(
            analysed, mode
        )
    except AnalysisException as error:
        return _first_line(error)
    return None


def _read(helper: Any, join: _Node, as_written: _Node) -> StreamJoin:
    """Return a join as Spark's physical operator will see it, named as it is written."""
    kind = _TYPES.get(join.joinType().toString(), "other")
    left, right = _input(join.left(), as_written.left()), _input(join.right(), as_written.right())
    equal_keys = _jvm().org.apache.spark.sql.catalyst.planning.ExtractEquiJoinKeys.unapply(join)
    if not equal_keys.isDefined():
        return StreamJoin(kind, left, right, keys=(), refused=_NO_EQUALITY)
    _, left_keys, right_keys, condition, *_ = _items_of_product(equal_keys.get())
    pairs = [(one.sql(), other.sql()) for one, other in zip(items(left_keys), items(right_keys), strict=True)]
    keys = tuple(f"{one} = {other}" for one, other in pairs)
    try:
        limits = helper.getStateWatermark(
            join.left().output(),
            join.right().output(),
            left_keys,
            right_keys,
            condition,
            _some(_WATERMARK_MS),
            False,
        )
    except AnalysisException as error:
        return StreamJoin(kind, left, right, keys=keys, refused=_first_line(error))
    left_limit, right_limit = _items_of_product(limits)
    # Spark takes the first key that is a column with a watermark, on the left before on the right.
    timed = [
        number
        for side in (left_keys, right_keys)
        for number, key in enumerate(items(side))
        if is_event_time(key)
    ]
    by = pairs[timed[0]] if timed else (left.watermark_column, right.watermark_column)
    ranges, unreadable = _ranges(join, condition)
    if not timed:
        both = zip(items(left_keys), items(right_keys), keys, strict=True)
        unreadable += [
            key
            for one, other, key in both
            if _event_times(one.references()) and _event_times(other.references())
        ]
    return StreamJoin(
        kind,
        _evicted(left, left_limit, by[0]),
        _evicted(right, right_limit, by[1]),
        keys,
        tuple(ranges),
        tuple(unreadable),
    )


def _input(planned: _Node, as_written: _Node) -> JoinInput:
    """Return what is known of one side before its join is."""
    # A column that nothing reads is gone from the optimised plan, and still has its watermark.
    column = next((time for node in (planned, as_written) for time in _event_times(node.outputSet())), None)
    if column is not None:
        is_window = column.dataType().typeName() == "struct"
        return JoinInput(column.name(), delay_ms(column), None, is_window=is_window)
    below = [
        node.eventTime().name() for node in _nodes(as_written) if node.nodeName() == "EventTimeWatermark"
    ]
    return JoinInput(None, None, None, lost_watermarks=tuple(below))


def _evicted(side: JoinInput, limit: _Node, by: str | None) -> JoinInput:
    if not limit.isDefined():
        return side
    return replace(side, retention_ms=_WATERMARK_MS - int(limit.get()), evicted_by=by)


def _ranges(join: _Node, condition: _Node) -> tuple[list[str], list[str]]:
    """Return the parts of a condition from which Spark derives a retention, and those that it cannot read."""
    ranges: list[str] = []
    unreadable: list[str] = []
    if not condition.isDefined():
        return ranges, unreadable
    helper = _jvm().org.apache.spark.sql.catalyst.analysis.StreamingJoinHelper
    left, right = join.left().outputSet(), join.right().outputSet()
    for part in _conjuncts(condition.get()):
        one = _some(part)
        if any(
            helper.getStateValueWatermark(side, other, one, _some(_WATERMARK_MS)).isDefined()
            for side, other in ((left, right), (right, left))
        ):
            ranges.append(_text(part))
        elif all(
            any(side.contains(time) for time in _event_times(part.references())) for side in (left, right)
        ):
            unreadable.append(_text(part))
    return ranges, unreadable


def _text(comparison: _Node) -> str:
    text = str(comparison.sql())
    return text[1:-1] if text.startswith("(") and text.endswith(")") else text


def _conjuncts(condition: _Node) -> list[_Node]:
    if condition.nodeName() != "And":
        return [condition]
    return [*_conjuncts(condition.left()), *_conjuncts(condition.right())]


def _event_times(columns: _Node) -> list[_Node]:
    """Return the columns of a set that have a watermark."""
    return [column for column in items(columns.toSeq()) if is_event_time(column)]


def _stream_joins(plan: _Node) -> Iterator[_Node]:
    for node in _nodes(plan):
        if node.nodeName() == "Join" and node.left().isStreaming() and node.right().isStreaming():
            yield node


def _nodes(plan: _Node) -> Iterator[_Node]:
    """Yield the nodes of a plan, each before those below it."""
    ways = [plan]
    while ways:
        node = ways.pop()
        yield node
        ways += reversed(items(node.children()))


def _items_of_product(product: _Node) -> list[_Node]:
    return [product.productElement(index) for index in range(product.productArity())]


def _some(value: object) -> _Node:
    return _jvm().scala.Option.apply(value)


def _first_line(error: Exception) -> str:
    """Return a message without the plan that Spark puts behind it."""
    return str(error).partition("\n")[0].rstrip(";. ")


def _jvm() -> Any:
    return SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
