"""Queries that run, read rows and never put a window out, as their analysed plan shows.

Two forms are known (measured on Spark 4.2, in append mode):

* a second ``withWatermark`` behind an aggregate. The query's watermark is the least of all, and the second one has none
  before the aggregate has put a row out, which it does not before the watermark moves;
* one aggregate twice in a query, as in a join or a union of one frame with itself. Spark runs what is below both once
  (``ReuseExchange``), and the watermark does not reach the aggregate whose input is reused: its windows stay open.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

from tidemark.models.specs.findings import Finding
from tidemark.spark_jobs.columns import is_event_time
from tidemark.spark_jobs.scala import items


def never_emits(plan: Any, conf: Any) -> list[Finding]:
    """Return what keeps a query from ever putting out a window.

    Args:
        plan: its analysed plan, in the JVM.
        conf: the SQL configuration of its session, in the JVM.

    Raises:
        Py4JError: when the plan cannot be walked.
    """
    found: list[Finding] = []
    if str(conf.getConfString("spark.sql.streaming.multipleWatermarkPolicy", "min")).lower() != "max":
        found += _second_watermarks(plan)
    if str(conf.getConfString("spark.sql.exchange.reuse", "true")).lower() == "true":
        found += _aggregates_twice(plan)
    return found


def _second_watermarks(plan: Any) -> Iterator[Finding]:
    for node in _nodes(plan):
        if node.nodeName() == "EventTimeWatermark" and any(map(_waits, _nodes(node.child()))):
            column = node.eventTime().name()
            yield Finding(
                "warning",
                "watermark_never_moves",
                f"withWatermark({column!r}) stands behind an aggregate, and each waits for the other: the aggregate "
                "puts nothing out before the watermark moves, and that does not move before a row comes here",
                "leave it out: the windows of the aggregate carry the watermark on; window_time(window) is their time",
            )


def _aggregates_twice(plan: Any) -> Iterator[Finding]:
    aggregates = [node for node in _nodes(plan) if _waits(node)]
    if any(one.sameResult(other) for one, other in combinations(aggregates, 2)):
        yield Finding(
            "warning",
            "windows_never_close",
            "one aggregate stands in the query twice; Spark runs what is below it once, and the watermark does not "
            "reach the second: its windows never close",
            "read the source once for each, or set spark.sql.exchange.reuse=false",
        )


def _nodes(plan: Any) -> Iterator[Any]:
    nodes = [plan]
    while nodes:
        node = nodes.pop()
        yield node
        nodes += items(node.children())


def _waits(node: Any) -> bool:
    """Return whether a node puts rows out only as the watermark passes them."""
    return (
        node.nodeName() == "Aggregate"
        and bool(node.isStreaming())
        and any(map(is_event_time, items(node.groupingExpressions())))
    )
