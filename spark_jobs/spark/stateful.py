"""Which row of the table of stateful operators a node of a plan is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tidemark.models.base.stateful import OPERATOR_RULES, LateBy, OperatorRule
from tidemark.spark_jobs.spark.event_time import SESSION_WINDOW, TIME_WINDOW, is_event_time
from tidemark.spark_jobs.spark.jvm import items

if TYPE_CHECKING:
    from tidemark.models.specs.findings import StreamJoin

_OPERATORS: Mapping[str, str] = {
    "Aggregate": "aggregate",
    "Distinct": "aggregate",  # Spark makes one of it
    "Deduplicate": "dropDuplicates",
    "DeduplicateWithinWatermark": "dropDuplicatesWithinWatermark",
    "Join": "join",
    "FlatMapGroupsWithState": "flatMapGroupsWithState",
    "FlatMapGroupsInPandasWithState": "flatMapGroupsWithState",
    "TransformWithState": "transformWithState",
    "TransformWithStateInPandas": "transformWithState",
    "TransformWithStateInPySpark": "transformWithState",
}
"""By kind of node what it is to a user. A limit drops and multiplies rows, and is no operator that judges them."""

_Node = Any
"""A node of a plan, or an expression, in the JVM."""


def is_stateful(node: _Node) -> bool:
    """Return whether a node of a plan is a stateful operator of a stream; a join is one of two streams alone."""
    if node.nodeName() not in _OPERATORS:
        return False
    # An initial state of a user's function is no stream.
    of_all = all if node.nodeName() == "Join" else any
    return of_all(side.isStreaming() for side in items(node.children()))


def keys_of(node: _Node) -> list[_Node]:
    """Return the columns that an aggregate or ``dropDuplicates`` has as keys; nothing for others."""
    kind = node.nodeName()
    if kind == "Aggregate":
        return items(node.groupingExpressions())
    if kind == "Distinct":
        return items(node.child().output())
    return items(node.keys()) if kind.startswith("Deduplicate") else []


def rule_at(node: _Node, output_mode: str | None, join: StreamJoin | None = None) -> OperatorRule:
    """Return what Spark does at a stateful operator.

    Args:
        node: a node for which ``is_stateful`` is true.
        output_mode: the query's output mode; None when it is not known, which is taken for append.
        join: what is known of a join; None takes it for one with a range.

    Raises:
        KeyError: when the table does not have it.
    """
    operator, keys, case = _OPERATORS[node.nodeName()], keys_of(node), ""
    reaching = _time_of([column for child in items(node.children()) for column in items(child.output())])
    key_time = _time_of(keys)
    if operator == "aggregate" and key_time is not None:
        case = f"{key_time} among its keys{', complete mode' if output_mode == 'complete' else ''}"
    elif operator == "aggregate":
        case = "keys without event time" if keys else "no keys"
    elif operator == "dropDuplicates" and key_time is not None:
        case = "event time among its keys"
    elif operator in {"dropDuplicates", "join"} and reaching is None:
        case = "no event time reaches it"
    elif operator == "dropDuplicates":
        case = "keys without event time"
    elif (
        operator == "join" and join is not None and None in {join.left.retention_ms, join.right.retention_ms}
    ):
        case = "no range that Spark reads"
    elif operator == "join":
        case = "windows among its keys" if reaching == "window" else "range of event times"
    elif operator == "transformWithState":
        case = str(node.timeMode().toString()).replace("NoTime", "None")
    elif operator == "flatMapGroupsWithState":
        case = str(node.timeout().toString())
    return OPERATOR_RULES[operator, case]


def _time_of(columns: Sequence[_Node]) -> LateBy | None:
    """Return what the first event time among some columns is; None without any."""
    metadata = next((column.metadata() for column in columns if is_event_time(column)), None)
    if metadata is None:
        return None
    if metadata.contains(SESSION_WINDOW):
        return "session"
    return "window" if metadata.contains(TIME_WINDOW) else "event time"
