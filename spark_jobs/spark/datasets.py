"""What a query reads and writes, as addresses: Kafka's topics, and the folders of files and tables.

Spark (3.5 to 4.3) has the options of a source in a leaf of the analysed plan, and those of a sink in the root of the
plan that batches are made of, which is there once one has begun. Of the options only addresses leave the driver.
"""

from __future__ import annotations

import json
import re
from typing import Any

from tidemark.models.protocol.datasets import MAX_ADDRESS, MAX_INPUTS, Datasets
from tidemark.spark_jobs.spark.jvm import SparkContext, items
from tidemark.spark_jobs.spark.query_plan import tap_at

_PASSWORD = re.compile(r"(?<=://)[^/@:]*:[^/@]*@")
_SCHEME = re.compile(r"[A-Za-z][\w+.-]*:")
_Node = Any
"""A node of a plan in the JVM."""
_Place = tuple[dict[str, str], str | None]
"""The options of a source or a sink, by their names in lower case, and where its table's files are, if it has any."""


def read_datasets(session: Any, plan: _Node, batches: _Node, tap: str) -> Datasets:
    """Return what is read into a stream, and what its query writes to; what is not known is left out.

    Args:
        session: Spark's session of the query, in the JVM.
        plan: the query's analysed plan.
        batches: the plan that its batches are made of.
        tap: name of the stream's tap.

    Raises:
        Py4JError: when a node lacks what is asked of it.
    """
    inputs = [address for leaf in _leaves(plan, tap) for address in _addresses(session, _source_of(leaf))]
    output = _addresses(session, _sink_of(batches))
    return Datasets(inputs=tuple(dict.fromkeys(inputs))[:MAX_INPUTS], output=output[0] if output else None)


def _source_of(leaf: _Node) -> _Place:
    """Return what a leaf of a plan reads; nothing of one that reads no stream."""
    if leaf.nodeName() == "StreamingRelationV2":
        options = leaf.extraOptions().asCaseSensitiveMap()
        known = {str(key).lower(): str(options[key]) for key in options}
        return known, _location(leaf.table())
    if leaf.nodeName() == "StreamingRelation":
        return _place_v1(leaf.dataSource().options(), leaf.dataSource().catalogTable())
    return {}, None


def _sink_of(batches: _Node) -> _Place:
    if batches.nodeName() == "WriteToMicroBatchDataSourceV1":
        return _place_v1(batches.writeOptions(), batches.catalogTable())
    return _place_v1(batches.writeOptions(), None)[0], _location(batches.table())


def _location(table: Any) -> str | None:
    # Py4J finds no method that an interface has by default.
    return table.properties().get("location") if "properties" in dir(table) else None


def _place_v1(options: Any, table: Any) -> _Place:
    known = {str(pair._1()).lower(): str(pair._2()) for pair in items(options.toSeq())}  # noqa: SLF001 - a Scala pair
    return known, str(table.get().location()) if table is not None and table.isDefined() else None


def _leaves(plan: _Node, tap: str) -> list[_Node]:
    """Return the leaves below a tap."""
    nodes = [plan]
    while nodes:
        node = nodes.pop()
        if tap_at(node, node.nodeName()) == tap:
            return items(node.collectLeaves())
        nodes += items(node.children())
    return []


def _addresses(session: Any, place: _Place) -> list[str]:
    options, location = place
    servers, path = options.get("kafka.bootstrap.servers"), location or options.get("path")
    found = []
    if servers:
        host = re.sub(r"^\w+://", "", servers.split(",")[0].strip())
        found = [f"kafka://{host}/{topic}" for topic in _topics(options)]
    elif path:
        found = [_PASSWORD.sub("", path if _SCHEME.match(path) else _qualified(session, path))]
    return [address for address in found if len(address) <= MAX_ADDRESS]


def _qualified(session: Any, path: str) -> str:
    """Return a path with the file system that it is on."""
    jvm: Any = SparkContext._jvm  # noqa: SLF001 - the one way to the JVM
    folder = jvm.org.apache.hadoop.fs.Path(path)
    system = folder.getFileSystem(session.sessionState().newHadoopConf())
    return str(system.makeQualified(folder).toString())


def _topics(options: dict[str, str]) -> list[str]:
    """Return the topics that options name; none of a pattern."""
    if "assign" in options:
        return list(json.loads(options["assign"]))
    return [
        topic.strip() for topic in (options.get("topic") or options.get("subscribe", "")).split(",") if topic
    ]
