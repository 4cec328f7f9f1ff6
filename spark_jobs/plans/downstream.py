"""What the bounds of a query decide at its stateful operators, read from its plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, NamedTuple

from tidemark.models.base.operators import Operator, RowLevel
from tidemark.models.base.stateful import LateBy, OperatorRule
from tidemark.models.protocol.downstream import DelayedOperator, Downstream, OperatorDelay
from tidemark.models.specs.findings import JoinedQuery
from tidemark.models.specs.state_findings import StatefulOperator
from tidemark.spark_jobs.spark.event_time import delay_ms, is_event_time
from tidemark.spark_jobs.spark.jvm import items
from tidemark.spark_jobs.spark.query_plan import tap_at
from tidemark.spark_jobs.spark.stateful import is_stateful, keys_of, rule_at

_Node = Any
"""A node of a plan, or an expression, in the JVM."""


class PlanOperator(NamedTuple):
    """A stateful operator of a plan."""

    decided: OperatorDelay
    """What the bounds decide at it."""
    metrics: frozenset[str]
    """The taps below it."""


class PlanDelay(NamedTuple):
    """A watermark of a plan."""

    delay_ms: int
    metrics: frozenset[str]
    """The taps below it."""


@dataclass(frozen=True, slots=True)
class PlanOperators:
    """What the bounds decide at each stateful operator of a query, and what they are."""

    operators: list[PlanOperator] = field(default_factory=list)
    """The operators, upstream ones first."""
    delays: list[PlanDelay] = field(default_factory=list)
    stateful: list[StatefulOperator] = field(default_factory=list)
    """All operators with state, upstream ones first."""
    event_times: list[str] = field(default_factory=list)
    """The columns with a watermark."""
    range_ms: int = 0
    """By how much the watermark has to be beyond a row's time until every join has let it go."""

    @property
    def unforeseen(self) -> tuple[str | None, bool]:
        """Why the size of the state does not follow from the bound, None when it does; whether it grows for ever."""
        endless = next((one.never_forgets.text for one in self.stateful if one.never_forgets), None)
        keeping = [operator for operator in self.stateful if operator.rule.kept != "one row"]
        other = next((operator for operator in keeping if not operator.rule.follows_bound), None)
        if endless is not None or other is None:
            several = f"{len(keeping)} operators keep rows, and Spark counts them together"
            return endless or (several if len(keeping) > 1 else None), endless is not None
        keeps = "keeps a row for each key" if other.rule.kept == "keys" else "keeps what its function says"
        return f"{other.name} {keeps}", False

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
        windows, horizons = [], []
        for one in self.operators:
            decided = one.decided
            if decided.horizon_ms is None:
                if decided.retention_ms or decided.operator in behind:
                    windows.append(decided.retention_ms)
            else:
                # Where an input's event time was dropped on the way, the horizon is another input's delay.
                moves = metric in one.metrics - in_live and decided.horizon_ms == bound_ms
                horizons.append(_Horizon(decided.retention_ms, decided.horizon_ms, moves))
        farthest = max(horizons, key=lambda one: one.retention_ms + one.horizon_ms, default=None)
        others = [delay.delay_ms for delay in self.delays if not delay.metrics & {metric, *in_live}]
        unforeseen, grows = self.unforeseen
        if not windows and farthest is None and not unsafe and unforeseen is None and not self.range_ms:
            return None
        return Downstream(
            retention_ms=max(windows, default=None),
            horizon_ms=None if farthest is None else farthest.fixed_ms,
            horizon_moves=farthest is not None and farthest.moves,
            others_ms=max(others, default=0),
            unsafe=unsafe,
            range_ms=self.range_ms,
            state_unforeseen=unforeseen and unforeseen[:1_000],
            state_grows=grows,
        )


@dataclass(frozen=True, slots=True)
class _Horizon:
    """How long deduplication knows a row; the part of its horizon may move with the stream's bound."""

    retention_ms: int
    horizon_ms: int
    moves: bool

    @property
    def fixed_ms(self) -> int:
        """What does not move with the bound."""
        return self.retention_ms + (0 if self.moves else self.horizon_ms)


def read_operators(
    session: _Node,
    analysed: _Node,
    joins: JoinedQuery | None,
    bound_ms: int | None = None,
    output_mode: str | None = None,
) -> PlanOperators:
    """Return what the bounds decide.

    Args:
        session: Spark's own session (``_jsparkSession``).
        joins: what Spark makes of its joins; None without any.
        bound_ms: the bound of all inputs, in milliseconds; None: those in the plan.
        output_mode: the query's; None when it is not known, which is taken for append.

    Raises:
        Py4JError: when the plan cannot be walked.
    """
    # Only joins are read from the optimised plan, whose order is theirs.
    planned = analysed if joins is None else session.sessionState().optimizer().execute(analysed)
    reader = _Reader(joins, bound_ms, output_mode)
    reader.read(planned)
    widest_ms = bound_ms
    if widest_ms is None:
        widest_ms = max((delay.delay_ms for delay in reader.delays), default=0)
    operators = [one._replace(decided=replace(one.decided, bound_ms=widest_ms)) for one in reader.operators]
    return PlanOperators(operators, reader.delays, reader.stateful, reader.event_times, reader.range_ms)


class _Below(NamedTuple):
    """What is at a node and below it."""

    retention_ms: int = 0
    """By how much joins hold back the watermark that the node passes on."""
    joins: tuple[int, ...] = ()
    """The numbers of those joins."""
    metrics: frozenset[str] = frozenset()
    """The taps."""


class _Reader:
    def __init__(self, joins: JoinedQuery | None, bound_ms: int | None, output_mode: str | None) -> None:
        self._joins = () if joins is None else joins.joins
        self._bound_ms, self._output_mode = bound_ms, output_mode
        self.stateful: list[StatefulOperator] = []
        self.event_times: list[str] = []
        self.range_ms = 0
        self._numbers = count(1)
        self.operators: list[PlanOperator] = []
        self.delays: list[PlanDelay] = []

    def read(self, node: _Node) -> _Below:
        """Note the operators and watermarks at a node and below it."""
        kind, children = node.nodeName(), items(node.children())
        keeps_state = is_stateful(node)
        join = kind == "Join" and keeps_state
        # Joins have their numbers from the root down, as where they were read.
        number = next(self._numbers) if join else 0
        read = [self.read(child) for child in children]
        longest = max(read, key=lambda below: (below.retention_ms, below.joins), default=_Below())
        retention_ms, joins = longest.retention_ms, longest.joins
        metrics = frozenset[str]().union(*(below.metrics for below in read))
        read_join = self._joins[number - 1] if join and number <= len(self._joins) else None
        rule = rule_at(node, self._output_mode, read_join) if keeps_state else None
        if rule is not None:
            self.stateful.append(StatefulOperator(rule, tuple(key.name() for key in keys_of(node))))
        tap = tap_at(node, kind)
        if tap is not None:
            metrics |= {tap}
        elif kind == "EventTimeWatermark":
            columns = [column for column in items(node.output()) if is_event_time(column)]
            self.delays.extend(PlanDelay(delay_ms(column), metrics) for column in columns)
            self.event_times.append(str(node.eventTime().name()))
        elif read_join is not None:
            retained_ms = max(side.retention_ms or 0 for side in (read_join.left, read_join.right))
            if retained_ms > 0:
                self.range_ms = max(self.range_ms, retained_ms)
                retention_ms, joins = retention_ms + retained_ms, (*joins, number)
        elif rule is not None and rule.follows_bound:
            decided = self._decided(rule, node)
            if decided is not None:
                decided = replace(decided, retention_ms=retention_ms, joins=joins)
                self.operators.append(PlanOperator(decided, metrics))
        return _Below(retention_ms, joins, metrics)

    def _decided(self, rule: OperatorRule, node: _Node) -> OperatorDelay | None:
        """Return what the bounds decide at a node that lets rows go by them. The bound is filled in later."""
        if rule.operator == "aggregate":
            return OperatorDelay(operator=_KEYS[rule.late_by or "event time"], bound_ms=0)
        columns = [column for column in items(node.child().output()) if is_event_time(column)]
        if rule.operator == "join" or not columns:
            return None
        horizon_ms = 0
        if rule.kept == "watermark + bound":
            horizon_ms = delay_ms(columns[0]) if self._bound_ms is None else self._bound_ms
        return OperatorDelay(operator="deduplication", bound_ms=0, horizon_ms=horizon_ms)


_KEYS: Mapping[LateBy, DelayedOperator] = {
    "window": "windows",
    "session": "sessions",
    "event time": "event time as a key",
}
