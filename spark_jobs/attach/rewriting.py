"""Puts other plans in the place of a query's watermarks, from Python: the jar has ``Rewriting.java`` for that.

Spark walks its own trees and calls back for each node, so nothing has to be compiled. The nodes above a watermark are
resolved already: its columns keep their expression ids, and what they carry of the old bound is brought up to date, as
``dropDuplicatesWithinWatermark`` and Tidemark itself read the bound there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame

from tidemark.spark_jobs.spark.event_time import DELAY
from tidemark.spark_jobs.spark.jvm import DATASET, SparkContext, aliased, find, items, with_ids
from tidemark.spark_jobs.spark.query_plan import tap_at

_Node = Any
"""A node of a plan, or an expression, in the JVM."""
_WATERMARK = "EventTimeWatermark"


def rewritten(df: DataFrame, replacement: Callable[[_Node], _Node | None]) -> DataFrame:
    """Return a frame with ``replacement`` of each watermark; the same one where nothing is replaced.

    Args:
        replacement: returns the analysed plan that takes the place of an ``EventTimeWatermark``; None to leave it.

    Raises:
        Py4JError: when this Spark has other plans.
        ValueError: when a plan has other columns than the watermark that it replaces.
    """
    # Spark calls back for each node.
    ensure_callback_server_started(SparkContext._gateway)  # type: ignore[no-untyped-call]  # noqa: SLF001
    plan = df._jdf.queryExecution().analyzed()  # noqa: SLF001 - the one way to the plan
    walk = _Rewriting(replacement)
    made = plan.transformUp(_Function(walk.at))
    if not walk.replaced:
        return df
    spark = df.sparkSession
    return DataFrame(find(DATASET).ofRows(spark._jsparkSession, made), spark)  # noqa: SLF001 - Spark's own session


class _Rewriting:
    def __init__(self, replacement: Callable[[_Node], _Node | None]) -> None:
        self._replacement = replacement
        self.replaced = 0
        self._carried: dict[int, _Node] = {}
        """By expression id the metadata that a column has now."""

    def at(self, node: _Node) -> _Node:
        """Return what takes a node's place, whose children have been seen."""
        made = node
        # One that has a tap is of a call of adaptive_watermark.
        if node.nodeName() == _WATERMARK and not _is_tapped(node.child()):
            tapped = self._replacement(node)
            if tapped is not None:
                made = with_ids(node, tapped)
                self.replaced += 1
        elif self._carried:
            made = node.transformExpressions(_Function(self._brought_up_to_date))
        if made is not node:
            for column in items(made.output()):
                if column.metadata().contains(DELAY):
                    self._carried[column.exprId().id()] = column.metadata()
        return made

    def _brought_up_to_date(self, expression: _Node) -> _Node:
        kind = expression.getClass().getSimpleName()
        if kind == "AttributeReference":
            now = self._carried.get(expression.exprId().id())
            return expression if now is None else expression.withMetadata(now)
        if kind == "Alias" and expression.explicitMetadata().isDefined():
            return self._window(expression)
        return expression

    def _window(self, alias: _Node) -> _Node:
        """Return a column of windows, which has the delay of its event time in metadata of its own."""
        old = alias.explicitMetadata().get()
        if not old.contains(DELAY):
            return alias
        for column in items(alias.references().toSeq()):
            now = self._carried.get(column.exprId().id())
            if now is not None:
                return aliased(alias.child(), alias.name(), alias, _with_delay(old, now.getLong(DELAY)))
        return alias


class _Function:
    """A function of Python as one that Spark walks a tree with."""

    def __init__(self, function: Callable[[_Node], _Node]) -> None:
        self._function = function

    def isDefinedAt(self, _: _Node) -> bool:  # noqa: N802 - Scala's name
        return True

    def applyOrElse(self, node: _Node, _: _Node) -> _Node:  # noqa: N802 - Scala's name
        return self._function(node)

    class Java:
        """As what the JVM sees it."""

        implements: ClassVar[list[str]] = ["scala.PartialFunction"]


def _is_tapped(plan: _Node) -> bool:
    """Return whether there is a tap in a plan, with no watermark above it."""
    kind = plan.nodeName()
    if kind == _WATERMARK:
        return False
    return tap_at(plan, kind) is not None or any(map(_is_tapped, items(plan.children())))


def _with_delay(metadata: _Node, delay_ms: int) -> _Node:
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
    builder = jvm.org.apache.spark.sql.types.MetadataBuilder()
    return builder.withMetadata(metadata).putLong(DELAY, delay_ms).build()
