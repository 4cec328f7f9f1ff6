"""One run of a query whose windows come out in versions: from Spark's batches to their versions, and back to Spark."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, LongType, StructType

from tidemark.spark_jobs.late.hadoop_files import HadoopFiles
from tidemark.spark_jobs.late.mark import BoundInForce, Mark
from tidemark.spark_jobs.late.revision import FINAL, VERSION, Revision, WindowColumns
from tidemark.spark_jobs.late.version_log import VersionLog
from tidemark.spark_jobs.running_query import RunningQuery

FOLDER = "tidemark_versions"
"""In the query's checkpoint, so that a copy of that is whole."""

_REMEMBERED = 1_000
"""Batches that the listener may lag behind."""


class RevisedRun:
    """One run.

    Args:
        query: the run.
        end: the column with a window's end.
        keys: the other grouping columns.
        delay_ms: the plan's delay, in milliseconds.
        bound: returns the bound in force now.
    """

    def __init__(
        self,
        query: RunningQuery,
        end: str,
        keys: tuple[str, ...],
        delay_ms: int,
        bound: Callable[[], BoundInForce],
    ) -> None:
        self.marks: dict[int, Mark] = {}
        """By batch its mark: of those that this run has run, and of the one before."""
        self._query = query
        self._columns = WindowColumns(end, keys)
        self._delay_ms = delay_ms
        self._bound = bound
        self._revision: Revision | None = None

    def step(self, df: DataFrame, batch: int) -> DataFrame | None:
        """Take what the query puts out in a batch; return its versions, None when there are none.

        Raises:
            RuntimeError: when the checkpoint cannot be read.
            ValueError: as ``Revision.step`` does.
        """
        changed = df.toArrow()  # the one job of a batch; without it Spark would not keep its state
        watermark_ms = self._query.logged_watermark_ms(batch)
        if watermark_ms is None:
            raise RuntimeError(f"the watermark of batch {batch} cannot be read from the checkpoint")
        if self._revision is None:
            self._revision = Revision(self._log(), self._columns, self._delay_ms)
        mark, versions = self._revision.step(batch, changed, watermark_ms, self._bound())
        if not self.marks and self._revision.before is not None:
            self.marks[batch - 1] = self._revision.before
        self.marks[batch] = mark
        self.marks.pop(batch - _REMEMBERED, None)
        if not versions.num_rows:
            return None
        schema = (
            StructType([*df.schema.fields]).add(VERSION, LongType(), False).add(FINAL, BooleanType(), False)
        )
        return df.sparkSession.createDataFrame(versions, schema)

    def _log(self) -> VersionLog:
        checkpoint = self._query.checkpoint()
        if checkpoint is None:
            raise RuntimeError("the place of the query's checkpoint cannot be read")
        return VersionLog(HadoopFiles(self._query.spark, f"{checkpoint}/{FOLDER}"))
