"""The trace format: recorded arrivals of a stream in one Parquet file.

A row is one arrival: ``seq`` (int64, the order of arrival, ascending), ``event_time_us`` and ``arrival_time_us``
(int64, UTC microseconds; arrivals never decrease) and ``partition`` (string). Nothing is null; other columns
are ignored. A file is read in record batches and checked while it is read. It is written under another name and then
renamed, so that there is never half a trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tidemark.controller.base.whole_file import whole_file
from tidemark.models.base.operators import Int64s
from tidemark.models.base.text import plural
from tidemark.models.evidence.misdated import LONGEST_DELAY_US, explained, misdated
from tidemark.models.live.policy import NO_BASE_US
from tidemark.models.recommend.choice import percent_of

COLUMNS = {
    "seq": pa.int64(),
    "event_time_us": pa.int64(),
    "arrival_time_us": pa.int64(),
    "partition": pa.string(),
}
"""The columns of a trace and their types."""

MAX_TIME_US = 2**60
"""Maximum distance of a time from the epoch in microseconds, some 36,000 years; beyond it the unit is wrong."""

_BATCH_ROWS = 1 << 17
"""Rows read at a time; they take some megabytes."""

_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


class TraceError(ValueError):
    """A file cannot be read or written; the message is one line for the user."""


@dataclass(frozen=True, slots=True)
class Trace:
    """Arrivals in order; arrays have shape (rows,)."""

    event_time_us: Int64s
    """Event times in UTC microseconds."""
    arrival_time_us: Int64s
    """Arrival times in UTC microseconds, non-decreasing."""
    partition: NDArray[np.int32]
    """Index of each row's partition in ``partitions``."""
    partitions: tuple[str, ...]
    """Names of the partitions, in order of appearance."""

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.event_time_us)


class OpenTrace:
    """A trace file whose columns were checked and whose rows are still to be read.

    Raises:
        TraceError: when it is not a Parquet file, or a column is missing or of another type.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _open(path)
        self._columns = _columns_of(path, self._file.schema_arrow)

    @property
    def rows(self) -> int:
        """Number of rows, from the footer of the file."""
        return int(self._file.metadata.num_rows)

    def batches(self) -> Iterator[Trace]:
        """Yield the trace in parts, each with the partitions named so far, checking the rows on the way.

        Raises:
            TraceError: when a value is null, out of range or out of order, or the file is damaged.
        """
        names: dict[str, int] = {}
        seq_before, arrival_before, done = None, None, 0
        for batch in self._record_batches():
            columns = {name: batch.column(in_file) for name, in_file in self._columns.items()}
            for name, column in columns.items():
                if column.null_count:
                    where = done + int(column.is_null().index(pa.scalar(value=True)).as_py())
                    raise TraceError(f"{self.path}: column {name!r} is null at row {where}")
            seq, event, arrival = (columns[name].to_numpy() for name in list(COLUMNS)[:3])
            seq_before = _check_order(self.path, "seq", seq, seq_before, done, may_repeat=False)
            arrival_before = _check_order(
                self.path, "arrival_time_us", arrival, arrival_before, done, may_repeat=True
            )
            for name, values in (("event_time_us", event), ("arrival_time_us", arrival)):
                _check_range(self.path, name, values)
            partition = index_of_names(columns["partition"], names)
            done += len(seq)
            yield Trace(event, arrival, partition, tuple(names))

    def _record_batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._file.iter_batches(_BATCH_ROWS, columns=list(self._columns.values()))
        except (pa.ArrowException, OSError) as error:
            raise TraceError(f"{self.path}: the file is damaged: {one_line(error)}") from None


def read_trace(path: Path) -> Trace:
    """Return the whole trace at ``path``.

    Raises:
        TraceError: when it is not a trace; the message says what is wrong with which column.
    """
    return join(OpenTrace(path).batches())


def join(parts: Iterator[Trace]) -> Trace:
    """Return the parts of one trace as one; later parts know the partitions of earlier ones."""
    read = list(parts)
    if not read:
        return Trace(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.int32), ())
    return Trace(
        np.concatenate([part.event_time_us for part in read]),
        np.concatenate([part.arrival_time_us for part in read]),
        np.concatenate([part.partition for part in read]),
        read[-1].partitions,
    )


def write_trace(path: Path, trace: Trace) -> None:
    """Write ``trace`` to ``path``, whole or not at all; an existing file is replaced.

    Raises:
        TraceError: when the arrivals are out of order or the file cannot be written.
    """
    _check_order(path, "arrival_time_us", trace.arrival_time_us, None, 0, may_repeat=True)
    for name, values in (("event_time_us", trace.event_time_us), ("arrival_time_us", trace.arrival_time_us)):
        _check_range(path, name, values)
    partition = pa.DictionaryArray.from_arrays(trace.partition, pa.array(trace.partitions, pa.string()))
    table = pa.table(
        [np.arange(len(trace)), trace.event_time_us, trace.arrival_time_us, partition.cast(pa.string())],
        schema=pa.schema([pa.field(name, kind, nullable=False) for name, kind in COLUMNS.items()]),
    )
    try:
        with whole_file(path) as unfinished:
            pq.write_table(table, unfinished, compression="zstd")
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: cannot be written: {one_line(error)}") from None


def index_of_names(column: pa.Array, names: dict[str, int]) -> NDArray[np.int32]:
    """Return the index of each value of a string ``column`` without nulls; new values are added to ``names``."""
    encoded = column.dictionary_encode()
    indexes = [names.setdefault(name, len(names)) for name in encoded.dictionary.to_pylist()]
    index: NDArray[np.int32] = np.array(indexes, np.int32)[encoded.indices.to_numpy()]
    return index


def column_named(name: str, there: Sequence[str], path: Path | str) -> str:
    """Return which of a file's columns is meant by a name: that name, or the only one that differs in case alone.

    Raises:
        TraceError: when there is none, or more than one.
    """
    matches = [column for column in there if column == name] or [
        column for column in there if column.casefold() == name.casefold()
    ]
    if not matches:
        raise TraceError(f"{path}: there is no column {name!r}; there are: {', '.join(there) or 'none'}")
    if len(matches) > 1:
        named = " and ".join(map(repr, dict.fromkeys(matches)))
        raise TraceError(f"{path}: {len(matches)} columns are named {named}: rename all but one")
    return matches[0]


def one_line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return str(error).strip().split("\n", 1)[0]


def _open(path: Path) -> pq.ParquetFile:
    if not path.exists():
        raise TraceError(f"{path}: there is no such file")
    try:
        return pq.ParquetFile(path)
    except pa.ArrowException:
        raise TraceError(f"{path}: not a Parquet file; `tidemark trace` makes one") from None
    except OSError as error:
        raise TraceError(f"{path}: it cannot be read: {error.strerror or one_line(error)}") from None


def _columns_of(path: Path, schema: pa.Schema) -> dict[str, str]:
    """Return by name of a trace's columns how the file names them."""
    there = {name.casefold() for name in schema.names}
    missing = [name for name in COLUMNS if name not in there]
    if missing:
        raise TraceError(
            f"{path}: a trace has the columns {', '.join(COLUMNS)}; {', '.join(missing)} is missing, "
            f"there are: {', '.join(schema.names)}"
        )
    columns = {name: column_named(name, schema.names, path) for name in COLUMNS}
    for name, required in COLUMNS.items():
        kind = schema.field(columns[name]).type
        inner = kind.value_type if pa.types.is_dictionary(kind) else kind
        fits = any(is_text(inner) for is_text in _TEXT) if required == pa.string() else kind == required
        if not fits:
            raise TraceError(f"{path}: column {name!r} is of type {kind}, a trace has {required} there")
    return columns


def _check_order(
    path: Path, name: str, values: Int64s, before: int | None, done: int, *, may_repeat: bool
) -> int | None:
    """Reject values that decrease, from the one ``before`` on; return the last."""
    if not len(values):
        return before
    chain = values if before is None else np.concatenate([[before], values])
    steps = np.diff(chain)
    wrong = np.flatnonzero(steps < 0 if may_repeat else steps <= 0)
    if len(wrong):
        at = int(wrong[0])
        row = done + at + (before is None)
        raise TraceError(
            f"{path}: column {name!r} must ascend, but is {chain[at + 1]} after {chain[at]} at row {row}; "
            "rows are in order of arrival"
        )
    return int(values[-1])


def _check_range(path: Path, name: str, values: Int64s) -> None:
    if len(values) and (values.min() < -MAX_TIME_US or values.max() > MAX_TIME_US):
        worst = values.min() if values.min() < -MAX_TIME_US else values.max()
        raise TraceError(f"{path}: column {name!r} holds {worst}, which is not a time in microseconds")


_NAMES_SHOWN = 10
"""How many partitions the note names."""

_REASONS_SHOWN = 3
"""How many ways in which rows are misdated it names."""


class PlausibleRows:
    """Leaves misdated rows out of a trace that is read in parts, and counts them.

    Args:
        now_us: wall time in microseconds, by which arrivals are judged.
    """

    def __init__(self, now_us: int) -> None:
        self._now_us = now_us
        self._base_us = NO_BASE_US
        self._clocks_agree: bool | None = None
        self._rows = 0
        self._last_arrival_us: int | None = None
        self._misdated: Counter[str] = Counter()
        self._explained: dict[str, None] = {}

    def of(self, part: Trace) -> Trace:
        """Return the plausible rows of the next part."""
        if not len(part):
            return part
        event_us, arrival_us = part.event_time_us, part.arrival_time_us
        ahead = event_us > arrival_us + LONGEST_DELAY_US
        if self._clocks_agree is None:
            self._clocks_agree = not bool(ahead.all())
        if not self._clocks_agree:
            ahead[:] = False
        reached_us = np.maximum.accumulate(np.where(ahead, NO_BASE_US, event_us))
        base_us = np.maximum(np.concatenate([[NO_BASE_US], reached_us[:-1]]), self._base_us)
        wrong = ahead | misdated(event_us, base_us, arrival_us)
        self._base_us = max(self._base_us, int(reached_us[-1]))
        self._rows += len(part)
        self._last_arrival_us = int(arrival_us[-1])
        if not wrong.any():
            return part
        for partition, rows in enumerate(np.bincount(part.partition[wrong]).tolist()):
            if rows:
                self._misdated[part.partitions[partition]] += rows
        for at in np.flatnonzero(wrong)[:: max(int(wrong.sum()) // _NAMES_SHOWN, 1)].tolist():
            self._explained[explained(int(event_us[at]), int(arrival_us[at]))] = None
        right = ~wrong
        return Trace(event_us[right], arrival_us[right], part.partition[right], part.partitions)

    def reject_if_none(self, path: Path) -> None:
        """Reject a trace of which nothing is left.

        Raises:
            TraceError: when all rows so far are misdated.
        """
        wrong = self._misdated.total()
        if wrong and wrong == self._rows:
            raise TraceError(
                f"{path}: all {plural(wrong, 'row')} are {self._dated} Make the trace again with the right --unit"
            )

    def notes(self, what: str = "left out") -> list[str]:
        """Return what the user should know, a line each, that of misdated rows beginning with ``what``."""
        notes = []
        wrong, names = self._misdated.total(), sorted(self._misdated)
        if wrong:
            more = len(names) - _NAMES_SHOWN
            which = f"{'partition' if len(names) == 1 else 'partitions'} {', '.join(map(repr, names[:_NAMES_SHOWN]))}"
            which += f" and {more:,} more" if more > 0 else ""
            share, are = percent_of(wrong, self._rows), "is" if wrong == 1 else "are"
            notes.append(
                f"{what}: {plural(wrong, 'row')} of {which}, {share} of all, {are} {self._dated} "
                "No bound is meant for them"
            )
        last_us = self._last_arrival_us
        if last_us is not None and misdated(np.array([last_us]), None, self._now_us).any():
            dated = explained(last_us, self._now_us)
            notes.append(f"note: arrivals are {dated} Then all delays here are too short by the same factor")
        return notes

    @property
    def _dated(self) -> str:
        text = "; ".join(list(self._explained)[:_REASONS_SHOWN])
        return text if text.endswith("?") else f"{text}."
