"""Which source a stream reads, and how: format, options and schema, from the leaf of its plan.

Spark (4.2) keeps them in ``StreamingRelation`` (files, and sources of the older interface) and in
``StreamingRelationV2`` (Kafka, and all others); there is no public way.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from tidemark.spark_jobs.core.arguments import WrongValueError
from tidemark.spark_jobs.spark.jvm import items

KAFKA = "kafka"
_FILES = frozenset({"avro", "binaryfile", "csv", "json", "orc", "parquet", "text", "xml"})
"""Formats of Spark's file source."""
_FORGETFUL = frozenset({"memory", "memorystream", "socket", "textsocket"})
"""Sources that do not have the rows of a batch a second time."""
_WAY_OUT = (
    "; leave late= out, or name what holds the same rows under the same offsets: "
    "side(..., format=, options=, schema=)"
)


@dataclass(frozen=True, slots=True)
class Origin:
    """A source that can be read again.

    Args:
        format: as the stream's reader has it.
        options: the options of the stream's reader. They may hold secrets, so they are not shown.
        schema: the columns of files, and of other sources where the reader names them; None for the source's own.
    """

    format: str
    options: Mapping[str, str]
    schema: StructType | None = None

    def __repr__(self) -> str:
        return f"Origin({self.format!r})"

    @property
    def has_files(self) -> bool:
        """Whether it is Spark's file source."""
        return self.format.lower() in _FILES or self.format.endswith("FileFormat")

    def option(self, name: str) -> str | None:
        """Return an option; their names know no case."""
        return next((value for key, value in self.options.items() if key.lower() == name.lower()), None)


def origin_of(df: DataFrame) -> Origin:
    """Return what ``df`` reads.

    Raises:
        WrongValueError: when that is not one source, or it cannot be read again.
    """
    leaves = df._jdf.queryExecution().analyzed().collectLeaves()  # noqa: SLF001 - see the module's docstring
    streaming = [leaf for leaf in items(leaves) if leaf.isStreaming()]
    if len(streaming) != 1:
        raise WrongValueError(
            "late_folder",
            f"late rows are read again from one source, and there are {len(streaming)} below the watermark",
            "; put adaptive_watermark on each input, before they are united or joined",
        )
    leaf = streaming[0]
    name = str(leaf.sourceName())
    if leaf.nodeName() == "StreamingRelation":
        source = leaf.dataSource()
        files, named = name.startswith("FileSource["), source.userSpecifiedSchema().isDefined()
        schema = StructType.fromJson(json.loads(leaf.schema().json())) if files or named else None
        options = {pair._1(): pair._2() for pair in items(source.options().toSeq())}  # noqa: SLF001 - a Scala pair
        origin = Origin(str(source.className()), options, schema)
        return origin if files else _checked(df, origin, leaf)
    if leaf.nodeName() != "StreamingRelationV2" or leaf.identifier().isDefined():
        raise WrongValueError("late_folder", f"how the stream reads {name!r} is not known", _WAY_OUT)
    options = dict(leaf.extraOptions().asCaseSensitiveMap())
    if name.lower().startswith((KAFKA, "org.apache.spark.sql.kafka")):
        return Origin(KAFKA, options)
    return _checked(df, Origin(name, options), leaf)


def stream_of(spark: SparkSession, origin: Origin, name: str | None = None) -> DataFrame:
    """Return a stream of a source, by the name that its query's checkpoint has of it, if any."""
    reader = spark.readStream.format(origin.format).options(**origin.options)
    if origin.schema is not None:
        reader = reader.schema(origin.schema)
    return (reader if name is None else reader.name(name)).load()


def _checked(df: DataFrame, origin: Origin, leaf: Any) -> Origin:
    """Return ``origin`` if it reads what the leaf reads.

    Raises:
        WrongValueError: when it does not.
    """
    if origin.format.lower() in _FORGETFUL:
        raise WrongValueError("late_folder", f"{origin.format!r} keeps no rows to be read again", _WAY_OUT)
    try:
        columns = stream_of(df.sparkSession, origin).columns
    except Exception as error:
        why = f"{origin.format!r} cannot be read as the stream does ({error})"
        raise WrongValueError("late_folder", why, _WAY_OUT) from error
    wanted = [str(field.name()) for field in items(leaf.output())]
    if columns != wanted:
        why = f"{origin.format!r} is read again with the columns {columns}, and the stream has {wanted}"
        raise WrongValueError("late_folder", why, _WAY_OUT)
    return origin
