"""Batches read again: by the source's ranges, or by Spark itself where a source has none; and the user's ``parse``.

Spark runs a batch that it has planned and not committed again, between the offsets of its log (Spark 4.2,
``MicroBatchExecution``). So a query over the source alone, whose checkpoint says that everything up to batch n-1 is
committed and that batch n is planned, reads exactly the rows of batch n, and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import count
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from tidemark.spark_jobs.late.late_rows import DueBatch, LateRule, with_batch
from tidemark.spark_jobs.late.origin import KAFKA, Origin, stream_of
from tidemark.spark_jobs.late.ranges import FileRanges, KafkaRanges, keeps, with_batches
from tidemark.spark_jobs.spark.checkpoint import HadoopFiles, Offset, one_source

_REPLAYED = "_replayed"
_DRIVER, _readers = uuid4().hex, count()


class BatchReplay:
    """Reads the batches of a source by a query of its own.

    Args:
        spark: the session to read with.
        origin: format, options and schema.
        checkpoint: the checkpoint's folder.
        source: the source, as the offset log names it.
        work: where batches are written, to a folder of this reader in ``_replayed``. After a restart in one driver the
            run that has ended and the next one may read the same batch.
    """

    def __init__(
        self, spark: SparkSession, origin: Origin, checkpoint: HadoopFiles, source: str, work: HadoopFiles
    ) -> None:
        self._spark = spark
        self._origin = origin
        self._checkpoint = checkpoint
        self._source = source
        self._work = work
        self._own = f"{_REPLAYED}/{_DRIVER}-{next(_readers)}"

    def read(self, batch: DueBatch) -> DataFrame:
        """Return the rows of a batch, as the stream had them from its source.

        Raises:
            LookupError: when Spark has purged the batch from its log meanwhile.
            StreamingQueryException: when the source cannot read the batch.
        """
        for name in self._work.names(_REPLAYED):
            if not name.startswith(_DRIVER):
                self._work.delete(f"{_REPLAYED}/{name}")  # a driver that is gone left it
        folder = f"{self._own}/{batch.batch_id}"
        place = self._write_checkpoint(f"{folder}/checkpoint", batch)
        rows = self._work.path(f"{folder}/rows")
        raw = stream_of(self._session, self._origin, None if place == "0" else place)
        query = (
            raw.writeStream.foreachBatch(lambda batch, _: batch.write.mode("overwrite").parquet(rows))
            .option("checkpointLocation", self._work.path(f"{folder}/checkpoint"))
            # It runs one batch, the planned one. With availableNow newer ones would follow.
            .trigger(once=True)
            .start()
        )
        query.awaitTermination()
        return self._spark.read.schema(raw.schema).parquet(rows)

    def read_many(self, batches: Sequence[DueBatch]) -> None:
        """Return None: a row does not say which batch it is of."""

    def expiring(self, start: Offset, end: Offset) -> None:
        """Return None: how long the source keeps its rows is not known."""

    def lost(self, batches: Sequence[DueBatch]) -> dict[int, str]:
        """Return, of batches that could not be read, those that Spark has purged.

        Whether the source will have the rows of the others again is not known, so they are tried again until then.
        """
        return {
            batch.batch_id: "Spark has purged its entry of the offset log"
            for batch in batches
            if self._entry(batch.batch_id) is None
        }

    def close(self) -> None:
        """Delete what was written of the batches."""
        self._work.delete(self._own)

    @cached_property
    def _session(self) -> SparkSession:
        """A session whose queries are not among those that the user's program waits for or listens to."""
        return SparkSession(self._spark.sparkContext, self._spark._jsparkSession.cloneSession())  # noqa: SLF001

    def _write_checkpoint(self, folder: str, batch: DueBatch) -> str:
        """Write a checkpoint in which ``batch`` is planned; return the source's place or name in it."""
        before = None if batch.start is None else self._entry(batch.batch_id - 1)
        entry = self._entry(batch.batch_id)
        if entry is None or (before is None and batch.start is not None):
            raise LookupError(f"{self._checkpoint.path(f'offsets/{batch.batch_id}')} is gone")
        number = 0
        if before is not None:
            text, place = one_source(before, self._source)
            self._work.write_whole(f"{folder}/offsets/0", text)
            self._work.write_whole(f"{folder}/commits/0", 'v1\n{"nextBatchWatermarkMs":0}')
            number = 1
        text, place = one_source(entry, self._source)
        self._work.write_whole(f"{folder}/offsets/{number}", text)
        self._work.write_whole(f"{folder}/metadata", f'{{"id":"{uuid4()}"}}')
        # What the source itself has written down, such as when it began.
        for name in self._checkpoint.names(f"sources/{self._source}"):
            data = self._checkpoint.read_bytes(f"sources/{self._source}/{name}")
            if data is not None:
                self._work.write_whole(f"{folder}/sources/{place}/{name}", data)
        return place

    def _entry(self, number: int) -> str | None:
        return self._checkpoint.read(f"offsets/{number}")


Reader = FileRanges | KafkaRanges | BatchReplay
"""Reads the batches of one source again."""

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
