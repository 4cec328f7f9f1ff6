"""``tidemark trace``: makes a trace of files, a Kafka topic or a running stream, and shows what it holds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from tidemark.controller.cli.fail import fail_usage
from tidemark.controller.cli.progress import progress_bar
from tidemark.controller.cli.remote import TokenFileOption, UrlOption
from tidemark.controller.client.address import DEFAULT_URL
from tidemark.controller.runtime.clock import system_clock
from tidemark.models.base.duration import format_duration
from tidemark.models.base.operators import Int64s
from tidemark.models.base.text import plural

if TYPE_CHECKING:
    from tidemark.controller.traces.format import Trace
    from tidemark.controller.traces.from_files import Columns, Format


_SINCE = "6h"
"""How far back reports are read unless that is said: 21,600 of a trigger of a second."""


def register(app: typer.Typer) -> None:
    """Add the command to ``app``."""
    app.command("trace")(trace)


def trace(
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            metavar="SOURCE", help="Files, or folders of files; with --from controller, JOB and STREAM."
        ),
    ] = None,
    *,
    output: Annotated[Path, typer.Option("--output", "-o", help="Parquet file to write the trace to.")],
    event_time: Annotated[str, typer.Option(help="Column of the event time.")] = "event_time",
    arrival: Annotated[
        str | None,
        typer.Option(
            help="Column of the arrival time. Default with --from kafka: the timestamp of the message."
        ),
    ] = None,
    arrival_from_file_time: Annotated[
        bool,
        typer.Option(
            "--arrival-from-file-time", help="Take the modification time of each file as the arrival time."
        ),
    ] = False,
    partition: Annotated[
        str | None, typer.Option(help="Column of the partition. Default: the name of the file.")
    ] = None,
    unit: Annotated[
        Literal["s", "ms", "us", "ns"] | None, typer.Option(help="Unit of times that are numbers.")
    ] = None,
    file_format: Annotated[
        Literal["parquet", "json", "csv"] | None,
        typer.Option("--format", help="Format of the files. Default: by their names."),
    ] = None,
    skip_nulls: Annotated[
        bool, typer.Option("--skip-nulls", help="Leave out rows with a null instead of rejecting them.")
    ] = False,
    source_kind: Annotated[
        Literal["files", "kafka", "controller"],
        typer.Option(
            "--from",
            help="Read files, a Kafka topic whose messages are JSON objects, or what a job has reported.",
        ),
    ] = "files",
    bootstrap_servers: Annotated[str | None, typer.Option(help="Kafka: address, host:port.")] = None,
    topic: Annotated[str | None, typer.Option(help="Kafka: name of the topic.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Kafka and controller: how far back to read, such as 2h. Default: the whole topic, or 6h of reports."
        ),
    ] = None,
    event_time_from: Annotated[
        Literal["value", "header", "timestamp"],
        typer.Option(
            help="Kafka: where the event time is: in the value, in a header, or the timestamp of the message."
        ),
    ] = "value",
    client_settings: Annotated[
        Path | None, typer.Option(help="Kafka: properties file for the client, such as for TLS and a login.")
    ] = None,
    url: UrlOption = DEFAULT_URL,
    token_file: TokenFileOption = None,
) -> None:
    """Make a trace, a Parquet file of recorded arrivals.

    It reads files in Parquet, newline-delimited JSON or CSV, a Kafka topic, or what a running controller holds of a
    stream. From Kafka it reads what the topic holds when the command begins, and changes nothing there.
    """
    of_kafka: dict[str, object] = {
        "--bootstrap-servers": bootstrap_servers,
        "--topic": topic,
        "--event-time-from": event_time_from != "value",
        "--client-settings": client_settings,
    }
    of_files: dict[str, object] = {
        "--arrival-from-file-time": arrival_from_file_time,
        "--partition": partition,
        "--format": file_format,
        "--skip-nulls": skip_nulls,
    }
    with input_errors_in_one_line():
        if source_kind == "controller":
            columns_of = {"--event-time": event_time != "event_time", "--arrival": arrival, "--unit": unit}
            _reject_given("--from controller does not take", {**of_files, **of_kafka, **columns_of})
            from tidemark.controller.cli.stream_trace import make_stream_trace  # noqa: PLC0415 - as below

            names = [str(source) for source in sources or []]
            make_stream_trace(names, output, since=since or _SINCE, url=url, token_file=token_file)
            return
        if source_kind == "files":
            _reject_given("only --from kafka takes", {**of_kafka, "--since": since})
            if (arrival is None) != arrival_from_file_time:
                raise ValueError(
                    "say where the arrival comes from: either --arrival COLUMN or --arrival-from-file-time"
                )
            from tidemark.controller.traces.from_files import Columns  # noqa: PLC0415 - pyarrow only where it is needed

            columns = Columns(event_time=event_time, arrival=arrival, partition=partition, unit=unit)
            _trace_files(sources or [], columns, file_format, output, skip_nulls=skip_nulls)
            return
        _reject_given("--from kafka does not take", {"files": sources, **of_files})
        if bootstrap_servers is None or topic is None:
            raise ValueError("--from kafka needs --bootstrap-servers and --topic")
        from tidemark.controller.cli.kafka_trace import make_kafka_trace  # noqa: PLC0415 - as above
        from tidemark.controller.traces.messages import TimeSources  # noqa: PLC0415 - as above

        make_kafka_trace(
            bootstrap_servers,
            topic,
            TimeSources(event_time=event_time, event_time_from=event_time_from, arrival=arrival, unit=unit),
            output,
            since=since,
            client_settings=client_settings,
        )


def _reject_given(message: str, options: Mapping[str, object]) -> None:
    """Reject options that would have no effect, because whoever gave one expects an effect."""
    given = [name for name, value in options.items() if value]
    if given:
        raise ValueError(f"{message} {', '.join(given)}")


def _trace_files(
    sources: Sequence[Path], columns: Columns, file_format: Format | None, output: Path, *, skip_nulls: bool
) -> None:
    from tidemark.controller.traces.format import write_trace  # noqa: PLC0415 - pyarrow only where it is needed
    from tidemark.controller.traces.from_files import find_files, trace_of_files  # noqa: PLC0415

    if not sources:
        raise ValueError("name the files or folders to read, or a topic with --from kafka")
    files = find_files(sources, file_format)
    if any(output.resolve() == path.resolve() for path, _ in files):
        raise ValueError(f"{output}: the output is one of the sources")
    with progress_bar() as progress:
        task = progress.add_task("reading", total=None)
        made = trace_of_files(sources, columns, file_format, lambda rows: progress.advance(task, rows))
    if made.null_rows and not skip_nulls:
        raise ValueError(
            f"{plural(made.null_rows, 'row')} without an event time, an arrival or a partition; "
            "--skip-nulls leaves such rows out"
        )
    if not len(made.trace):
        raise ValueError("there are no rows to make a trace from")
    write_trace(output, made.trace)
    say = show_trace(made.trace, output)
    if made.null_rows:
        say(f"left out: {plural(made.null_rows, 'row')} with a null")
    note_early_rows(say, made.trace)
    note_misdated_rows(say, made.trace)
    for column in made.without_zone:
        say(f"note: column {column!r} has times without a zone; they were taken as UTC")


@contextmanager
def input_errors_in_one_line() -> Iterator[None]:
    """End the command with one line when its input cannot be used."""
    try:
        yield
    except (ValueError, OSError) as error:
        fail_usage(" ".join(str(error).split()))


def show_trace(trace: Trace, output: Path) -> Callable[[str], None]:
    """Print a summary of a trace as a table; return a function that prints a line under it."""
    table = Table(title=str(output), title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in _facts(trace):
        table.add_row(name, value)
    console = Console(highlight=False, markup=False)
    console.print(table)
    return lambda line: console.print(line, soft_wrap=True)


def note_early_rows(say: Callable[[str], None], trace: Trace, resolution_us: int = 1) -> None:
    """Print how many rows arrived before their event time, if any did.

    Args:
        say: prints a line.
        trace: the rows.
        resolution_us: resolution of the arrival times in microseconds; they were rounded down to it.
    """
    early = int((trace.arrival_time_us + resolution_us <= trace.event_time_us).sum())
    if early:
        say(f"note: {plural(early, 'row')} arrived before the event: two clocks disagree")


def note_misdated_rows(say: Callable[[str], None], trace: Trace) -> None:
    """Print how many rows have event times that no delay explains, if any have; they stay in the trace."""
    from tidemark.controller.traces.plausible import PlausibleRows  # noqa: PLC0415 - pyarrow only where it is needed

    plausible = PlausibleRows(system_clock())
    plausible.of(trace)
    for note in plausible.notes("note"):
        say(note)


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
    """Return the share of rows whose event time is before that of a row that arrived earlier."""
    return float((event_time_us < np.maximum.accumulate(event_time_us)).mean())
