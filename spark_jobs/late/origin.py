"""Which source a stream reads, and how: format, options and schema, from the leaf of its plan.

Spark (4.2) keeps them in ``StreamingRelation`` (files) and ``StreamingRelationV2`` (Kafka); there is no public way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from tidemark.spark_jobs.scala import items

KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class Origin:
    """A source that can be read again by ranges.

    Args:
        format: ``kafka``, or a format of files such as ``json``.
        options: the options of the stream's reader. They may hold secrets, so they are not shown.
        schema: the columns of files; None for Kafka.
    """

    format: str
    options: Mapping[str, str]
    schema: StructType | None = None

    def __repr__(self) -> str:
        return f"Origin({self.format!r})"

    def option(self, name: str) -> str | None:
        """Return an option; their names know no case."""
        return next((value for key, value in self.options.items() if key.lower() == name.lower()), None)


def origin_of(df: DataFrame) -> Origin:
    """Return what ``df`` reads.

    Raises:
        ValueError: when that is not one source of Kafka or files.
    """
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001 - see the module's docstring
    streaming = [leaf for leaf in items(leaves) if leaf.isStreaming()]
    if len(streaming) != 1:
        raise ValueError(
            f"late=side(...) reads one source again, and there are {len(streaming)} below adaptive_watermark; "
            "put it on each input, before they are united or joined"
        )
    leaf = streaming[0]
    name = str(leaf.sourceName())
    if leaf.nodeName() == "StreamingRelation" and name.startswith("FileSource["):
        source = leaf.dataSource()
        schema = StructType.fromJson(json.loads(leaf.schema().json()))
        options = {each._1(): each._2() for each in items(source.options().toSeq())}  # noqa: SLF001 - a Scala pair
        return Origin(str(source.className()), options, schema)
    if name.lower().startswith((KAFKA, "org.apache.spark.sql.kafka")):
        return Origin(KAFKA, dict(leaf.extraOptions().asCaseSensitiveMap()))
    raise ValueError(
        f"late=side(...) can read Kafka and files again, but the stream reads {name!r}; leave late= out, or name what "
        "holds the same rows: side(..., format=, options=, schema=)"
    )
