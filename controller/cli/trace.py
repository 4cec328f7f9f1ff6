"""``tidemark trace``: makes a trace from a user's own files and says what it found in them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from tidemark.controller.cli.fail import fail
from tidemark.models.duration import format_duration
from tidemark.models.operators import Int64s

if TYPE_CHECKING:
    from tidemark.controller.traces.format import Trace
    from tidemark.controller.traces.make import Made

__all__ = ["one_line_errors", "progress_bar", "trace"]


def trace(
    sources: Annotated[list[Path], typer.Argument(metavar="SOURCE...", help="Files, or folders of files.")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="The trace to write, a Parquet file.")],
    event_time: Annotated[str, typer.Option(help="Column of the event time.")] = "event_time",
    arrival: Annotated[str | None, typer.Option(help="Column of the arrival.")] = None,
    arrival_from_file_time: Annotated[
        bool, typer.Option("--arrival-from-file-time", help="Take each file's modification time as arrival.")
    ] = False,
    partition: Annotated[
        str | None, typer.Option(help="Column of the partition; else the file's name.")
    ] = None,
    unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None, typer.Option(help="Unit of times that are numbers.")
    ] = None,
    file_format: Annotated[
        Literal["parquet", "json", "csv"] | None,
        typer.Option("--format", help="Format of the files; else told by their names."),
    ] = None,
    source_kind: Annotated[
        Literal["files", "kafka"], typer.Option("--from", help="What SOURCE is.")
    ] = "files",
    skip_nulls: Annotated[
        bool, typer.Option("--skip-nulls", help="Leave out rows with a null instead of refusing them.")
    ] = False,
) -> None:
    """Make a trace (recorded arrivals, a Parquet file) from Parquet, newline-delimited JSON or CSV files."""
    with one_line_errors():
        if source_kind == "kafka":
            raise ValueError("--from kafka is not in this release; export the topic to files first")
        if (arrival is None) != arrival_from_file_time:
            raise ValueError(
                "say where the arrival comes from: either --arrival COLUMN or --arrival-from-file-time"
            )
        from tidemark.controller.traces import make  # noqa: PLC0415 - pyarrow only where it is needed
        from tidemark.controller.traces.format import write_trace  # noqa: PLC0415

        columns = make.Columns(event_time=event_time, arrival=arrival, partition=partition, unit=unit)
        files = make.find_files(sources, file_format)
        if any(output.resolve() == path.resolve() for path, _ in files):
            raise ValueError(f"{output}: the output is one of the sources")
        with progress_bar() as progress:
            task = progress.add_task("reading", total=None)
            made = make.make_trace(sources, columns, file_format, lambda rows: progress.advance(task, rows))
        if made.null_rows and not skip_nulls:
            raise ValueError(
                f"{made.null_rows:,} rows have no event time, arrival or partition; --skip-nulls leaves them out"
            )
        if not len(made.trace):
            raise ValueError("there are no rows to make a trace from")
        write_trace(output, made.trace)
    _show(made, output)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """End the command with one line when its input cannot be used."""
    try:
        yield
    except (ValueError, OSError) as error:
        fail(" ".join(str(error).split()))


def progress_bar(unit: str = "rows") -> Progress:
    """Return a progress bar on the standard error, counting ``unit``, which only a person at a terminal sees."""
    console = Console(stderr=True)
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        MofNCompleteColumn(),
        TextColumn(unit),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )


def _show(made: Made, output: Path) -> None:
    trace = made.trace
    table = Table(title=str(output), title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in _facts(trace):
        table.add_row(name, value)
    console = Console(highlight=False, markup=False)
    console.print(table)
    early = int((trace.arrival_time_us < trace.event_time_us).sum())
    if made.null_rows:
        console.print(f"left out: {made.null_rows:,} rows with a null", soft_wrap=True)
    if early:
        console.print(f"note: {early:,} rows arrived before their event: two clocks disagree", soft_wrap=True)
    for column in made.without_zone:
        console.print(
            f"note: column {column!r} has times without a zone; they were taken as UTC", soft_wrap=True
        )


def _facts(trace: Trace) -> list[tuple[str, str]]:
    delay = trace.arrival_time_us - trace.event_time_us
    return [
        ("rows", f"{len(trace):,}"),
        ("partitions", f"{len(np.unique(trace.partition)):,}"),
        ("span of arrivals", _span(trace.arrival_time_us)),
        ("span of event times", _span(trace.event_time_us)),
        ("out of order", f"{100 * _out_of_order(trace.event_time_us):.2f} %"),
        *(
            (
                f"delay p{share}",
                format_duration(round(float(np.quantile(delay, share / 100, method="inverted_cdf")))),
            )
            for share in (50, 90, 99)
        ),
        ("delay max", format_duration(int(delay.max()))),
    ]


def _span(times_us: Int64s) -> str:
    return format_duration(int(times_us.max() - times_us.min()))


def _out_of_order(event_time_us: Int64s) -> float:
    """Return the share of rows whose event lies before one that arrived earlier."""
    return float((event_time_us < np.maximum.accumulate(event_time_us)).mean())
