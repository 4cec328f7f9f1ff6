"""Making a trace from what a user has: Parquet, newline-delimited JSON or CSV files with an event-time column.

The arrival is a column or the file's modification time, the partition a column or the file's name. Times may be
timestamps (without a zone they are taken as UTC, and that is reported), dates, ISO strings, or numbers in a unit that
the caller states, because a guessed unit makes delays of fifty years.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tidemark.controller.traces.format import MAX_TIME_US, Trace, TraceError, index_of_names, one_line
from tidemark.models.operators import Int64s

__all__ = ["Columns", "Format", "Made", "Unit", "find_files", "make_trace"]

Format = Literal["parquet", "json", "csv"]
Unit = Literal["s", "ms", "us", "ns"]

_PER_SECOND: dict[str, int] = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
}
_COMPRESSED = {".gz", ".bz2", ".zst", ".lz4"}
_JSON_LINES = 50_000
"""Lines of JSON turned into arrays at a time."""
_ZONED = r"[T ]\d{2}:.*(Z|[+-]\d{2}(:?\d{2})?)$"
_ISO = r"^\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}(:?\d{2})?)?)?$"
_NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Where the parts of a trace come from."""

    event_time: str
    """Column of the event time."""
    arrival: str | None = None
    """Column of the arrival; None for the file's modification time."""
    partition: str | None = None
    """Column of the partition; None for the file's name."""
    unit: Unit | None = None
    """Unit of times that are numbers; None refuses them."""

    def names(self) -> list[str]:
        """Return the names of the columns to read, each once."""
        return list(dict.fromkeys(name for name in (self.event_time, self.arrival, self.partition) if name))


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """A trace and what was noticed on the way."""

    trace: Trace
    """The rows without a null, by arrival; rows that arrived together keep the order of the files."""
    null_rows: int
    """Rows left out, because the event time, the arrival or the partition was null."""
    without_zone: tuple[str, ...]
    """Columns whose times had no zone and were taken as UTC."""


_Part = tuple[pa.Array, pa.Array | None, pa.Array | None]
"""Event times, arrivals (None for the file's time) and partitions (None for the file's name) of some rows."""


def make_trace(
    sources: Sequence[Path],
    columns: Columns,
    file_format: Format | None = None,
    on_rows: Callable[[int], object] = lambda _: None,
) -> Made:
    """Return the trace of all rows in ``sources``, which are files or folders.

    Args:
        sources: files, or folders that are searched for files.
        columns: where event time, arrival and partition come from.
        file_format: the files' format; None to tell by their names.
        on_rows: called with the number of rows read since the call before.

    Raises:
        TraceError: when a file cannot be read, or a column is missing or holds what is no time.
    """
    names: dict[str, int] = {}
    events, arrivals, partitions = [], [], []
    without_zone: dict[str, None] = {}
    null_rows = 0
    for path, kind in find_files(sources, file_format):
        row = 0
        for event, arrival, partition in _READERS[kind](path, columns):
            times = [_times_us(event, columns.unit, f"{path}: column {columns.event_time!r}", row)]
            if arrival is not None:
                times.append(_times_us(arrival, columns.unit, f"{path}: column {columns.arrival!r}", row))
            for name, (_, _, zoned) in zip((columns.event_time, columns.arrival or ""), times, strict=False):
                if not zoned:
                    without_zone[name] = None
            kept = np.logical_and.reduce([known for _, known, _ in times])
            if partition is not None:
                kept &= partition.is_valid().to_numpy(zero_copy_only=False)
            count = int(kept.sum())
            events.append(times[0][0][kept])
            arrivals.append(
                times[1][0][kept] if arrival is not None else np.full(count, path.stat().st_mtime_ns // 1_000)
            )
            partitions.append(
                np.full(count, names.setdefault(path.name, len(names)), np.int32)
                if partition is None
                else index_of_names(partition.filter(pa.array(kept)), names)
            )
            null_rows += len(kept) - count
            row += len(kept)
            on_rows(len(kept))
    arrival_us = np.concatenate([np.empty(0, np.int64), *arrivals])
    order = np.argsort(arrival_us, kind="stable")
    trace = Trace(
        np.concatenate([np.empty(0, np.int64), *events])[order],
        arrival_us[order],
        np.concatenate([np.empty(0, np.int32), *partitions])[order],
        tuple(names),
    )
    return Made(trace=trace, null_rows=null_rows, without_zone=tuple(without_zone))


def find_files(sources: Sequence[Path], file_format: Format | None = None) -> list[tuple[Path, Format]]:
    """Return the files of ``sources`` with their formats; folders are searched, hidden and ``_`` names left out.

    Raises:
        TraceError: when a source does not exist, holds no file, or has a name that does not tell its format.
    """
    found: list[tuple[Path, Format]] = []
    for source in sources:
        if source.is_dir():
            inside = [
                path
                for path in sorted(source.rglob("*"))
                if path.is_file()
                and not any(part.startswith((".", "_")) for part in path.relative_to(source).parts)
                and (file_format or _format_of(path))
            ]
            if not inside:
                raise TraceError(
                    f"{source}: there is no {file_format or 'Parquet, JSON or CSV'} file in the folder"
                )
        elif source.exists():
            inside = [source]
        else:
            raise TraceError(f"{source}: there is no such file or folder")
        for path in inside:
            kind = file_format or _format_of(path)
            if kind is None:
                raise TraceError(
                    f"{path}: the name does not tell the format; say --format parquet, json or csv"
                )
            found.append((path, kind))
    return found


def _format_of(path: Path) -> Format | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


# -- readers -------------------------------------------------------------------------------------------------


def _check_names(path: Path, columns: Columns, there: Sequence[str]) -> None:
    for name in columns.names():
        if name not in there:
            raise TraceError(f"{path}: there is no column {name!r}; there are: {', '.join(there) or 'none'}")


def _part(table: pa.RecordBatch, columns: Columns) -> _Part:
    partition = None
    if columns.partition is not None:
        partition = table.column(columns.partition)
        try:
            partition = partition.cast(pa.string())
        except pa.ArrowException:
            raise TraceError(
                f"column {columns.partition!r} is of type {partition.type}, which names nothing"
            ) from None
    return (
        table.column(columns.event_time),
        None if columns.arrival is None else table.column(columns.arrival),
        partition,
    )


def _read_parquet(path: Path, columns: Columns) -> Iterator[_Part]:
    try:
        file = pq.ParquetFile(path)
        _check_names(path, columns, file.schema_arrow.names)
        for batch in file.iter_batches(columns=columns.names()):
            yield _part(batch, columns)
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: not a readable Parquet file: {one_line(error)}") from None


def _read_csv(path: Path, columns: Columns) -> Iterator[_Part]:
    try:
        with pacsv.open_csv(path) as header:
            _check_names(path, columns, header.schema.names)
        # All as text: what is a time is decided here, not by what the file's first rows look like.
        options = pacsv.ConvertOptions(
            include_columns=columns.names(),
            column_types=dict.fromkeys(columns.names(), pa.string()),
            strings_can_be_null=True,
        )
        with pacsv.open_csv(path, convert_options=options) as reader:
            for batch in reader:
                yield _part(batch, columns)
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: not a readable CSV file: {one_line(error)}") from None


def _read_json(path: Path, columns: Columns) -> Iterator[_Part]:
    names = columns.names()
    seen: dict[str, None] = {}
    rows: list[dict[str, Any]] = []
    first = True
    for number, line in _lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise TraceError(f"{path}: line {number} is not JSON: {error}") from None
        if not isinstance(row, dict):
            raise TraceError(f"{path}: line {number} is not a JSON object")
        seen.update(dict.fromkeys(row))
        rows.append(row)
        if len(rows) == _JSON_LINES:
            if first:
                _check_names(path, columns, list(seen))
                first = False
            yield _json_part(path, columns, names, rows)
            rows = []
    if first and rows:
        _check_names(path, columns, list(seen))
    if rows:
        yield _json_part(path, columns, names, rows)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with pa.input_stream(path) as raw, io.TextIOWrapper(raw, encoding="utf-8") as text:
            for number, line in enumerate(text, start=1):
                if line.strip():
                    yield number, line
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: not a readable JSON file: {one_line(error)}") from None


def _json_part(path: Path, columns: Columns, names: list[str], rows: list[dict[str, Any]]) -> _Part:
    arrays = []
    for name in names:
        values = [row.get(name) for row in rows]
        if name == columns.partition:
            values = [
                value if value is None or isinstance(value, str) else json.dumps(value) for value in values
            ]
        try:
            arrays.append(pa.array(values))
        except (pa.ArrowException, OverflowError) as error:
            raise TraceError(
                f"{path}: column {name!r} holds values of several types: {one_line(error)}"
            ) from None
    return _part(pa.record_batch(arrays, names), columns)


_READERS: dict[Format, Callable[[Path, Columns], Iterator[_Part]]] = {
    "parquet": _read_parquet,
    "csv": _read_csv,
    "json": _read_json,
}


# -- times ---------------------------------------------------------------------------------------------------

_Times = tuple[Int64s, NDArray[np.bool_], bool]
"""Times in microseconds, which of them are known, and whether all had a zone."""


def _times_us(column: pa.Array, unit: Unit | None, where: str, first_row: int) -> _Times:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    kind = column.type
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.int64), np.zeros(len(column), np.bool_), True
    if pa.types.is_timestamp(kind):
        values, known = _numbers(column.cast(pa.int64()))
        return _scaled(values, known, kind.unit, where), known, kind.tz is not None
    if pa.types.is_date(kind):
        values, known = _numbers(column.cast(pa.timestamp("us")).cast(pa.int64()))
        return values, known, False
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return _of_text(pc.utf8_trim_whitespace(column.cast(pa.string())), unit, where, first_row)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _of_numbers(column, unit, where)
    raise TraceError(f"{where} is of type {kind}, which is no time")


def _of_numbers(column: pa.Array, unit: Unit | None, where: str) -> _Times:
    if unit is None:
        raise TraceError(f"{where} holds numbers: say their unit with --unit s, ms, us or ns")
    whole = pa.types.is_integer(column.type)
    try:
        values, known = _numbers(column.cast(pa.int64() if whole else pa.float64()))
    except pa.ArrowException as error:
        raise TraceError(f"{where}: {one_line(error)}") from None
    if whole:
        return _scaled(values, known, unit, where), known, True
    known &= ~np.isnan(values)
    exact = np.where(known, values, 0.0) * (1e6 / _PER_SECOND[unit])
    _refuse_far(exact, where, unit)
    return np.round(exact).astype(np.int64), known, True


def _of_text(column: pa.Array, unit: Unit | None, where: str, first_row: int) -> _Times:
    column = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
    known: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    if not known.any():
        return np.zeros(len(column), np.int64), known, True
    if pc.all(pc.match_substring_regex(column, _NUMBER)).as_py():
        try:
            return _of_numbers(column.cast(pa.int64()), unit, where)
        except pa.ArrowException:
            return _of_numbers(column.cast(pa.float64()), unit, where)
    iso = pc.match_substring_regex(column, _ISO).fill_null(True).to_numpy(zero_copy_only=False)
    if not iso.all():
        wrong = int(np.argmin(iso))
        raise TraceError(f"{where}: {column[wrong].as_py()!r} at row {first_row + wrong} is no time")
    # Arrow takes no more digits than the unit has; what is finer than a microsecond is cut off.
    column = pc.replace_substring_regex(column, r"(\.\d{6})\d+", r"\1")
    zoned = pc.match_substring_regex(column, _ZONED).fill_null(True)
    nothing = pa.scalar(None, pa.string())
    try:
        with_zone = pc.if_else(zoned, column, nothing).cast(pa.timestamp("us", "UTC"))
        without = pc.if_else(zoned, nothing, column).cast(pa.timestamp("us"))
    except pa.ArrowException as error:
        raise TraceError(f"{where}: {one_line(error)}") from None
    values, _ = _numbers(pc.coalesce(with_zone.cast(pa.int64()), without.cast(pa.int64())))
    return values, known, bool(pc.all(zoned).as_py())


def _numbers(column: pa.Array) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the values, 0 where null, and which are not null."""
    known = column.is_valid().to_numpy(zero_copy_only=False).copy()
    return column.fill_null(0).to_numpy(zero_copy_only=False), known


def _scaled(values: Int64s, known: NDArray[np.bool_], unit: str, where: str) -> Int64s:
    per_second = _PER_SECOND[unit]
    if per_second > 1_000_000:
        return values // (per_second // 1_000_000)
    factor = 1_000_000 // per_second
    _refuse_far(np.where(known, values, 0).astype(np.float64) * factor, where, unit)
    return values * factor


def _refuse_far(times_us: NDArray[np.float64], where: str, unit: str) -> None:
    if len(times_us) and not np.abs(times_us).max() <= MAX_TIME_US:
        worst = times_us[np.argmax(np.abs(times_us))] / 1e6 * _PER_SECOND[unit]
        raise TraceError(f"{where} holds {worst:g}, which is no time in {unit}: is the unit right?")
