"""Batches read again, by the source's ranges and the user's own ``parse``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from tidemark.spark_jobs.late.due import DueBatch
from tidemark.spark_jobs.late.file_ranges import FileRanges
from tidemark.spark_jobs.late.hadoop_files import HadoopFiles
from tidemark.spark_jobs.late.kafka_ranges import KafkaRanges, keeps, with_batches
from tidemark.spark_jobs.late.late_rows import LateRule, with_batch
from tidemark.spark_jobs.late.offset_log import Offset
from tidemark.spark_jobs.late.origin import KAFKA, Origin
from tidemark.spark_jobs.late.replay import BatchReplay

Parse = Callable[[DataFrame], DataFrame]
"""From the source's columns to rows; the same for the stream and for what is read again."""

DEFAULT_BATCHES = 20
"""Batches of one read."""

_PLACE = ("topic", "partition", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class LateStream:
    """How the rows of a stream are read again and judged."""

    parse: Parse
    origin: Origin
    rule: LateRule
    """How future-dated rows are treated is taken from the folder with the late rows."""
    source: str | None = None
    """The source, as the offset log names it; the only one if None."""
    batches_per_read: int = DEFAULT_BATCHES
    columns: tuple[str, ...] | None = None
    """The stream's columns, which ``parse`` must make; None when they are not known."""
    dimension: str | None = None
    """The column by whose values rows and losses are counted; None to count nothing."""


class Reader(Protocol):
    """Reads the batches of one source again."""

    def read(self, batch: DueBatch) -> DataFrame:
        """Return what the stream had from its source in a batch."""
        ...

    def read_many(self, batches: Sequence[DueBatch]) -> tuple[DataFrame, DataFrame] | None:
        """Return what it had in several, and a table of them by Kafka's columns; None where rows do not show it."""
        ...

    def expiring(self, start: Offset, end: Offset) -> str | None:
        """Return what the source may soon delete between two offsets; None while nothing is near."""
        ...

    def lost(self, batches: Sequence[DueBatch]) -> dict[int, str]:
        """Return, of batches that could not be read, those that never can be, and why."""
        ...


@contextmanager
def reader_of(
    spark: SparkSession, origin: Origin, checkpoint: HadoopFiles, source: str, folder: HadoopFiles
) -> Iterator[Reader]:
    """Open the reader for a source; what it has read is there until it is closed.

    Args:
        spark: the session to read with.
        origin: format, options and schema.
        checkpoint: the checkpoint's folder.
        source: the source, as the offset log names it.
        folder: the folder with the late rows, which may hold what is read again for a while.
    """
    if origin.has_files:
        yield FileRanges(spark, origin, checkpoint, source)
    elif origin.format == KAFKA:
        yield KafkaRanges(spark, origin, checkpoint, source)
    else:
        with closing(BatchReplay(spark, origin, checkpoint, source, folder)) as replay:
            yield replay


def read_again(reader: Reader, parse: Parse, batches: Sequence[DueBatch]) -> DataFrame:
    """Return the rows of batches that have some, each with the number of its batch.

    Messages of Kafka are read at once if ``parse`` keeps ``topic``, ``partition`` and ``offset``, which show the
    batch of each. Else each batch is read by itself: a column more, for its number, might change what ``parse`` makes
    of a row.
    """
    if len(batches) > 1 and (many := reader.read_many(batches)) is not None:
        raw, table = many
        rows = parse(raw)
        if keeps(raw, rows, _PLACE):
            return with_batches(rows, table)
    parts = [with_batch(parse(reader.read(batch)), batch) for batch in batches]
    return reduce(DataFrame.union, parts)
