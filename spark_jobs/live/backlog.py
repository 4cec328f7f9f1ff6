"""The rows behind, by the sources in Spark's progress. Pure."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import StreamingQueryProgress

_MAX_DIGITS = 10  # of a 32-bit number
Offsets = str | Mapping[str, object] | None
"""Offsets by topic and partition, as Spark gives them: JSON text, or that text parsed; None when there are none."""


def backlog_of(progress: StreamingQueryProgress) -> Mapping[str, int] | None:
    """Return the rows behind by partition; None when a source does not report how far it could have been read.

    Kafka reports it by partition. Of another source that reports it, only whether it was read to its end is known: then
    nothing is behind, and else it is not known what is. Inputs are added up by partition, so a partition is behind when
    that of any input is.
    """
    behind: Counter[str] = Counter()
    for source in progress.sources:
        by_partition = rows_behind(source.startOffset, source.endOffset, source.latestOffset)
        if by_partition is not None:
            behind.update(by_partition)
        elif (latest := _parsed(source.latestOffset)) is None or latest != _parsed(source.endOffset):
            return None
    return behind


def _parsed(offset: str | None) -> Any:
    try:
        return None if offset is None else json.loads(offset)
    except ValueError:
        return offset


def rows_behind(start: Offsets, end: Offsets, latest: Offsets) -> dict[str, int] | None:
    """Return the rows that are in each Kafka partition after the last one that was read.

    The keys are the partitions as the column ``partition`` of Spark's source names them, in numerical order; partitions
    of one number in several topics are added up. A partition that the query has not met yet counts from offset 0, and
    one that is gone does not count. Offsets are counted: where a topic is compacted or written in transactions, or
    where old messages are deleted, there are fewer rows than that.

    Args:
        start: ``startOffset`` of a source in the progress; what was read when ``end`` says nothing.
        end: ``endOffset``.
        latest: ``latestOffset``.

    Returns:
        None when this is not known: the source is not Kafka, or its offsets are missing or in another form.
    """
    reached = _by_partition(end)
    if reached is None:
        reached = _by_partition(start)
    newest = _by_partition(latest)
    if reached is None or newest is None:
        return None
    behind: dict[int, int] = {}
    for (topic, partition), offset in newest.items():
        rows = max(offset - reached.get((topic, partition), 0), 0)
        behind[partition] = behind.get(partition, 0) + rows
    return {str(partition): rows for partition, rows in sorted(behind.items())}


def _by_partition(offsets: Offsets) -> dict[tuple[str, int], int] | None:
    """Return the offsets by topic and partition; None when they are not Kafka's."""
    if isinstance(offsets, str):
        try:
            offsets = json.loads(offsets)
        except (ValueError, RecursionError):
            return None
    if not isinstance(offsets, Mapping) or not offsets:
        return None
    by_partition: dict[tuple[str, int], int] = {}
    for topic, partitions in offsets.items():
        if not isinstance(partitions, Mapping):
            return None
        for partition, offset in partitions.items():
            if (
                not _is_partition(partition)
                or isinstance(offset, bool)
                or not isinstance(offset, int)
                or offset < 0
            ):
                return None
            by_partition[topic, int(partition)] = offset
    return by_partition


def _is_partition(name: object) -> bool:
    return isinstance(name, str) and len(name) <= _MAX_DIGITS and name.isascii() and name.isdecimal()
