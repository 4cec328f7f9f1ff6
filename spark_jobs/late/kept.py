"""Late rows of a job that says by its conf alone in which folder they are to be kept.

What ``late=side(...)`` asks of a call for, ``parse``, is the plan between the source and the watermark: a batch that is
read again takes the source's place in it.
"""

from __future__ import annotations

from functools import partial
from typing import Any
from urllib.parse import quote

from pyspark.sql import DataFrame

from tidemark.spark_jobs.core.arguments import WrongValueError
from tidemark.spark_jobs.late.origin import origin_of
from tidemark.spark_jobs.late.reread import DEFAULT_BATCHES, Parse
from tidemark.spark_jobs.late.side import Side
from tidemark.spark_jobs.spark.jvm import DATASET, SparkContext, find, items, with_ids
from tidemark.spark_jobs.spark.running_query import RunningQuery

_Node = Any
"""A node of a plan in the JVM."""

_ROW_BY_ROW = frozenset(
    {
        *("Project", "Filter", "Generate", "Join", "SubqueryAlias", "View", "ResolvedHint"),
        *("TypedFilter", "MapElements", "DeserializeToObject", "SerializeFromObject"),
    }
)
"""Nodes that make the same of a row whatever else is in its batch, where a join's other side is a table."""


def kept_in(folder: str, stream: str, df: DataFrame) -> Side:
    """Return what keeps the late rows of a stream.

    Args:
        folder: for all streams; each has one of its name in it.
        stream: the stream's name.
        df: what stands below its watermark.

    Raises:
        WrongValueError: when a batch that is read again would not have the same rows, or cannot be read again.
    """
    below = df._jdf.queryExecution().analyzed()  # noqa: SLF001 - the one way to the plan
    origin = origin_of(df)
    (leaf,) = _sources(below)
    if changing := {node.nodeName() for node in _streaming(below)} - _ROW_BY_ROW - {leaf.nodeName()}:
        why = f"{', '.join(sorted(changing))} below the watermark makes other rows of a batch read again"
        raise WrongValueError("late_folder", why)
    if not below.deterministic():
        why = "what stands below the watermark makes other rows each time (it is not deterministic)"
        raise WrongValueError("late_folder", why)
    return Side(
        folder=f"{folder.rstrip('/')}/{quote(stream, safe=' ')}",
        parse=_put_in_place_of(leaf, below, df),
        source=partial(_place_of, leaf),
        origin=origin,
        batches_per_read=DEFAULT_BATCHES,
    )


def _put_in_place_of(leaf: _Node, below: _Node, df: DataFrame) -> Parse:
    spark = df.sparkSession

    def parse(raw: DataFrame) -> DataFrame:
        made = with_ids(leaf, raw._jdf.queryExecution().analyzed())  # noqa: SLF001 - as above
        plan = _replaced(below, leaf, made)
        return DataFrame(find(DATASET).ofRows(spark._jsparkSession, plan), spark)  # noqa: SLF001 - as above

    return parse


def _replaced(node: _Node, leaf: _Node, made: _Node) -> _Node:
    if node.equals(leaf):
        return made
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
    children = [_replaced(child, leaf, made) for child in items(node.children())]
    return node.withNewChildren(jvm.PythonUtils.toSeq(children))


def _streaming(node: _Node) -> list[_Node]:
    """Return the nodes of a plan through which rows of a stream go."""
    if not node.isStreaming():
        return []
    return [node, *(below for child in items(node.children()) for below in _streaming(child))]


def _sources(plan: _Node) -> list[_Node]:
    """Return the streaming sources of a plan, each once, in the order in which Spark numbers them."""
    sources: list[_Node] = []
    for leaf in items(plan.collectLeaves()):
        if leaf.isStreaming() and not any(leaf.equals(source) for source in sources):
            sources.append(leaf)
    return sources


def _place_of(leaf: _Node, query: RunningQuery) -> str | None:
    """Return which of a query's sources it is, as the offset log numbers them; None where it is the only one."""

    def place_in(_: Any, plan: _Node) -> str | None:
        places = [source.equals(leaf) for source in _sources(plan)]
        return str(places.index(True)) if len(places) > 1 and True in places else None

    return query.read("the place of a stream's source", place_in, None)
