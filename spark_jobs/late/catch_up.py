"""One step of catching up: the batches that are due, read again, their late rows written, and marked done."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from itertools import takewhile

from pyspark.sql import DataFrame, SparkSession

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.evidence.late_counts import BY_PARTITION, hour_of, late_counts
from tidemark.spark_jobs.late.count_values import count_values
from tidemark.spark_jobs.late.late_rows import (
    BATCH,
    DueBatch,
    DueBatches,
    FutureRowTreatment,
    LateRule,
    Unknown,
    due_batches,
    gaps,
    late_rows,
    unknown_and_unwanted,
)
from tidemark.spark_jobs.late.reread import LateStream, Reader, read_again, reader_of
from tidemark.spark_jobs.late.side_folder import ReportedRun, SideFolder, is_off, last_done
from tidemark.spark_jobs.live.known_partitions import FOLDER as PARTITIONS_OF_LIVE
from tidemark.spark_jobs.spark.checkpoint import Checkpoint, HadoopFiles

_writing: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""By folder. After a restart in one driver the run that has ended may still be catching up when the next one begins."""


@dataclass(frozen=True, slots=True)
class Step:
    """What one step did."""

    first: int
    last: int
    """The batches that were dealt with."""
    rows: int
    """Late rows that were written, of a sliding window once for each window they were too late for."""
    unknown: tuple[Unknown, ...]
    """Batches whose late rows can no longer be known."""
    not_kept: tuple[Unknown, ...]
    """Batches whose late rows were not to be kept, and can no longer be read."""
    waiting: int
    """Batches that are committed and not dealt with yet."""


class CatchUp:
    """Catches up with one stream of one query."""

    def __init__(self, spark: SparkSession, checkpoint: str, folder: str, stream: LateStream) -> None:
        self._spark = spark
        self._checkpoint = Checkpoint(HadoopFiles(spark, checkpoint))
        self._files = HadoopFiles(spark, folder)
        self._stream = stream

    def begins(self, future: FutureRowTreatment | None, run: ReportedRun | None = None) -> None:
        """Record a run that begins now, from the batch on that it runs first.

        Args:
            future: how it treats future-dated rows; None where it takes them as they are.
            run: what reports say of it; None where nothing is reported again.
        """
        folder = self._folder(self._stream.source)
        first = self._checkpoint.committed() + 1
        if future is not None or folder.knows_future_rows():
            folder.record_future_rows(first, future)
        if run is not None:
            folder.record_run(first, run, kept_from=min(self._checkpoint.offset_log(), default=0))

    def always(self, future: FutureRowTreatment) -> None:
        """Record how every run so far treated future-dated rows."""
        folder = self._folder(self._stream.source)
        folder.record_future_rows(0, future)

    def treats_future_rows_unknown(self) -> bool:
        """Return whether the query ran in Live, and the folder does not say how future-dated rows were treated."""
        folder = self._folder(self._stream.source)
        return self._checkpoint.files.exists(PARTITIONS_OF_LIVE) and not folder.knows_future_rows()

    def stored_before(self) -> bool | None:
        """Return whether late rows were kept by whoever dealt with this folder last; None when nobody did."""
        if is_off(self._files):
            return False
        return True if last_done(self._files) >= 0 else None

    def switch(self, *, kept: bool) -> int | None:
        """Record that late rows are kept from now on, or not; return the first batch of which they are not.

        Kept again, batches in between are read as far as they still can be.

        Raises:
            SideFolderError: when the folder is another stream's.
        """
        source = self._checkpoint.source(self._checkpoint.offset_log(), self._stream.source)
        folder = self._folder(source)
        with _writing[self._files.uri]:
            if source is not None:
                folder.done()
            if not kept:
                return folder.switch_off()
            folder.switch_on(self._checkpoint.committed())
            return None

    def session_has_ended(self) -> bool:
        """Return whether nothing can be read any more."""
        return self._spark.sparkContext._jsc is None  # noqa: SLF001 - PySpark has no other sign of it

    def step(self) -> Step | None:
        """Deal with the next batches; return what was done, None when nothing is due.

        A step that fails, or is killed, changes nothing: the next one does the same again.

        Raises:
            CheckpointError: when the checkpoint or the source in it cannot be found.
            LogFormatError: when the offset log cannot be read.
            SideFolderError: when the folder is another stream's.
            ValueError: when ``parse`` does not make the stream's columns.
        """
        with _writing[self._files.uri]:
            return self._step()

    def expiring(self) -> str | None:
        """Return what the source may soon delete of the batches that are due; None while nothing is near.

        Raises as ``step`` does.
        """
        log = self._checkpoint.offset_log()
        source = self._checkpoint.source(log, self._stream.source)
        if source is None:
            return None
        done = self._folder(source).done()
        start, end = log.get(done), log.get(self._checkpoint.committed())
        if start is None or end is None:
            return None
        with self._reader_of(source) as reader:
            return reader.expiring(start.offsets.get(source), end.offsets.get(source))

    def unsent_counts(self) -> Iterator[tuple[int, str]]:
        """Return what was counted by dimension and is not forgotten yet: the first batch, and the JSON to send."""
        if self._stream.dimension is None:
            return
        log = self._checkpoint.offset_log()
        source = self._checkpoint.source(log, self._stream.source)
        if source is not None:
            yield from self._folder(source).unsent_counts()

    def forget_counts(self, first: int) -> None:
        """Delete what was counted in the batches from ``first`` on."""
        self._folder(self._stream.source).forget_counts(first)

    def _folder(self, source: str | None) -> SideFolder:
        return SideFolder(self._files, self._checkpoint.query_id(), source or "")

    def _step(self) -> Step | None:
        log = self._checkpoint.offset_log()
        source = self._checkpoint.source(log, self._stream.source)
        if source is None:
            return None
        folder = self._folder(source)
        done, committed = folder.done(), self._checkpoint.committed()
        span = due_batches(log, committed, done, source, self._stream.batches_per_read)
        span, rule = self._of_one_rule(span, folder)
        last = span.last
        if last is None:
            return None
        with self._reader_of(source) as reader:
            rows, lost = self._write(
                folder, reader, [batch for batch in span.batches if batch.has_rows], rule
            )
        unknown, not_kept = unknown_and_unwanted((*span.unknown, *lost), folder.off())
        folder.record_gaps(unknown, not_kept)
        folder.mark(last)
        return Step(done + 1, last, rows, tuple(unknown), tuple(not_kept), committed - last)

    def _reader_of(self, source: str) -> AbstractContextManager[Reader]:
        return reader_of(self._spark, self._stream.origin, self._checkpoint.files, source, self._files)

    def _of_one_rule(self, span: DueBatches, folder: SideFolder) -> tuple[DueBatches, LateRule]:
        """Return the batches up to the first for which future-dated rows are treated in another way, and the rule.

        What is counted by dimension is also of one hour.
        """
        if not span.batches:
            return span, self._stream.rule
        treated = folder.future_rows()
        first = span.batches[0]
        future, counts = treated(first.batch_id), self._stream.dimension is not None

        def is_alike(batch: DueBatch) -> bool:
            return treated(batch.batch_id) == future and (not counts or _hour_us(batch) == _hour_us(first))

        same = tuple(takewhile(is_alike, span.batches))
        if len(same) < len(span.batches):
            next_one = span.batches[len(same)].batch_id
            span = DueBatches(same, tuple(gap for gap in span.unknown if gap.last < next_one))
        return span, replace(self._stream.rule, future=future)

    def _write(
        self, folder: SideFolder, reader: Reader, batches: list[DueBatch], rule: LateRule
    ) -> tuple[int, list[Unknown]]:
        """Write the late rows of ``batches``; return how many, and the batches that cannot be read any more."""
        lost: dict[int, str] = {}
        while batches:
            try:
                return self._write_once(folder, reader, batches, rule), _unknown(lost)
            except Exception:
                # Asked only now: data that is gone is rare, and asking costs as much as a small read.
                lost_now = reader.lost(batches)
                if not lost_now:
                    raise
                lost |= lost_now
                batches = [batch for batch in batches if batch.batch_id not in lost_now]
        folder.clear(folder.done())
        return 0, _unknown(lost)

    def _write_once(self, folder: SideFolder, reader: Reader, batches: list[DueBatch], rule: LateRule) -> int:
        rows = read_again(reader, self._stream.parse, batches)
        if self._stream.columns is not None:
            made = tuple(name for name in rows.columns if name != BATCH)
            if made != self._stream.columns:
                raise ValueError(
                    f"parse makes the columns {made}, and the stream has {self._stream.columns}: it must be "
                    "raw.transform(parse).transform(adaptive_watermark(...)), with nothing in between"
                )
        written = folder.write(batches[0].batch_id, late_rows(rows, batches, rule))
        self._count(folder, rows, batches, rule)
        return written

    def _count(self, folder: SideFolder, rows: DataFrame, batches: list[DueBatch], rule: LateRule) -> None:
        """Keep what came and was lost by dimension, if one is named."""
        dimension = self._stream.dimension
        if dimension is None:
            return
        dimensions = [dimension]
        if rule.partition is not None and dimension.lower() not in {BY_PARTITION, rule.partition.lower()}:
            dimensions.append(rule.partition)
        folder.write_counts(
            late_counts(
                *count_values(rows, batches, rule, dimensions),
                query_id=folder.query_id,
                source=folder.source,
                first_batch=batches[0].batch_id,
                last_batch=batches[-1].batch_id,
                hour_us=_hour_us(batches[0]),
                dimension=dimension,
            )
        )


def _hour_us(batch: DueBatch) -> int:
    return hour_of(batch.clock_ms * SPARK_TICK_US)


def _unknown(lost: dict[int, str]) -> list[Unknown]:
    return [
        gap
        for reason in dict.fromkeys(lost.values())
        for gap in gaps([batch for batch, why in lost.items() if why == reason], reason)
    ]
