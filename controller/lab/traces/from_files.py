"""Makes a trace from files with an event-time column: Parquet, newline-delimited JSON or CSV.

The arrival is a column or the modification time of the file, the partition a column or the name of the file. Times may
be timestamps (without a zone they are taken as UTC, and that is reported), dates, ISO strings, or numbers in a unit
that the caller states, because a guessed unit could make delays of fifty years.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from tidemark.controller.lab.traces.format import Trace, TraceError, column_named, index_of_names, one_line
from tidemark.controller.lab.traces.messages import Unit, times_us

Format = Literal["parquet", "json", "csv"]

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
    """Unit of times that are numbers; None rejects them."""

    def names(self) -> list[str]:
        """Return the names of the columns to read, each once."""
        return list(dict.fromkeys(name for name in (self.event_time, self.arrival, self.partition) if name))

    def found_in(self, path: Path | str, there: Sequence[str]) -> Columns:
        """Return them as a file or table with the columns ``there`` names them.

        Raises:
            TraceError: when one is missing, or there more than once.
        """
        in_file = {name: column_named(name, there, path) for name in self.names()}
        return replace(
            self,
            event_time=in_file[self.event_time],
            arrival=None if self.arrival is None else in_file[self.arrival],
            partition=None if self.partition is None else in_file[self.partition],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceOfFiles:
    """A trace of files, and what the user should know of it."""

    trace: Trace
    """The rows without a null, by arrival; rows that arrived together keep the order of the files."""
    null_rows: int
    """Rows left out because the event time, the arrival or the partition was null."""
    without_zone: tuple[str, ...]
    """Columns whose times had no zone and were taken as UTC."""


Part = tuple[pa.Array, pa.Array | None, pa.Array | None]
"""Event times, arrivals (None for the file's time) and partitions (None for the file's name) of some rows."""


def trace_of_files(
    sources: Sequence[Path],
    columns: Columns,
    file_format: Format | None = None,
    on_rows: Callable[[int], object] = lambda _: None,
) -> TraceOfFiles:
    """Return the trace of all rows in ``sources``, which are files or folders.

    Args:
        sources: files, or folders that are searched for files.
        columns: where event time, arrival and partition come from.
        file_format: format of the files; None: by their names.
        on_rows: called with the number of rows read so far.

    Raises:
        TraceError: when a file cannot be read, or a column is missing or does not hold times.
    """
    names: dict[str, int] = {}
    events, arrivals, partitions = [], [], []
    without_zone: dict[str, None] = {}
    null_rows = done = 0
    for path, parts in parts_of_files(sources, columns, file_format):
        row = 0
        for event, arrival, partition in parts:
            times = [times_us(event, columns.unit, f"{path}: column {columns.event_time!r}", row)]
            if arrival is not None:
                times.append(times_us(arrival, columns.unit, f"{path}: column {columns.arrival!r}", row))
            for name, (_, _, zoned) in zip((columns.event_time, columns.arrival or ""), times, strict=False):
                if not zoned:
                    without_zone[name] = None
            valid = np.logical_and.reduce([is_time for _, is_time, _ in times])
            if partition is not None:
                valid &= partition.is_valid().to_numpy(zero_copy_only=False)
            count = int(valid.sum())
            events.append(times[0][0][valid])
            arrivals.append(
                times[1][0][valid]
                if arrival is not None
                else np.full(count, path.stat().st_mtime_ns // 1_000)
            )
            partitions.append(
                np.full(count, names.setdefault(path.name, len(names)), np.int32)
                if partition is None
                else index_of_names(partition.filter(pa.array(valid)), names)
            )
            null_rows += len(valid) - count
            row += len(valid)
            done += len(valid)
            on_rows(done)
    arrival_us = np.concatenate([np.empty(0, np.int64), *arrivals])
    order = np.argsort(arrival_us, kind="stable")
    trace = Trace(
        np.concatenate([np.empty(0, np.int64), *events])[order],
        arrival_us[order],
        np.concatenate([np.empty(0, np.int32), *partitions])[order],
        tuple(names),
    )
    return TraceOfFiles(trace=trace, null_rows=null_rows, without_zone=tuple(without_zone))


def parts_of_files(
    sources: Sequence[Path], columns: Columns, file_format: Format | None = None
) -> Iterator[tuple[Path, Iterator[Part]]]:
    """Yield each file of ``sources`` with its rows, read as they are asked for; errors as ``trace_of_files``."""
    for path, kind in find_files(sources, file_format):
        yield path, _READERS[kind](path, columns)


def find_files(sources: Sequence[Path], file_format: Format | None = None) -> list[tuple[Path, Format]]:
    """Return the files of ``sources`` with their formats.

    Folders are searched; names in them that begin with a dot or ``_`` are left out.

    Raises:
        TraceError: when a source does not exist, holds no file, or has a name that does not show its format.
    """
    files: list[tuple[Path, Format]] = []
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
                    f"{path}: the name does not show the format; give --format parquet, json or csv"
                )
            files.append((path, kind))
    return files


def _format_of(path: Path) -> Format | None:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] in _COMPRESSED:
        suffixes.pop()
    return _SUFFIXES.get(suffixes[-1]) if suffixes else None


# -- readers -------------------------------------------------------------------------------------------------


def part_of(table: pa.RecordBatch, columns: Columns) -> Part:
    """Return the columns that are read; a partition must be named by text."""
    partition = None
    if columns.partition is not None:
        partition = table.column(columns.partition)
        try:
            partition = partition.cast(pa.string())
        except pa.ArrowException:
            raise TraceError(
                f"column {columns.partition!r} is of type {partition.type}, which cannot name a partition"
            ) from None
    return (
        table.column(columns.event_time),
        None if columns.arrival is None else table.column(columns.arrival),
        partition,
    )


def _read_parquet(path: Path, columns: Columns) -> Iterator[Part]:
    try:
        file = pq.ParquetFile(path)
        columns = columns.found_in(path, file.schema_arrow.names)
        for batch in file.iter_batches(columns=columns.names()):
            yield part_of(batch, columns)
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: not a readable Parquet file: {one_line(error)}") from None


def _read_csv(path: Path, columns: Columns) -> Iterator[Part]:
    try:
        with pacsv.open_csv(path) as header:
            columns = columns.found_in(path, header.schema.names)
        # All as text: this module decides what is a time, not a guess from the first rows. NA may be a region.
        options = pacsv.ConvertOptions(
            include_columns=columns.names(),
            column_types=dict.fromkeys(columns.names(), pa.string()),
            null_values=[""],
            strings_can_be_null=True,
        )
        with pacsv.open_csv(path, convert_options=options) as reader:
            for batch in reader:
                event, arrival, partition = part_of(batch, columns)
                yield _known_times(event), None if arrival is None else _known_times(arrival), partition
    except (pa.ArrowException, OSError) as error:
        raise TraceError(f"{path}: not a readable CSV file: {one_line(error)}") from None


def _known_times(column: pa.Array) -> pa.Array:
    """Return times in CSV with null where they are spelled as missing, such as NaN."""
    missing = pc.is_in(column, value_set=pa.array(pacsv.ConvertOptions().null_values))
    return pc.if_else(missing, pa.scalar(None, pa.string()), column)


def _read_json(path: Path, columns: Columns) -> Iterator[Part]:
    seen: dict[str, None] = {}
    rows: list[dict[str, Any]] = []
    first = True
    for number, line in _lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            column = getattr(error, "pos", 0) + 1
            why = "this is not JSON; each line must be one JSON object"
            raise TraceError(f"{path}: line {number}, column {column}: {why}") from None
        except RecursionError:
            raise TraceError(f"{path}: line {number} is nested too deeply to be read") from None
        if not isinstance(row, dict):
            raise TraceError(f"{path}: line {number} is not a JSON object")
        seen.update(dict.fromkeys(row))
        rows.append(row)
        if len(rows) == _JSON_LINES:
            if first:
                columns = columns.found_in(path, list(seen))
                first = False
            yield _json_part(path, columns, rows)
            rows = []
    if first and rows:
        columns = columns.found_in(path, list(seen))
    if rows:
        yield _json_part(path, columns, rows)


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with pa.input_stream(path) as raw, io.TextIOWrapper(raw, encoding="utf-8-sig") as text:
            for number, line in enumerate(text, start=1):
                if line.strip():
                    yield number, line
    except (OSError, UnicodeDecodeError) as error:
        raise TraceError(f"{path}: not a readable JSON file: {one_line(error)}") from None


def _json_part(path: Path, columns: Columns, rows: list[dict[str, Any]]) -> Part:
    arrays = []
    for name in columns.names():
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
    return part_of(pa.record_batch(arrays, columns.names()), columns)


_READERS: dict[Format, Callable[[Path, Columns], Iterator[Part]]] = {
    "parquet": _read_parquet,
    "csv": _read_csv,
    "json": _read_json,
}
