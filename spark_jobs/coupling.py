"""What the bounds of a query decide at its stateful operators, read from its plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from tidemark.models.base.operators import Operator, RowLevel
from tidemark.models.protocol.downstream import DelayedOperator, Downstream, OperatorDelay
from tidemark.models.specs.findings import JoinedQuery
from tidemark.spark_jobs.columns import SESSION_WINDOW, TIME_WINDOW, delay_ms, is_event_time
from tidemark.spark_jobs.query_plan import tap_at
from tidemark.spark_jobs.scala import items

_Node = Any
"""A node of a plan, or an expression, in the JVM."""


@dataclass(frozen=True, slots=True)
class PlanOperators:
    """What the bounds decide at each stateful operator of a query, and what they are.

    Operators, and inputs, are given with the names of the observed metrics below them.
    """

    operators: list[tuple[OperatorDelay, frozenset[str]]] = field(default_factory=list)
    """The operators, the most upstream first."""
    delays: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    """Delays of the plan's watermarks, in milliseconds."""

    def downstream_of(
        self,
        metric: str,
        operator: Operator,
        *,
        bound_ms: int,
        live: Iterable[str] = (),
        unsafe: bool = False,
    ) -> Downstream | None:
        """Return what one stream's bound decides behind its own operator; None when nothing.

        Args:
            metric: name of the stream's metric.
            operator: its own operator, which the bound decides as the stream's reports say.
            bound_ms: its bound, in milliseconds.
            live: metrics of the streams in Live, whose delays are ceilings.
            unsafe: whether a narrower bound may end the query.
        """
        in_live = frozenset(live)
        behind: set[DelayedOperator] = {"windows", "sessions"} if isinstance(operator, RowLevel) else set()
        windows = [
            each.retention_ms
            for each, _ in self.operators
            if each.horizon_ms is None and (each.retention_ms or each.operator in behind)
        ]
        # Where an input's event time was dropped on the way, the horizon is another input's delay.
        known = [
            (each.retention_ms + (0 if moves else each.horizon_ms), moves)
            for each, below in self.operators
            if each.horizon_ms is not None
            for moves in [metric in below - in_live and each.horizon_ms == bound_ms]
        ]
        horizon_ms, moves = max(known, key=lambda one: one[0] + one[1] * bound_ms, default=(None, False))
        others = [delay for delay, below in self.delays if not below & {metric, *in_live}]
        if not windows and not known and not unsafe:
            return None
        return Downstream(
            retention_ms=max(windows, default=None),
            horizon_ms=horizon_ms,
            horizon_moves=moves,
            others_ms=max(others, default=0),
            unsafe=unsafe,
        )


def read_operators(
    session: _Node, analysed: _Node, joins: JoinedQuery | None, bound_ms: int | None = None
) -> PlanOperators:
    """Return what the bounds decide.

    Args:
        session: Spark's own session (``_jsparkSession``).
        analysed: the analysed plan.
        joins: what Spark makes of its joins; None without any.
        bound_ms: the bound of all inputs, in milliseconds; None: those in the plan.

    Raises:
        Py4JError: when the plan cannot be walked.
    """
    # Only joins are read from the optimised plan, whose order is theirs.
    planned = analysed if joins is None else session.sessionState().optimizer().execute(analysed)
    reader = _Reader(joins, bound_ms)
    reader.read(planned)
    widest_ms = max((delay for delay, _ in reader.delays), default=0) if bound_ms is None else bound_ms
    found = [(replace(delay, bound_ms=widest_ms), metrics) for delay, metrics in reader.operators]
    return PlanOperators(found, reader.delays)


class _Reader:
    def __init__(self, joins: JoinedQuery | None, bound_ms: int | None) -> None:
        self._joins = () if joins is None else joins.joins
        self._bound_ms = bound_ms
        self._numbers = count(1)
        self.operators: list[tuple[OperatorDelay, frozenset[str]]] = []
        self.delays: list[tuple[int, frozenset[str]]] = []

    def read(self, node: _Node) -> tuple[int, tuple[int, ...], frozenset[str]]:
        """Note what is at a node and below it; return by how much joins hold back the watermark that it passes on.

        Then come the numbers of those joins, and the metrics at the node and below it.
        """
        kind, children = node.nodeName(), items(node.children())
        join = kind == "Join" and all(child.isStreaming() for child in children)
        # Joins have their numbers from the root down, as where they were read.
        number = next(self._numbers) if join else 0
        read = [self.read(child) for child in children]
        retention_ms, joins = max((one[:2] for one in read), default=(0, ()))
        metrics = frozenset[str]().union(*(one[2] for one in read))
        tap = tap_at(node, kind)
        if tap is not None:
            metrics |= {tap}
        elif kind == "EventTimeWatermark":
            columns = [column for column in items(node.output()) if is_event_time(column)]
            self.delays.extend((delay_ms(column), metrics) for column in columns)
        elif join and number <= len(self._joins):
            sides = self._joins[number - 1].left, self._joins[number - 1].right
            kept_ms = max((side.retention_ms for side in sides if side.retention_ms is not None), default=0)
            if kept_ms > 0:
                retention_ms, joins = retention_ms + kept_ms, (*joins, number)
        elif node.isStreaming():
            delay = self._delay_of(kind, node)
            if delay is not None:
                delay = replace(delay, retention_ms=retention_ms, joins=joins)
                self.operators.append((delay, metrics))
        return retention_ms, joins, metrics

    def _delay_of(self, kind: str, node: _Node) -> OperatorDelay | None:
        """Return what the bounds decide at a node; None when nothing. The bound is filled in later."""
        if kind == "Aggregate":
            keys = [column for column in items(node.groupingExpressions()) if is_event_time(column)]
            return OperatorDelay(operator=_of_key(keys[0]), bound_ms=0) if keys else None
        if kind not in {"Deduplicate", "DeduplicateWithinWatermark"}:
            return None
        columns = [column for column in items(node.child().output()) if is_event_time(column)]
        if not columns:
            return None
        horizon_ms = 0
        if kind == "DeduplicateWithinWatermark":
            horizon_ms = delay_ms(columns[0]) if self._bound_ms is None else self._bound_ms
        return OperatorDelay(operator="deduplication", bound_ms=0, horizon_ms=horizon_ms)


def _of_key(column: _Node) -> DelayedOperator:
    metadata = column.metadata()
    if metadata.contains(SESSION_WINDOW):
        return "sessions"
    return "windows" if metadata.contains(TIME_WINDOW) else "event time as a key"
