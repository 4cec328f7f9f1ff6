"""What the analysed plan of a query holds: its observed metrics, its watermarks, and the operator above each metric.

The operator is not read from text. Spark (4.2, ``ResolveTimeWindows``) makes of ``window`` and ``session_window`` an
expression of the event time, which is evaluated here for one time: the windows that come out show size, slide and
start. An operator that is not recognised is None: a window over another column than the event time, a gap that depends
on the row, a key made by other functions.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkContext

from tidemark.models.operators import Operator, SessionWindow, TimeWindow, row_level

_log = logging.getLogger("tidemark.spark")

_ROW_LEVEL = frozenset(
    {
        "DeduplicateWithinWatermark",
        "TransformWithState",
        "TransformWithStateInPandas",
        "TransformWithStateInPySpark",
    }
)
_OTHER_STATEFUL = frozenset(
    {"Deduplicate", "FlatMapGroupsWithState", "FlatMapGroupsInPandasWithState", "FlatMapGroupsInRWithState"}
)
_SAMPLE_US = 1_767_225_601_234_567
"""Any time that is on no grid; one after 1970 has windows without negative remainders."""

_Node = Any
"""A node of a plan, or an expression, in the JVM."""


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What the analysed plan of a query holds."""

    operators: Mapping[str, Operator | None]
    """By name of an observed metric the nearest stateful operator above it; None when it is not recognised."""
    watermarks: int
    """How many watermark nodes there are."""


def read_plan(plan: _Node) -> QueryPlan:
    """Return what a plan in the JVM holds.

    Raises:
        Py4JError: when its nodes cannot be walked.
    """
    operators: dict[str, Operator | None] = {}
    watermarks = 0
    ways: list[list[_Node]] = [[plan]]
    while ways:
        way = ways.pop()
        node = way[-1]
        kind = node.nodeName()
        watermarks += kind == "EventTimeWatermark"
        if kind == "CollectMetrics":
            operators.setdefault(node.name(), _operator_on(way[:-1]))
        ways += [[*way, child] for child in _items(node.children())]
    return QueryPlan(operators, watermarks)


def _operator_on(way: Sequence[_Node]) -> Operator | None:
    """Return the operator nearest to the end of a way down from the root."""
    try:
        between: list[_Node] = []
        for node in reversed(way):
            kind = node.nodeName()
            if kind in _ROW_LEVEL or (
                kind == "Join" and all(c.isStreaming() for c in _items(node.children()))
            ):
                return row_level()
            if kind == "Aggregate":
                made = [operator for below in between for operator in _windows_made_in(below)]
                return made[0] if len(made) == 1 else None
            if kind in _OTHER_STATEFUL:
                return None
            between.append(node)
    except (Py4JError, TypeError) as error:  # Py4J says TypeError of a class that this Spark does not have
        _log.warning("the operator cannot be read from the plan: %s", error)
    return None


def _windows_made_in(node: _Node) -> Iterator[Operator | None]:
    """Return the operators of the window columns that a node makes, None for one that is not understood."""
    kind = node.nodeName()
    if kind == "Project":
        for column in _items(node.projectList()):
            if column.nodeName() == "Alias" and column.child().nodeName() == "CreateNamedStruct":
                yield from _window(column.metadata(), [column.child()])
    elif kind == "Expand":
        projections = _items(node.projections())[:2]
        for index, column in enumerate(_items(node.output())):
            yield from _window(column.metadata(), [projection.apply(index) for projection in projections])


def _window(metadata: _Node, expressions: Sequence[_Node]) -> Iterator[Operator | None]:
    """Return the operator of a column if it is a window; a sliding one has an expression for each of its windows."""
    is_session = metadata.contains("spark.sessionWindow")
    if not (is_session or metadata.contains("spark.timeWindow")):
        return
    edges = [edge for expression in expressions if (edge := _edges_us(expression)) is not None]
    if len(edges) < len(expressions):
        yield None
        return
    start_us, end_us = edges[0]
    if is_session:
        yield SessionWindow(end_us - start_us)
        return
    slide_us = start_us - edges[1][0] if len(edges) > 1 else end_us - start_us
    yield TimeWindow(end_us - start_us, slide_us, start_us % slide_us)


def _edges_us(expression: _Node) -> tuple[int, int] | None:
    """Return start and end of the window of the sample; None where it does not depend on the event time alone."""
    references = expression.references().toSeq()
    if references.length() != 1 or not references.apply(0).metadata().contains("spark.watermarkDelayMs"):
        return None
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    schema = getattr(expressions, "package$AttributeSeq")(references)
    values = SparkContext._gateway.new_array(jvm.java.lang.Object, 1)  # type: ignore[union-attr]  # noqa: SLF001
    values[0] = _SAMPLE_US
    bound = expressions.BindReferences.bindReference(expression, schema, False)
    window = bound.eval(expressions.GenericInternalRow(values))
    return int(window.getLong(0)), int(window.getLong(1))


def _items(sequence: _Node) -> list[_Node]:
    return [sequence.apply(index) for index in range(sequence.length())]
