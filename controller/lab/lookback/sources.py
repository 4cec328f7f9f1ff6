"""Rows with two times, in parts: of files, standard input, tables of Delta and Iceberg, and what SQLAlchemy reaches."""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from tidemark.controller.base.store_url import shown_url, url_of
from tidemark.controller.lab.traces.format import TraceError, one_line
from tidemark.controller.lab.traces.from_files import Columns, Format, Part, part_of, parts_of_files
from tidemark.controller.lab.traces.messages import times_us
from tidemark.models.base.duration import MICROSECONDS
from tidemark.models.base.operators import Int64s

_ROWS = 50_000
"""Rows of a database that are fetched at a time."""
_Parts = Iterator[tuple[str, Part]]


@dataclass(slots=True)
class TwoTimes:
    """Reads event times and, as arrivals, times of loading; ``rows`` have both, and what is strange is counted."""

    columns: Columns
    tolerance_us: int
    """By how much a row may be loaded before its event, in microseconds, as clocks differ."""
    rows: int = 0
    early: int = 0
    """Rows that were loaded before their event."""
    early_s: float = 0.0
    """By how much, all together, in seconds."""
    only_days: bool = True
    """Whether no row was loaded within a day."""
    nulls: Counter[str] = field(default_factory=Counter)
    """Rows without a time, by column."""
    without_zone: dict[str, None] = field(default_factory=dict)

    def read(self, parts: _Parts) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield the times of the rows that have both, in microseconds; TraceError for what is no time."""
        names = (self.columns.event_time, self.columns.arrival or "")
        read: Counter[str] = Counter()
        for where, columns in parts:
            both = [
                times_us(column, self.columns.unit, f"{where}: column {name!r}", read[where])
                for name, column in zip(names, columns, strict=False)
            ]
            for name, (_, valid, zoned) in zip(names, both, strict=True):
                self.nulls[name] += int((~valid).sum())
                self.without_zone |= {} if zoned else {name: None}
            read[where] += len(columns[0])
            valid = both[0][1] & both[1][1]
            event_us, loaded_us = both[0][0][valid], both[1][0][valid]
            ahead_us = (event_us - loaded_us)[event_us > loaded_us + self.tolerance_us]
            self.rows += len(event_us)
            self.only_days &= not bool((loaded_us % MICROSECONDS["d"]).any())
            self.early += len(ahead_us)
            self.early_s += float(ahead_us.sum(dtype=float)) / 1e6
            yield event_us, loaded_us


def parts_of(
    sources: Sequence[str], columns: Columns, file_format: Format | None, table: str | None
) -> _Parts:
    """Yield the rows of a source in parts, each with the name of where it is from.

    Args:
        sources: files and folders; or one folder of a Delta or Iceberg table, URL of a database, or ``-``.
        columns: which columns.
        file_format: format of files; None by their names, and CSV for standard input.
        table: table of a database, or a query.

    Raises:
        TraceError: when it cannot be read, or what reads it is not installed.
    """
    (source, *others), folder = sources, Path(sources[0])
    is_delta, is_iceberg = (folder / "_delta_log").is_dir(), (folder / "metadata").is_dir()
    is_database = "://" in source
    if others and (is_database or is_delta or is_iceberg or "-" in sources):
        raise TraceError("a table, a database and standard input are read by themselves")
    if is_database != (table is not None):
        raise TraceError("--table names the table of a database, or a query: with a URL, and only there")
    if table is not None:
        yield from _of_database(source, table, columns)
    elif is_delta:
        dataset = _module("deltalake", source).DeltaTable(source).to_pyarrow_dataset()
        there = columns.found_in(source, dataset.schema.names)
        yield from ((source, part_of(batch, there)) for batch in dataset.to_batches(columns=there.names()))
    elif is_iceberg:
        newest = max((folder / "metadata").glob("*.metadata.json"), key=_version, default=folder)
        iceberg = _module("pyiceberg.table", source).StaticTable.from_metadata(str(newest))
        there = columns.found_in(source, [column.name for column in iceberg.schema().fields])
        batches = iceberg.scan(selected_fields=tuple(there.names())).to_arrow_batch_reader()
        yield from ((source, part_of(batch, there)) for batch in batches)
    elif source == "-":
        # Parquet is read from its end, and CSV twice, so that it must be a file.
        with tempfile.NamedTemporaryFile(prefix="standard-input-", suffix=f".{file_format or 'csv'}") as copy:
            shutil.copyfileobj(sys.stdin.buffer, copy)
            copy.flush()
            yield from _of_files([copy.name], columns, None)
    else:
        yield from _of_files(sources, columns, file_format)


def _of_files(sources: Sequence[str], columns: Columns, file_format: Format | None) -> _Parts:
    for path, parts in parts_of_files([Path(source) for source in sources], columns, file_format):
        yield from ((str(path), part) for part in parts)


def _module(name: str, source: str) -> Any:
    """Return what reads a kind of table: no extra has it, as few need it and it is large."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = name.partition(".")[0]
        raise TraceError(f"{source}: such a table needs {package}: pip install {package} ({error})") from None


def _version(metadata: Path) -> int:
    """Return the version of an Iceberg table by the file's name, v3.(...) or 00003-(...)."""
    found = re.match(r"v?(\d+)", metadata.name)
    return int(found[1]) if found else -1


def _of_database(address: str, table: str, columns: Columns) -> _Parts:
    try:
        url = url_of(address)
    except ArgumentError:
        raise TraceError("the source is no URL of a database, such as postgresql://host/database") from None
    names: list[Any] = [sqlalchemy.column(name) for name in columns.names()]
    schema, _, name = table.rpartition(".")
    rows: Any = sqlalchemy.table(name, *names, schema=schema or None)
    if re.search(r"\s", table):
        rows = sqlalchemy.text(table).columns(*names).subquery("source")
    try:
        with sqlalchemy.create_engine(url).connect() as connection:
            found = connection.execution_options(yield_per=_ROWS).execute(sqlalchemy.select(*rows.columns))
            for some in found.partitions():
                arrays = [pa.array(values) for values in zip(*some, strict=True)]
                yield shown_url(url), part_of(pa.record_batch(arrays, columns.names()), columns)
    except (ModuleNotFoundError, NoSuchModuleError) as error:
        raise TraceError(f"{shown_url(url)}: its driver is not installed: {one_line(error)}") from None
    except (SQLAlchemyError, pa.ArrowException) as error:
        raise TraceError(f"{shown_url(url)}: {one_line(error)}") from None
