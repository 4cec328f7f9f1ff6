"""``tidemark trace``: makes a trace of files, a Kafka topic or a running stream."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

import typer

from tidemark.controller.tools.cli.remote import TokenFileOption, UrlOption
from tidemark.controller.tools.cli.show import input_errors_in_one_line
from tidemark.controller.tools.client.address import DEFAULT_URL

DEFAULT_SINCE = "6h"
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
    # Without them --help starts fast.
    from tidemark.controller.tools.cli.make_trace import make_file_trace, make_kafka_trace, make_stream_trace  # noqa: PLC0415
    from tidemark.controller.tools.traces.from_files import Columns  # noqa: PLC0415
    from tidemark.controller.tools.traces.messages import TimeSources  # noqa: PLC0415

    with input_errors_in_one_line():
        if source_kind == "controller":
            columns_of = {"--event-time": event_time != "event_time", "--arrival": arrival, "--unit": unit}
            _reject_given("--from controller does not take", {**of_files, **of_kafka, **columns_of})
            names = [str(source) for source in sources or []]
            make_stream_trace(names, output, since=since or DEFAULT_SINCE, url=url, token_file=token_file)
            return
        if source_kind == "files":
            _reject_given("only --from kafka takes", {**of_kafka, "--since": since})
            files = sources or []
            if len(files) == 2 and not any(file.suffix or file.is_file() for file in files):
                raise ValueError(
                    f"there is no file {files[0]}; for a trace of JOB STREAM add --from controller"
                )
            if (arrival is None) != arrival_from_file_time:
                raise ValueError(
                    "say where the arrival comes from: either --arrival COLUMN or --arrival-from-file-time"
                )
            columns = Columns(event_time=event_time, arrival=arrival, partition=partition, unit=unit)
            make_file_trace(files, columns, file_format, output, skip_nulls=skip_nulls)
            return
        _reject_given("--from kafka does not take", {"files": sources, **of_files})
        if bootstrap_servers is None or topic is None:
            raise ValueError("--from kafka needs --bootstrap-servers and --topic")
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
