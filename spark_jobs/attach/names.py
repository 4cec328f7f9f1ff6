"""Names of streams that nobody named: ``[query, or end of its checkpoint].[topic, table or folder].[column]``.

A restart has to find the same name again, and a checkpoint is what a query keeps over restarts.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from tidemark.spark_jobs.core.settings import fitting
from tidemark.spark_jobs.spark.jvm import items

_READS = ("subscribe", "subscribepattern", "assign", "path")
"""Options that say what a source reads: Kafka's, then files'."""

_PATTERN = "*?{}[]"
_SAYS_NOTHING = re.compile(r"_?(checkpoints?|check_?points?|cp|chk|state|\d+)", re.IGNORECASE)
"""Folders at the end of a checkpoint that are called the same in every job, and numbers."""

_LONGEST_PART = 60


def place_of(query: str | None, checkpoint: str | None) -> str:
    """Return a query's own name, or the end of its checkpoint; empty for one that has neither.

    Args:
        query: name of the query.
        checkpoint: its folder; None for one that Spark deletes as the query ends.
    """
    return _part(query or (_end(checkpoint) if checkpoint else ""))


def stream_name(place: str, sources: Iterable[str], column: str, taken: Collection[str]) -> str:
    """Return the name of a stream.

    Args:
        place: what ``place_of`` returns.
        sources: what the sources below the watermark read.
        column: the event-time column.
        taken: names of the query's streams before this one, in the order of its plan.
    """
    read = "+".join(dict.fromkeys(_part(each) for each in sources)) or "source"
    name = fitting(".".join(filter(None, (place, _part(read), _part(column)))))
    numbered = [name, *(f"{name}-{number}" for number in range(2, len(taken) + 2))]
    return next(each for each in numbered if each not in taken)


def sources_of(plan: Any) -> list[str]:
    """Return what the sources of a streaming plan read."""
    return [found for leaf in items(plan.collectLeaves()) if (found := _source(leaf)) is not None]


def _source(leaf: Any) -> str | None:
    """Return the topic, table or folder that a leaf reads, or the kind of its source; None for one of batches."""
    kind = leaf.nodeName()
    if kind == "StreamingRelationV2":
        if leaf.identifier().isDefined():
            return str(leaf.identifier().get().name())
        given = leaf.extraOptions().asCaseSensitiveMap()
        # A table has a name of its own for some sources alone; Kafka's options are the user's.
        return _read({str(key).lower(): str(given[key]) for key in given}) or str(leaf.sourceName())
    if kind == "StreamingRelation":
        source = leaf.dataSource()
        if source.catalogTable().isDefined():
            return str(source.catalogTable().get().identifier().table())
        given = source.options()
        found = {key: str(given.apply(key)) for key in _READS if given.contains(key)}
        return _read(found) or str(leaf.sourceName())
    return None


def _read(options: dict[str, str]) -> str | None:
    return next((_end(options[key]) for key in _READS if key in options), None)


def _end(path: str) -> str:
    """Return the end of a path that says something, without a pattern."""
    parts = [part for part in re.split(r"[/\\]", path) if part.strip(_PATTERN)]
    telling = [part for part in parts if not _SAYS_NOTHING.fullmatch(part) and not part.endswith(":")]
    return (telling or parts or [path])[-1]


def _part(name: str) -> str:
    """Return a part of a name with its end, if it is long: ends differ more often."""
    return fitting(name)[-_LONGEST_PART:].strip() if name else ""
