"""What the bounds of a query decide at its stateful operators, read from its plan."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

from tidemark.models.coupling import CoupledOperator, Coupling
from tidemark.models.joins import JoinedQuery
from tidemark.spark_jobs.columns import SESSION_WINDOW, TIME_WINDOW, delay_ms, is_event_time
from tidemark.spark_jobs.scala import items

_Node = Any
"""A node of a plan, or an expression, in the JVM."""


def read_coupling(
    session: _Node, analysed: _Node, joins: JoinedQuery | None, bound_ms: int | None = None
) -> list[Coupling]:
    """Return what the bounds decide, the first operator of a chain first.

    Args:
        session: Spark's own session (``_jsparkSession``).
        analysed: the analysed plan.
        joins: what Spark makes of its joins; None without any.
        bound_ms: the bound of all inputs, in milliseconds; None: those in the plan.

    Raises:
        Py4JError: when the plan cannot be walked.
    """
    reader = _Reader(joins, bound_ms)
    planned = session.sessionState().optimizer().execute(analysed)
    reader.widest_ms = max(reader.delays(planned), default=0) if bound_ms is None else bound_ms
    reader.retention(planned)
    return reader.found


class _Reader:
    def __init__(self, joins: JoinedQuery | None, bound_ms: int | None) -> None:
        self._joins = () if joins is None else joins.joins
        self._bound_ms = bound_ms
        self._numbers = count(1)
        self.widest_ms = 0
        self.found: list[Coupling] = []

    def delays(self, node: _Node) -> Iterator[int]:
        """Yield the delays of the plan's watermarks, in milliseconds."""
        if node.nodeName() == "EventTimeWatermark":
            yield from (delay_ms(column) for column in items(node.output()) if is_event_time(column))
        for child in items(node.children()):
            yield from self.delays(child)

    def retention(self, node: _Node) -> tuple[int, tuple[int, ...]]:
        """Return by how much joins hold the watermark back that a node passes on, and which; note the operators."""
        children = items(node.children())
        join = node.nodeName() == "Join" and all(child.isStreaming() for child in children)
        # Joins have their numbers from the root down, as where they were read.
        number = next(self._numbers) if join else 0
        below = max((self.retention(child) for child in children), default=(0, ()))
        if join and number <= len(self._joins):
            sides = self._joins[number - 1].left, self._joins[number - 1].right
            kept_ms = max((side.retention_ms for side in sides if side.retention_ms is not None), default=0)
            return (below[0] + kept_ms, (*below[1], number)) if kept_ms > 0 else below
        if node.isStreaming():
            self._note(node, *below)
        return below

    def _note(self, node: _Node, retention_ms: int, joins: tuple[int, ...]) -> None:
        kind, horizon_ms = node.nodeName(), None
        operator: CoupledOperator = "deduplication"
        if kind == "Aggregate":
            columns = [column for column in items(node.groupingExpressions()) if is_event_time(column)]
            operator = _of_key(columns[0]) if columns else operator
        elif kind in {"Deduplicate", "DeduplicateWithinWatermark"}:
            columns = [column for column in items(node.child().output()) if is_event_time(column)]
        else:
            return
        if not columns:
            return
        if kind == "DeduplicateWithinWatermark":
            horizon_ms = delay_ms(columns[0]) if self._bound_ms is None else self._bound_ms
        elif kind == "Deduplicate":
            horizon_ms = 0
        self.found.append(
            Coupling(
                operator=operator,
                bound_ms=self.widest_ms,
                retention_ms=retention_ms,
                joins=joins,
                horizon_ms=horizon_ms,
            )
        )


def _of_key(column: _Node) -> CoupledOperator:
    metadata = column.metadata()
    if metadata.contains(SESSION_WINDOW):
        return "sessions"
    return "windows" if metadata.contains(TIME_WINDOW) else "event time as a key"
