"""Whether a tap counts what the watermark is made of, and the rows that reach the stateful operator.

Both are read from the optimised plan. Spark pushes a filter that stands behind ``adaptive_watermark`` below the
watermark's node if it is deterministic and names no event time (Spark 3.5 to 4.3, ``PushPredicateThroughNonJoin``), so
the rows that it drops move no watermark; but it pushes none below a tap. ``PlaceCounters.java`` moves row counters to
where they belong: here is seen where they are. What Spark observes stays where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tidemark.spark_jobs.spark.event_time import SESSION_WINDOW, TIME_WINDOW, is_event_time
from tidemark.spark_jobs.spark.jvm import items

BEHIND = ":behind"
"""End of the name of a counter of the rows that reach the operator, where they are not those that the tap has."""

_OURS = ("tidemark:", "__tidemark_")
"""Beginnings of the names of our own columns."""

_PASSING = frozenset(
    {
        "Project",
        "EventTimeWatermark",
        "UpdateEventTimeWatermarkColumn",
        "CollectMetrics",
        "Union",
        "Expand",
        "BatchEvalPython",
        "ArrowEvalPython",
        "Repartition",
        "RepartitionByExpression",
        "RebalancePartitions",
        "SubqueryAlias",
        "View",
        "ResolvedHint",
    }
)
"""Nodes that pass each row on once, or in each of its windows."""

WORDS = {
    "Filter": "a filter",
    "Generate": "a generator such as explode",
    **dict.fromkeys(
        ("Join", "BroadcastHashJoin", "BroadcastNestedLoopJoin", "ShuffledHashJoin", "SortMergeJoin"),
        "a join with a table",
    ),
    "MapInPandas": "mapInPandas",
    "MapInArrow": "mapInArrow",
    "PythonMapInArrow": "mapInArrow",
    "Sample": "a sample",
    "GlobalLimit": "a limit",
}
"""What nodes of logical and physical plans are to a user."""

_Node = Any
"""A node of a plan, or an expression, in the JVM."""


def uncounted_because(what: str) -> str:
    """Return why no row is judged where ``what`` changes rows unseen, in words."""
    return (
        f"{what} behind the watermark drops or multiplies rows before they reach the query's operator, "
        "and they cannot be counted there; put it before the watermark"
    )


def changed_unseen(nodes: Sequence[_Node], counter_behind: str) -> str | None:
    """Return what changes rows where neither a tap nor a second counter sees it, in words; None where nothing does.

    Args:
        nodes: the nodes of the optimised plan between the operator and the tap, from above.
        counter_behind: name of the second counter.
    """
    kinds = [node.nodeName() for node in nodes]
    watermark = max((i for i, kind in enumerate(kinds) if kind == "EventTimeWatermark"), default=len(nodes))
    seen = [_is_counter(node, kind, counter_behind) for node, kind in zip(nodes, kinds, strict=True)]
    counter = seen.index(True) if True in seen else watermark
    # What is between that counter and the watermark it has seen.
    return what_changes_rows([*nodes[:counter], *nodes[watermark:]])


def what_changes_rows(nodes: Iterable[_Node]) -> str | None:
    """Return the first of some nodes that may drop or multiply rows, in words; None where each row is passed on."""
    for node in nodes:
        kind = node.nodeName()
        if kind == "Filter" and not _drops_rows(node.condition()):
            continue
        if kind not in _PASSING:
            return WORDS.get(kind, str(kind))
    return None


def _is_counter(node: _Node, kind: str, name: str) -> bool:
    columns = node.projectList() if kind == "Project" else None
    return columns is not None and columns.nonEmpty() and columns.last().name() == name


def _drops_rows(condition: _Node) -> bool:
    """Return whether a filter drops rows, beside ours, and those that are in no window or have no event time."""
    if condition.nodeName() == "And":
        return _drops_rows(condition.left()) or _drops_rows(condition.right())
    kind, columns = condition.nodeName(), items(condition.references().toSeq())
    if any(column.name().startswith(_OURS) for column in columns):
        return False
    if not columns or not all(is_event_time(column) for column in columns):
        return True
    windows = any(
        column.metadata().contains(mark) for column in columns for mark in (TIME_WINDOW, SESSION_WINDOW)
    )
    # Spark makes more sliding windows of a time than it can be in, and drops those that it is not in.
    in_window = windows and len(columns) > 1 and kind in {"GreaterThanOrEqual", "LessThan"}
    return not (kind == "IsNotNull" or in_window)
