"""What a checkpoint holds: the watermarks and offsets of its last batches from its logs, and its state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pyspark.sql import SparkSession

from tidemark.spark_jobs.spark.checkpoint import (
    Checkpoint,
    CheckpointError,
    HadoopFiles,
    LogEntry,
    Offset,
    OffsetLog,
)
from tidemark.spark_jobs.spark.checkpoint_state import StateRows, StateWindow, read_state
from tidemark.spark_jobs.spark.jvm import is_since

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_PROVIDER = "spark.sql.streaming.stateStore.providerClass"


@dataclass(frozen=True, slots=True)
class BatchWatermark:
    """The watermark of one batch."""

    batch: int
    planned_ms: int
    """When Spark planned the batch, by the driver's clock, in milliseconds since the epoch."""
    watermark_ms: int
    """W(n): the watermark in force in it, in milliseconds since the epoch; 0 where there is none yet."""
    moved_ms: int | None
    """How far it moved since the batch before, in milliseconds; None where that one is not in the log any more."""


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """How far a source is read."""

    source: str
    """Its name or, without names, its place in the plan."""
    offset: Offset
    """Where the newest batch ends, as the source writes it; None while it has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What a checkpoint holds."""

    checkpoint: str
    """Its URI."""
    query_id: str
    committed_batch: int | None
    """The last batch that is committed, as of which the state is read; None before the first."""
    committed_ms: int | None
    """When it was, in milliseconds since the epoch; None when that is not known."""
    watermark_ms: int | None
    """The watermark of the next batch, in milliseconds since the epoch; None where there is none yet."""
    watermark_policy: str | None
    """How several watermarks become one, ``min`` or ``max``; None when the log does not say."""
    state_store: str | None
    """Class of Spark's state store; None when the log does not say."""
    batches: list[BatchWatermark]
    """The newest batches, the newest first."""
    sources: list[SourceOffset]
    state: list[StateRows] = field(default_factory=list)
    windows: list[StateWindow] = field(default_factory=list)
    """The open windows of each operator that end first."""
    state_unread: str | None = None
    """Why the state cannot be read, with the way out; None when it is, or there is none."""

    @property
    def is_read(self) -> bool:
        """Whether all of it could be read."""
        return self.state_unread is None and all(part.unread is None for part in self.state)


def read_contents(spark: SparkSession, folder: str, limit: int) -> Contents:
    """Return what a checkpoint holds.

    Args:
        spark: the session to read with.
        folder: path or URI of the checkpoint.
        limit: maximum number of batches, and of windows of each operator.

    Raises:
        CheckpointError: when the folder is no checkpoint.
        LogFormatError: when its logs cannot be read.
    """
    files = HadoopFiles(spark, folder)
    checkpoint = Checkpoint(files)
    query_id, committed = checkpoint.query_id(), checkpoint.committed()
    log = checkpoint.offset_log()
    entries = _newest(log, limit + 1)
    newest = next(reversed(entries.values()), None)
    if newest is None and committed >= 0:
        raise CheckpointError(
            f"{files.path('offsets')} is empty, though batch {committed} is committed: give the folder as Spark wrote "
            "it, or restore it from a backup"
        )
    conf: Mapping[str, str] = {} if newest is None else newest.conf
    watermark_ms = checkpoint.next_watermark_ms(committed) if committed >= 0 else None
    # An older Spark, or one that tracks its progress asynchronously, does not say it with the commit.
    if watermark_ms is None and newest is not None:
        watermark_ms = newest.watermark_ms
    contents = Contents(
        checkpoint=files.uri,
        query_id=query_id,
        committed_batch=None if committed < 0 else committed,
        committed_ms=checkpoint.committed_ms(committed),
        watermark_ms=watermark_ms or None,
        watermark_policy=conf.get(_POLICY),
        state_store=conf.get(_PROVIDER),
        batches=_watermarks(entries, limit),
        sources=[]
        if newest is None
        else [SourceOffset(name, offset) for name, offset in newest.offsets.items()],
    )
    return _with_state(spark, files, contents, limit)


def _newest(log: OffsetLog, count: int) -> dict[int, LogEntry]:
    """Return the newest entries in ascending order; one that is purged meanwhile is left out."""
    entries = {}
    for number in list(log)[-count:]:
        try:
            entries[number] = log[number]
        except KeyError:
            continue
    return entries


def _watermarks(entries: Mapping[int, LogEntry], limit: int) -> list[BatchWatermark]:
    moved = {
        number: entry.watermark_ms - before.watermark_ms
        for (_, before), (number, entry) in pairwise(entries.items())
        if before.watermark_ms
    }
    rows = [
        BatchWatermark(number, entry.clock_ms, entry.watermark_ms, moved.get(number))
        for number, entry in entries.items()
    ]
    return rows[::-1][:limit]


def _with_state(spark: SparkSession, files: HadoopFiles, contents: Contents, limit: int) -> Contents:
    if not files.names("state") or contents.committed_batch is None:
        return contents
    if not is_since(4, 0):
        why = f"Spark {spark.version} has no source that reads it; PySpark 4.0 and later read checkpoints of 3.5 too"
        return replace(contents, state_unread=why)
    try:
        state = read_state(spark, files, contents.committed_batch, limit)
    except ValueError as error:
        return replace(contents, state_unread=f"{error}; restore the folder from a backup")
    return replace(contents, state=state.parts, windows=state.windows)
