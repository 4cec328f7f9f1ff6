"""What the analysed plan of a query holds: its observed metrics, its watermarks, and the operator above each metric.

Spark (4.2, ``WatermarkSupport``) judges a row by the one column with the mark of an event time among the columns that
reach a stateful operator, for an aggregate among its keys: by the end of a window, else by the time itself. So that
column is followed from the operator down to the watermark. A window is not read from text: ``window`` and
``session_window`` become an expression of the event time (``ResolveTimeWindows``), which is evaluated here for one
time; the windows that come out show size, slide and start.

Spark's optimizer leaves out a column that nobody needs, and what a join or ``dropDuplicates`` does not get makes no row
late there: of an event time and a window of it, often one is left. So for them the optimised plan says which it is. It
also says whether the tap counts the rows that reach the operator (``placement``).
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from typing import Any, Literal

from pyspark.errors import PySparkException

from tidemark.models.base.operators import Operator, SessionWindow, TimeWindow, row_level
from tidemark.spark_jobs.spark.event_time import SESSION_WINDOW, TIME_WINDOW, is_column, is_event_time
from tidemark.spark_jobs.spark.jvm import Py4JError, SparkContext, get_field, items
from tidemark.spark_jobs.spark.placement import BEHIND, changed_unseen, uncounted_because, what_changes_rows
from tidemark.spark_jobs.spark.stateful import is_stateful, keys_of, rule_at

_log = logging.getLogger("tidemark.spark")

TAP_PREFIX = "tidemark:"
"""Beginning of the name of a tap: of an observed metric, or of the column of a row counter."""

_SAMPLE_US = 1_767_225_601_234_567
"""Any time that is on no grid; one after 1970 has windows without negative remainders."""

_Node = Any
"""A node of a plan, or an expression, in the JVM."""


@dataclass(frozen=True, slots=True)
class NoOperator:
    """Why a plan shows no operator that Tidemark can judge rows by."""

    kind: Literal["Unreadable", "Unrecognised", "NothingLate", "Unsupported", "Uncounted"]
    """Unreadable: this Spark has other names; Unrecognised: the plan has a form that is not known; NothingLate: Spark
    drops no row of the stream; Unsupported: the key of a row does not follow from its event time; Uncounted: the tap
    does not have the rows that reach the operator."""
    why: str
    """The reason, as a clause."""


Found = Operator | NoOperator


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """What the analysed plan of a query holds."""

    operators: Mapping[str, Found]
    """By name of a tap the nearest stateful operator above it."""
    watermarks: Mapping[str, str | None]
    """By id of a watermark node the tap below it; None where there is none."""
    own_times: tuple[str, ...] = ()
    """The columns in which a ``transformWithState`` gives its rows an event time of their own."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """By name of a tap what changes its rows before they reach the operator, in words; nothing where nothing does."""
    undropped: frozenset[str] = frozenset()
    """The taps of which Spark drops no late row in the query's output mode, though the operator has the event time."""


class _NotFoundError(Exception):
    """Ends the search with its result."""

    def __init__(self, result: NoOperator) -> None:
        super().__init__(result.why)
        self.result = result


def read_plan(plan: _Node, optimizer: _Node, output_mode: str | None = None) -> QueryPlan:
    """Return what a plan in the JVM holds.

    Args:
        optimizer: the session's.
        output_mode: the query's output mode; None when it is not known, which is taken for append.

    Raises:
        Py4JError: when its nodes cannot be walked.
    """
    operators: dict[str, Found] = {}
    changes: dict[str, str] = {}
    watermarks: dict[str, str | None] = {}
    own_times: dict[str, None] = {}
    undropped: set[str] = set()
    times_taken = Counter[str]()
    optimised = cache(lambda: _ways_to_taps(plan, optimizer))
    for way in _ways(plan):
        kind = way[-1].nodeName()
        if kind == "EventTimeWatermark":
            watermarks.setdefault(_id_of(way[-1]))
        if kind == "UpdateEventTimeWatermarkColumn":
            own_times[way[-1].eventTime().name()] = None
        name = tap_at(way[-1], kind)
        if name is not None:
            times_taken[name] += 1
            own = next((node for node in reversed(way) if node.nodeName() == "EventTimeWatermark"), None)
            if own is not None:
                watermarks[_id_of(own)] = name
            operator = _operator_on(way, optimised().get(name, []))
            if operators.setdefault(name, operator) != operator:
                why = "the stream feeds several different operators"
                operators[name] = NoOperator("Unrecognised", why)
            changed = None if _judges_nothing(operator) else _changed_on(way)
            if changed is not None:
                changes[name] = changed
            at = _first_stateful(way)
            if (
                at is not None
                and not isinstance(operator, NoOperator)
                and not rule_at(way[at], output_mode).late_by
            ):
                undropped.add(name)
    for name, operator in operators.items():
        unseen = _changed_unseen(optimised().get(name, []), name)
        uncounted = _uncounted(unseen, changes.get(name), times_taken[name])
        if uncounted is not None and not _judges_nothing(operator):
            operators[name] = NoOperator("Uncounted", uncounted)
    return QueryPlan(operators, watermarks, tuple(own_times), changes, frozenset(undropped))


def read_above(plan: _Node, watermark: _Node) -> tuple[list[Operator], str | None]:
    """Return by what the rows of a watermark may be judged, and what changes them before that, in words.

    The plan is that of a query that is about to start; by which of several it is only the optimised one says.

    Raises:
        Py4JError: when its nodes cannot be walked.
    """
    operators: list[Operator] = []
    changed, event_time = None, watermark.eventTime().exprId().id()
    for way in _ways(plan):
        node, at = way[-1], _first_stateful(way)
        if (
            node.nodeName() != "EventTimeWatermark"
            or node.eventTime().exprId().id() != event_time
            or at is None
        ):
            continue
        changed = changed or _changed_on(way)
        for column in _event_times(way[at], way[at + 1]):
            with suppress(_NotFoundError, Py4JError, PySparkException, TypeError):
                operators.append(_operator_by(column, way[at + 1 :]))
    return operators, changed


def tap_at(node: _Node, kind: str) -> str | None:
    """Return the name of the tap whose node of a plan this is: it observes, or has the row counter; None for others."""
    if kind == "CollectMetrics":
        name = str(node.name())
        return name if name.startswith(TAP_PREFIX) else None
    if kind == "Project" and node.projectList().nonEmpty():
        last = node.projectList().last()
        # Others pass its column on as an attribute.
        if last.nodeName() == "Alias" and last.name().startswith(TAP_PREFIX):
            return str(last.name())
    return None


def _id_of(watermark: _Node) -> str:
    """Return the id of a watermark node, before Spark 4.0 that of its event time."""
    by_node = "nodeId" in dir(watermark)
    return str(watermark.nodeId() if by_node else watermark.eventTime().exprId().id())


def _ways(plan: _Node) -> Iterator[list[_Node]]:
    """Return the way from the root down to each node."""
    ways: list[list[_Node]] = [[plan]]
    while ways:
        way = ways.pop()
        yield way
        ways += [[*way, child] for child in items(way[-1].children())]


def _ways_to_taps(plan: _Node, optimizer: _Node) -> dict[str, list[list[_Node]]]:
    """Return by name of a tap the ways from the optimised plan's root down to it, those with an operator alone."""
    ways: dict[str, list[list[_Node]]] = {}
    for way in _ways(optimizer.execute(plan)):
        name = tap_at(way[-1], way[-1].nodeName())
        if name is not None and _first_stateful(way) is not None:
            ways.setdefault(name, []).append(way)
    return ways


def _changed_unseen(ways: Sequence[Sequence[_Node]], tap: str) -> str | None:
    """Return what changes rows, on any way, where a tap does not see it, in words; None where nothing does."""
    stateful = ((way, _first_stateful(way)) for way in ways)
    unseen = (changed_unseen(way[at + 1 : -1], tap + BEHIND) for way, at in stateful if at is not None)
    return next((what for what in unseen if what is not None), None)


def _changed_on(way: Sequence[_Node]) -> str | None:
    """Return what changes rows on a way up from a tap to its operator, as the plan was written."""
    at = _first_stateful(way)
    return None if at is None else what_changes_rows(way[at + 1 : -1])


def _judges_nothing(operator: Found) -> bool:
    return isinstance(operator, NoOperator) and operator.kind in {"NothingLate", "Unsupported"}


def _uncounted(unseen: str | None, changed: str | None, times_taken: int) -> str | None:
    """Return why a tap does not have the rows that reach the operator, in words; None where it has them."""
    if unseen is not None:
        return uncounted_because(unseen)
    if changed is not None and times_taken > 1:
        return (
            f"the query takes the stream {times_taken} times, and {changed} behind the watermark drops or "
            "multiplies rows on the way; let each have a watermark of its own"
        )
    return None


def _operator_on(way: Sequence[_Node], optimised: Sequence[Sequence[_Node]]) -> Found:
    """Return the operator nearest to the end of a way down from the root to a tap.

    Args:
        way: as the plan was written.
        optimised: the ways to the tap in the optimised plan.
    """
    try:
        at = _first_stateful(way)
        if at is None:
            return NoOperator("NothingLate", "the query has no stateful operator")
        times = _event_times(way[at], way[at + 1])
        rule = rule_at(way[at], None)
        if rule.operator == "aggregate":
            why = "it is no key of the query's aggregate, nor is a window of it"
        elif not times and rule.kept == "function":
            why = f"{rule} drops none"
        else:
            why = "the query's first stateful operator does not get it"
            times = _those_left(times, optimised)
        # Of several event times Spark fails the query by itself.
        return _operator_by(times[0], way[at + 1 :]) if times else NoOperator("NothingLate", why)
    except _NotFoundError as ended:
        return ended.result
    # Py4J says TypeError of a class that this Spark does not have.
    except (Py4JError, PySparkException, TypeError, KeyError) as error:
        _log.warning("the operator cannot be read from the plan: %s", error)
        return NoOperator("Unreadable", "this Spark's plan cannot be read")


def _those_left(times: list[_Node], optimised: Sequence[Sequence[_Node]]) -> list[_Node]:
    """Return those of an operator's event times that the optimizer has left, in the order in which it gets them."""
    stateful = ((way, _first_stateful(way)) for way in optimised)
    left = [column for way, at in stateful if at is not None for column in _event_times(way[at], way[at + 1])]
    by_id = {column.exprId().id(): column for column in times}
    # The optimizer leaves out an alias that changes nothing, and with it the id that the plan as written has.
    names = [column.name() for column in times]
    named = {column.name(): column for column in times if names.count(column.name()) == 1}
    same = (by_id.get(column.exprId().id(), named.get(column.name())) for column in left)
    # It moves a left semi join below an alias, so that the only event time has the name from before.
    return [column for column in same if column is not None] or (times if len(times) == 1 and left else [])


def _first_stateful(way: Sequence[_Node]) -> int | None:
    """Return the position of the stateful operator nearest to the end of a way."""
    for position in reversed(range(len(way) - 1)):
        if is_stateful(way[position]):
            return position
    return None


def _event_times(node: _Node, child: _Node) -> list[_Node]:
    """Return the columns by which a stateful operator may judge the rows of ``child``."""
    rule = rule_at(node, None)
    if rule.late_by is None:
        return []
    columns = keys_of(node) if rule.operator == "aggregate" else items(child.output())
    return [column for column in columns if is_event_time(column)]


def _operator_by(column: _Node, path: Sequence[_Node]) -> Operator:
    """Return what rows are judged by.

    Args:
        column: the event time, or a window of it, as it reaches their operator.
        path: the nodes from there down to the metric.
    """
    window = None
    watermarks = [index for index, node in enumerate(path) if node.nodeName() == "EventTimeWatermark"]
    own = path[: watermarks[-1] + 1] if watermarks else path
    for node, child in pairwise(own):
        made = _makes(node, child, column)
        if window is None and made and (marked := _window(column.metadata(), made)) is not None:
            window = marked
            column = made[0].references().toSeq().apply(0)
        elif len(made) == 1 and is_column(made[0]):
            column = made[0]
        else:
            raise _unrecognised(f"column {column.name()} is made in a way that is not known")
    if not watermarks or own[-1].eventTime().exprId().id() != column.exprId().id():
        raise _unrecognised(f"column {column.name()} is not the event time of the watermark")
    return window or row_level()


def _makes(node: _Node, child: _Node, column: _Node) -> list[_Node]:
    """Return the expressions of the columns below ``node`` that its column is made by, two at most."""
    kind = node.nodeName()
    if kind == "Project":
        made = node.projectList().apply(_index(node, column))
        return [made.child() if made.nodeName() == "Alias" else made]
    if kind == "Expand":
        index = _index(node, column)
        made = [projection.apply(index) for projection in items(node.projections())[:2]]
        # A column that is passed on is the same in each projection.
        return made[:1] if is_column(made[0]) and made[0].exprId().id() == column.exprId().id() else made
    if kind == "Union":
        return [child.output().apply(_index(node, column))]
    _index(child, column)
    return [column]


def _index(node: _Node, column: _Node) -> int:
    """Return the position of a column in a node's output."""
    index = _attributes(node.output()).indexOf(column.exprId())
    if index < 0:
        raise _unrecognised(f"column {column.name()} cannot be followed through {node.nodeName()}")
    return int(index)


def _window(metadata: _Node, expressions: Sequence[_Node]) -> Operator | None:
    """Return the operator of a window column, None for another column.

    A sliding window has an expression for each of its windows.
    """
    is_session = metadata.contains(SESSION_WINDOW)
    if not (is_session or metadata.contains(TIME_WINDOW)):
        return None
    if any(expression.nodeName() != "CreateNamedStruct" for expression in expressions):
        return None
    if is_session:
        _check_gap(expressions[0])
    if any(expression.references().size() != 1 for expression in expressions):
        raise _unrecognised("its window is made of several columns")
    start_us, end_us = _edges_us(expressions[0])
    if is_session:
        return SessionWindow(end_us - start_us)
    slide_us = start_us - _edges_us(expressions[1])[0] if len(expressions) > 1 else end_us - start_us
    return TimeWindow(end_us - start_us, slide_us, start_us % slide_us)


def _check_gap(session: _Node) -> None:
    """Raise unless the gap of a session is the same for all rows."""
    gaps = list(_intervals(session))
    if len(gaps) != 1:
        raise _unrecognised("its session window is made in a way that is not known")
    if not gaps[0].foldable() or get_field(gaps[0].eval(None), "months"):
        why = "the gap of its session window depends on the row, so a row's key does not follow from its event time"
        raise _NotFoundError(NoOperator("Unsupported", why))


def _intervals(expression: _Node) -> Iterator[_Node]:
    """Return the outermost intervals in an expression."""
    if expression.dataType().typeName() == "interval":
        yield expression
        return
    for child in items(expression.children()):
        yield from _intervals(child)


def _edges_us(expression: _Node) -> tuple[int, int]:
    """Return start and end of the sample's window."""
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    values = SparkContext._gateway.new_array(jvm.java.lang.Object, 1)  # type: ignore[union-attr]  # noqa: SLF001
    values[0] = _SAMPLE_US
    columns = _attributes(expression.references().toSeq())
    bound = expressions.BindReferences.bindReference(expression, columns, False)
    window = bound.eval(expressions.GenericInternalRow(values))
    return int(window.getLong(0)), int(window.getLong(1))


def _attributes(columns: _Node) -> _Node:
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - as above
    return getattr(jvm.org.apache.spark.sql.catalyst.expressions, "package$AttributeSeq")(columns)


def _unrecognised(why: str) -> _NotFoundError:
    return _NotFoundError(NoOperator("Unrecognised", why))
