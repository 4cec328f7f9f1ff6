"""The sources in Spark's progress: how far the control streams were read, and the backlog of the others."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidemark.spark_jobs.kafka.backlog import rows_behind
from tidemark.spark_jobs.live.offset import Offset


def control_offsets_of(progress: StreamingQueryProgress) -> list[Offset]:
    """Return where the batch read its control streams to."""
    ends = (_parsed(source.endOffset) for source in progress.sources)
    return [end for end in ends if _is_control(end)]


def backlog_of(progress: StreamingQueryProgress) -> Mapping[str, int] | None:
    """Return the rows behind by partition; None when a source does not report how far it could have been read.

    Kafka reports it by partition. Of another source that reports it, only whether it was read to its end is known: then
    nothing is behind, and else it is not known what is. Inputs are added up by partition, so a partition is behind when
    that of any input is.
    """
    behind: Counter[str] = Counter()
    for source in progress.sources:
        end, latest = _parsed(source.endOffset), _parsed(source.latestOffset)
        if _is_control(end):
            continue
        by_partition = rows_behind(source.startOffset, source.endOffset, source.latestOffset)
        if by_partition is not None:
            behind.update(by_partition)
        elif latest is None or latest != end:
            return None
    return behind


def _is_control(offset: object) -> bool:
    return isinstance(offset, dict) and "watermark_ms" in offset


def _parsed(offset: str | None) -> Any:
    try:
        return None if offset is None else json.loads(offset)
    except ValueError:
        return offset
