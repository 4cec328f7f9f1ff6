"""What the bounds of a query decide at its stateful operators, read from its plan."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from tidemark.models.coupling import Chain, CoupledOperator, Coupling
from tidemark.models.joins import JoinedQuery
from tidemark.models.operators import Operator, RowLevel
from tidemark.spark_jobs.columns import SESSION_WINDOW, TIME_WINDOW, delay_ms, is_event_time
from tidemark.spark_jobs.scala import items

_Node = Any
"""A node of a plan, or an expression, in the JVM."""


@dataclass(frozen=True, slots=True)
class PlanCoupling:
    """What the bounds decide at each stateful operator of a query, and what they are.

    Operators, and inputs, are given with the names of the observed metrics below them.
    """

    operators: list[tuple[Coupling, frozenset[str]]] = field(default_factory=list)
    """The operators, the first of a chain first."""
    delays: list[tuple[int, frozenset[str]]] = field(default_factory=list)
    """Delays of the plan's watermarks, in milliseconds."""

    def chain_of(
        self,
        metric: str,
        operator: Operator,
        *,
        bound_ms: int,
        live: Iterable[str] = (),
        unsafe: bool = False,
    ) -> Chain | None:
        """Return what one stream's bound decides behind its own operator; None when nothing.

        Args:
            metric: name of the stream's metric.
            operator: its own operator, which the bound decides as the stream's reports say.
            bound_ms: its bound, in milliseconds.
            live: metrics of the streams in Live, whose delays are ceilings.
            unsafe: whether a narrower bound may end the query.
        """
        in_live = frozenset(live)
        windows = [
            each.retention_ms
            for each, _ in self.operators
            if each.horizon_ms is None and (each.retention_ms or isinstance(operator, RowLevel))
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
        return Chain(
            retention_ms=max(windows, default=None),
            horizon_ms=horizon_ms,
            horizon_moves=moves,
            others_ms=max(others, default=0),
            unsafe=unsafe,
        )


def read_coupling(
    session: _Node, analysed: _Node, joins: JoinedQuery | None, bound_ms: int | None = None
) -> PlanCoupling:
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
    reader.read_delays(planned)
    reader.read(planned)
    return reader.found


class _Reader:
    def __init__(self, joins: JoinedQuery | None, bound_ms: int | None) -> None:
        self._joins = () if joins is None else joins.joins
        self._bound_ms = bound_ms
        self._numbers = count(1)
        self.found = PlanCoupling()

    def read_delays(self, node: _Node) -> frozenset[str]:
        """Note the delays of the watermarks; return the metrics at a node and below it."""
        below = frozenset[str]().union(*map(self.read_delays, items(node.children())))
        kind = node.nodeName()
        if kind == "EventTimeWatermark":
            self.found.delays.extend(
                (delay_ms(column), below) for column in items(node.output()) if is_event_time(column)
            )
        return below | {str(node.name())} if kind == "CollectMetrics" else below

    def read(self, node: _Node) -> tuple[int, tuple[int, ...], frozenset[str]]:
        """Note the operators; return by how much joins hold back the watermark that a node passes on, and which.

        The last are the metrics at the node and below it.
        """
        children = items(node.children())
        join = node.nodeName() == "Join" and all(child.isStreaming() for child in children)
        # Joins have their numbers from the root down, as where they were read.
        number = next(self._numbers) if join else 0
        read = [self.read(child) for child in children]
        retention_ms, joins, _ = max(read, default=(0, (), frozenset()), key=lambda one: one[:2])
        metrics = frozenset[str]().union(*(one[2] for one in read))
        if node.nodeName() == "CollectMetrics":
            metrics |= {str(node.name())}
        if join and number <= len(self._joins):
            sides = self._joins[number - 1].left, self._joins[number - 1].right
            kept_ms = max((side.retention_ms for side in sides if side.retention_ms is not None), default=0)
            if kept_ms > 0:
                return retention_ms + kept_ms, (*joins, number), metrics
        elif node.isStreaming():
            self._note(node, retention_ms, joins, metrics)
        return retention_ms, joins, metrics

    def _note(self, node: _Node, retention_ms: int, joins: tuple[int, ...], metrics: frozenset[str]) -> None:
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
        widest_ms = max((delay for delay, _ in self.found.delays), default=0)
        coupling = Coupling(
            operator=operator,
            bound_ms=widest_ms if self._bound_ms is None else self._bound_ms,
            retention_ms=retention_ms,
            joins=joins,
            horizon_ms=horizon_ms,
        )
        self.found.operators.append((coupling, metrics))


def _of_key(column: _Node) -> CoupledOperator:
    metadata = column.metadata()
    if metadata.contains(SESSION_WINDOW):
        return "sessions"
    return "windows" if metadata.contains(TIME_WINDOW) else "event time as a key"
