"""One run of a query whose windows come out in versions: from Spark's batches to their versions, and back to Spark.

What changed in a batch and its mark are on disk before its versions come out. A batch that Spark runs again takes them
from there, so it puts out the same rows again, whatever the bound is by then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import BooleanType, LongType, StructType

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.spark_jobs.core.bound import ChosenBound
from tidemark.spark_jobs.late.mark import Mark, next_mark
from tidemark.spark_jobs.late.versions import (
    Key,
    LoggedWindows,
    NewVersion,
    OpenWindow,
    OpenWindows,
    VersionLog,
    VersionLogError,
)
from tidemark.spark_jobs.spark.checkpoint import HadoopFiles
from tidemark.spark_jobs.spark.running_query import RunningQuery

if TYPE_CHECKING:
    from numpy.typing import NDArray


VERSION, FINAL = "version", "is_final"
"""Columns that versions have beside those of the aggregate."""

_MAX_FILES = 50
_MIN_ROWS = 10_000

_Place = tuple[int, int]
"""Where a window's newest values are: the number of a table and a row in it."""


FOLDER = "tidemark_versions"
"""In the query's checkpoint, so that a copy of that is whole."""

_REMEMBERED = 1_000
"""Batches that the listener may lag behind."""


@dataclass(frozen=True, slots=True)
class WindowColumns:
    """Which columns say what a row is of.

    Args:
        end: the column with the window's end, a timestamp, or the field of a struct that has it: ``window.end``.
        keys: the other grouping columns.
    """

    end: str
    keys: tuple[str, ...]

    def check(self, schema: pa.Schema) -> None:
        """Raise unless a row's window and key can be read.

        Raises:
            ValueError: when a column is missing, or its type is not supported.
        """
        taken = {VERSION, FINAL}.intersection(schema.names)
        if taken:
            raise ValueError(
                f"late=revise adds the columns {VERSION} and {FINAL}, and the query has {', '.join(sorted(taken))}: "
                "name it otherwise"
            )
        missing = [name for name in self.keys if name not in schema.names]
        kind = self._end_type(schema)
        if missing or kind is None or not pa.types.is_timestamp(kind):
            raise ValueError(
                f"late=revise needs the window's end as a timestamp, {self.end}, and the keys {self.keys}, and the "
                f"query has {_shown(schema)}; name the end with end= and the other grouping columns as keys"
            )
        for name in self.keys:
            kind = schema.field(name).type
            if pa.types.is_nested(kind) or pa.types.is_floating(kind):
                raise ValueError(f"the key {name} is a {kind}, which cannot be compared; cast it to a string")

    def read(self, windows: pa.Table) -> Iterator[tuple[int, Key]]:
        """Return end in microseconds and key of each row."""
        whole = self.end in windows.column_names
        end = windows[self.end] if whole else windows.select([self._struct]).flatten()[self.end]
        ends = end.cast(pa.int64()).to_pylist()
        if not self.keys:
            return zip(ends, [()] * len(ends), strict=True)
        return zip(ends, zip(*(windows[name].to_pylist() for name in self.keys), strict=True), strict=True)

    @property
    def _struct(self) -> str:
        return self.end.rpartition(".")[0]

    def _end_type(self, schema: pa.Schema) -> pa.DataType | None:
        if self.end in schema.names:
            return schema.field(self.end).type
        kind = schema.field(self._struct).type if self._struct in schema.names else None
        field = self.end.rpartition(".")[2]
        if kind is None or not pa.types.is_struct(kind) or kind.get_field_index(field) < 0:
            return None
        return kind.field(field).type


class Revision:
    """The versions of one run of a query.

    Args:
        log: the files of its checkpoint.
        columns: which columns say what a row is of.
        delay_ms: the plan's delay, in milliseconds.
        max_files: files of batches after which the open windows are written anew: a driver that starts reads no more.
        min_rows: rows in these files from which on the open windows are written anew when they have twice as many.
    """

    def __init__(
        self,
        log: VersionLog,
        columns: WindowColumns,
        delay_ms: int,
        *,
        max_files: int = _MAX_FILES,
        min_rows: int = _MIN_ROWS,
    ) -> None:
        self._log = log
        self._columns = columns
        self._delay_ms = delay_ms
        self._max_files, self._min_rows = max_files, min_rows
        self._batch = -1
        """The last batch that is in what follows; ``_loaded`` says whether anything is."""
        self._loaded = False
        self._mark: Mark | None = None
        self._open: OpenWindows[_Place] = OpenWindows()
        self._tables: dict[int, pa.Table] = {}
        self._changed_since = [0, 0]
        """Files and rows in them since the open windows were written."""
        self.before: Mark | None = None
        """The mark of the batch before the last step; None where that was the first of a checkpoint."""

    def step(
        self, batch: int, changed: pa.Table, watermark_ms: int, bound: ChosenBound
    ) -> tuple[Mark, pa.Table]:
        """Take what changed in a batch; return its mark, and the versions to put out.

        Args:
            batch: its number. The first one of a run may have been tried before.
            changed: the rows that the aggregate put out.
            watermark_ms: Spark's watermark in force in it, in milliseconds.
            bound: the bound in force, unless it was tried before.

        Raises:
            ValueError: when the rows do not have the columns, or a window and key twice.
            VersionLogError: when the batches before it are not in the log.
        """
        self._columns.check(changed.schema)
        recorded = None
        if not self._loaded:
            self._load(batch)
            recorded = self._log.changed(batch)
        if batch != self._batch + 1:
            raise VersionLogError(f"batch {batch} came after batch {self._batch}; start the query anew")
        self.before = self._mark
        mark = next_mark(self.before, watermark_ms, bound, self._delay_ms)
        entry = LoggedWindows(mark, changed.combine_chunks()) if recorded is None else recorded
        self._check_same(entry.windows.schema, changed.schema)
        self._write_open_if_due()
        versions = self._take(batch, entry)
        if recorded is None:
            self._log.write_changed(batch, entry)
        # What comes after a batch that was tried before was made by this plan.
        self._mark = replace(entry.mark, delay_ms=self._delay_ms)
        return entry.mark, self._put_out(versions, entry.windows)

    # -- inside -------------------------------------------------------------------------------------------------

    def _load(self, batch: int) -> None:
        """Restore the state before a batch."""
        opened, changed = self._log.before(batch)
        if opened is not None:
            self._put_back(batch - len(changed) - 1, opened)
        for number, entry in enumerate(changed, batch - len(changed)):
            self._take(number, entry)
        self._batch, self._loaded = batch - 1, True

    def _take(self, batch: int, entry: LoggedWindows) -> list[NewVersion[_Place]]:
        """Let the state be that after a batch; return its versions."""
        mark, windows = entry.mark, entry.windows
        self._tables[batch] = windows
        changed = ((end, key, (batch, row)) for row, (end, key) in enumerate(self._columns.read(windows)))
        versions = self._open.step(changed, mark.early_ms * SPARK_TICK_US, mark.watermark_ms * SPARK_TICK_US)
        self._mark, self._batch = mark, batch
        self._changed_since = [self._changed_since[0] + 1, self._changed_since[1] + windows.num_rows]
        return versions

    def _put_out(self, versions: Sequence[NewVersion[_Place]], like: pa.Table) -> pa.Table:
        rows, order = self._rows([version.value for version in versions], like)
        numbers = np.array([version.version for version in versions], np.int64)[order]
        final = np.array([version.is_final for version in versions], np.bool_)[order]
        return rows.append_column(VERSION, pa.array(numbers)).append_column(FINAL, pa.array(final))

    def _put_back(self, batch: int, opened: LoggedWindows) -> None:
        windows, numbers = opened.windows.drop_columns([VERSION]), opened.windows[VERSION].to_pylist()
        self._tables, self._mark = {batch: windows}, opened.mark
        self._open = OpenWindows(opened.mark.early_ms * SPARK_TICK_US)
        for row, (number, (end, key)) in enumerate(zip(numbers, self._columns.read(windows), strict=True)):
            self._open.put_back(end, key, OpenWindow((batch, row), number))

    def _write_open_if_due(self) -> None:
        """Write the open windows where reading the files, or keeping their rows, would cost more than that."""
        files, rows = self._changed_since
        if self._mark is None or (
            files < self._max_files and rows <= max(2 * len(self._open), self._min_rows)
        ):
            return
        windows = list(self._open)
        rows_now, order = self._rows([window.value for window in windows], next(iter(self._tables.values())))
        for row, place in enumerate(order.tolist()):
            windows[place].value = self._batch, row
        numbers = pa.array([windows[place].version for place in order.tolist()], pa.int64())
        self._tables, self._changed_since = {self._batch: rows_now}, [0, 0]
        self._log.write_open(self._batch, LoggedWindows(self._mark, rows_now.append_column(VERSION, numbers)))

    def _rows(self, places: Sequence[_Place], like: pa.Table) -> tuple[pa.Table, NDArray[np.int64]]:
        """Return the rows at ``places``, table after table, and which place each one is of."""
        if not places:
            return like.slice(0, 0), np.empty(0, np.int64)
        tables, rows = np.array(places, np.int64).T
        order = np.argsort(tables, kind="stable")
        numbers, starts = np.unique(tables[order], return_index=True)
        parts = [
            self._tables[number].take(pa.array(part))
            for number, part in zip(numbers.tolist(), np.split(rows[order], starts[1:]), strict=True)
        ]
        return pa.concat_tables(parts).combine_chunks(), order

    def _check_same(self, before: pa.Schema, now: pa.Schema) -> None:
        newest = next(reversed(self._tables.values()), None)
        for schema in (before, None if newest is None else newest.schema):
            if schema is not None and [(f.name, f.type) for f in schema] != [(f.name, f.type) for f in now]:
                raise ValueError(
                    f"the query now has the columns {_shown(now)}, and its open windows have {_shown(schema)}: other "
                    "columns need a new checkpoint"
                )


def _shown(schema: pa.Schema) -> str:
    return ", ".join(f"{field.name} {field.type}" for field in schema)


class RevisedRun:
    """One run."""

    def __init__(
        self,
        query: RunningQuery,
        end: str,
        keys: tuple[str, ...],
        delay_ms: int,
        bound: Callable[[], ChosenBound],
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
