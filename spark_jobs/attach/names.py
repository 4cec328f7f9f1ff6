"""Names of streams that nobody named: ``[query, or end of its checkpoint].[topic, table or folder].[column]``.

Names are for people. A query that goes on from its checkpoint has the streams that it had, whatever it, its job or the
checkpoint's folder are called now: a file in the checkpoint says which. What changes with each start is in no name.
"""

from __future__ import annotations

import json
import logging
import re
import tempfile
from collections.abc import Collection, Iterable
from typing import Any

from pyspark.sql import SparkSession

from tidemark.spark_jobs.core.settings import fitting
from tidemark.spark_jobs.spark.checkpoint import HadoopFiles
from tidemark.spark_jobs.spark.jvm import Py4JError, items

FILE = "tidemark/streams.json"
"""Within the checkpoint: by what a watermark stands on, ``SOURCE.COLUMN``, the job and the name of its stream."""

_READS = ("subscribe", "subscribepattern", "assign", "path")
"""Options that say what a source reads: Kafka's, then files'."""

_PATTERN = "*?{}[]"
_SAYS_NOTHING = re.compile(r"_?(checkpoints?|check_?points?|cp|chk|state|\d+)", re.IGNORECASE)
"""Folders at the end of a checkpoint that are called the same in every job, and numbers."""

_VOLATILE = re.compile(
    r"[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}"  # a random id
    r"|\d{4}-\d\d-\d\d(?:[T_ -]?\d\d[-_:.]?\d\d(?:[-_:.]?\d\d)?)?"  # a date, with a time
    r"|\d{8,}",  # either in digits alone, or a clock
    re.IGNORECASE,
)
"""What is another one at each start."""

_TEMPORARY = re.compile(
    r"^(?:\w+:(?://[^/]*)?)?"
    rf"(?:(?:/private)?(?:/tmp|/var/tmp|/var/folders/[^/]+/[^/]+/T)|{re.escape(tempfile.gettempdir())})/[^/]+"
)
"""A folder for temporary files, with the one in it that somebody made for a while."""

_UNNAMED = re.compile(
    r"pyspark-shell|spark shell|spark connect server|connect|spark-connect|unnamed|org\.apache\.spark\..*"
    r"|sparksql::.*|thrift jdbc/odbc server|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.IGNORECASE,
)
"""Names of applications that nobody gave: Spark's shells and servers, their classes, and a random id."""

_LONGEST_PART = 60
_log = logging.getLogger("tidemark.spark")


class KeptNames:
    """The names that the streams of a query have had since its checkpoint began.

    Args:
        spark: the session of the query.
        checkpoint: its folder; None for one that Spark deletes as the query ends.
    """

    def __init__(self, spark: SparkSession, checkpoint: str | None) -> None:
        self._spark, self._checkpoint = spark, checkpoint
        self._names: dict[str, list[str]] = {}
        try:
            text = None if checkpoint is None else HadoopFiles(spark, checkpoint).read(FILE)
            kept = {} if text is None else json.loads(text)
            self._names = {str(read): [str(job), str(stream)] for read, (job, stream) in kept.items()}
        except (Py4JError, ValueError, TypeError, AttributeError) as error:
            _log.warning("the names of streams in %s cannot be read: %s", checkpoint, error)

    def of(self, read: str) -> tuple[str | None, str | None]:
        """Return job and name of the stream of a source and column; None where it has none."""
        job, stream = self._names.get(read, (None, None))
        return job, stream

    def keep(self, read: str, job: str, stream: str) -> None:
        """Keep them, if they are new. Without that they are found anew at each start."""
        if self._checkpoint is None or self._names.get(read) == [job, stream]:
            return
        self._names[read] = [job, stream]
        try:
            HadoopFiles(self._spark, self._checkpoint).write_whole(FILE, json.dumps(self._names))
        except (Py4JError, OSError) as error:
            _log.warning("the names of streams cannot be written into %s: %s", self._checkpoint, error)


def place_of(query: str | None, checkpoint: str | None) -> str:
    """Return a query's own name, or the end of its checkpoint; empty for one that has neither.

    Args:
        checkpoint: its folder; None for one that Spark deletes as the query ends.
    """
    end = query or _end(_TEMPORARY.sub("", checkpoint or ""))
    return _part(end) if query or not _SAYS_NOTHING.fullmatch(end) else ""


def job_name(application: str | None, place: str) -> str:
    """Return a job's name that a restart finds again: its application's, if somebody gave it one."""
    if application and not _UNNAMED.fullmatch(application.strip()):
        return fitting(lasting_part(application))
    return place or "unnamed"


def stream_name(place: str, sources: Iterable[str], column: str, taken: Collection[str]) -> str:
    """Return the name of a stream.

    Args:
        place: what ``place_of`` returns.
        sources: what the sources below the watermark read.
        column: the event-time column.
        taken: names of the query's streams before this one, in the order of its plan.
    """
    read = "+".join(dict.fromkeys(filter(None, map(_part, sources)))) or "source"
    name = fitting(".".join(filter(None, (place, _part(read), _part(column)))))
    numbered = [name, *(f"{name}-{number}" for number in range(2, len(taken) + 2))]
    return next(candidate for candidate in numbered if candidate not in taken)


def sources_of(plan: Any) -> list[str]:
    """Return what the sources of a streaming plan read."""
    return [source for leaf in items(plan.collectLeaves()) if (source := _source(leaf)) is not None]


def _source(leaf: Any) -> str | None:
    """Return the topic, table or folder that a leaf reads, or the kind of its source; None for one of batches."""
    kind = leaf.nodeName()
    if kind == "StreamingRelationV2":
        if leaf.identifier().isDefined():
            return str(leaf.identifier().get().name())
        options = leaf.extraOptions().asCaseSensitiveMap()
        # A table has a name of its own for some sources alone; Kafka's options are the user's.
        return _read({str(key).lower(): str(options[key]) for key in options}) or str(leaf.sourceName())
    if kind == "StreamingRelation":
        source = leaf.dataSource()
        if source.catalogTable().isDefined():
            return str(source.catalogTable().get().identifier().table())
        options = source.options()
        reads = {key: str(options.apply(key)) for key in _READS if options.contains(key)}
        return _read(reads) or str(leaf.sourceName())
    return None


def _read(options: dict[str, str]) -> str | None:
    return next((_end(options[key]) or None for key in _READS if key in options), None)


def _end(path: str) -> str:
    """Return the end of a path that says something, without a pattern."""
    parts = [part for part in re.split(r"[/\\]", path) if part.strip(_PATTERN)]
    lasting = [part for part in map(lasting_part, parts) if part and not part.endswith(":")]
    telling = [part for part in lasting if not _SAYS_NOTHING.fullmatch(part)]
    return (telling or lasting or [""])[-1]


def _part(name: str) -> str:
    """Return a part of a name with its end, if it is long: ends differ more often."""
    lasting = lasting_part(name)
    return fitting(lasting)[-_LONGEST_PART:].strip() if lasting else ""


def lasting_part(name: str) -> str:
    """Return a name without what is another one at each start."""
    return _VOLATILE.sub("", name).strip("-_.: ") if _VOLATILE.search(name) else name
