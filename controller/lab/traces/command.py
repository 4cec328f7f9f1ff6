"""``tidemark trace``: traces of files, of a Kafka topic and of what a job has reported, and what they hold."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from shlex import join
from typing import Any, NamedTuple

import numpy as np

from tidemark.controller.base.clock import system_clock
from tidemark.controller.lab.progress import progress
from tidemark.controller.lab.traces.format import PlausibleRows, Trace, write_trace
from tidemark.controller.lab.traces.from_files import Columns, Format, find_files, trace_of_files
from tidemark.controller.lab.traces.from_reports import StreamTrace, trace_of_reports
from tidemark.controller.lab.traces.messages import TimeSources, TopicTrace, TopicTraceBuilder, Unit
from tidemark.controller.tools.cli.options import duration_of
from tidemark.controller.tools.cli.run import errors_in_one_line, open_client
from tidemark.controller.tools.cli.shape import check_options
from tidemark.controller.tools.cli.show import say, show_facts
from tidemark.controller.tools.client.client import Client
from tidemark.models.base.duration import format_duration
from tidemark.models.base.operators import Int64s, RowLevel, SessionWindow, TimeWindow
from tidemark.models.base.target import format_target
from tidemark.models.base.text import plural
from tidemark.models.protocol.messages import Report

_SINCE = "6h"
"""How far back reports are read unless that is said: 21,600 of a trigger of a second."""

_OF_FILES = frozenset({"arrival_from_file_time", "partition", "file_format", "skip_nulls"})
_OF_KAFKA = frozenset({"bootstrap_servers", "topic", "since", "event_time_from", "client_settings"})
_OF_BOTH = frozenset({"output", "source_kind", "event_time", "arrival", "unit", "url", "token_file"})
"""Parameters by what the trace is made of."""

_MILLISECOND_US = 1_000


class _Made(NamedTuple):
    """A trace, and what to say of it beside its facts."""

    trace: Trace
    lines: Iterable[str]
    """How it was made, and what is left out."""
    resolution_us: int | None = 1
    """Resolution of the arrival times, to which they were rounded down; None where rows cannot arrive too early."""
    last: Iterable[str] = ()
    """What comes after the notes."""


def trace(
    sources: Sequence[Path],
    *,
    source_kind: str,
    output: Path,
    event_time: str,
    arrival: str | None,
    unit: Unit | None,
    since: str | None,
    url: str,
    token_file: Path | None,
    **options: Any,
) -> None:
    """Make a trace, a Parquet file of recorded arrivals."""
    with errors_in_one_line():
        if source_kind == "controller":
            check_options(
                "--from controller does not take",
                {"sources", "output", "source_kind", "since", "url", "token_file"},
            )
            made = _of_stream([str(source) for source in sources], output, since or _SINCE, url, token_file)
        elif source_kind == "files":
            check_options("only --from kafka takes", {"sources", *_OF_FILES, *_OF_BOTH})
            if len(sources) == 2 and not any(file.suffix or file.is_file() for file in sources):
                raise ValueError(
                    f"there is no file {sources[0]}; for a trace of JOB STREAM add --from controller"
                )
            if (arrival is None) != options["arrival_from_file_time"]:
                raise ValueError(
                    "say where the arrival comes from: either --arrival COLUMN or --arrival-from-file-time"
                )
            columns = Columns(
                event_time=event_time, arrival=arrival, partition=options["partition"], unit=unit
            )
            made = _of_files(
                sources, columns, options["file_format"], output, skip_nulls=options["skip_nulls"]
            )
        else:
            check_options("--from kafka does not take", {*_OF_KAFKA, *_OF_BOTH})
            times = TimeSources(
                event_time=event_time,
                event_time_from=options["event_time_from"],
                arrival=arrival,
                unit=unit,
            )
            made = _of_topic(
                options["bootstrap_servers"], options["topic"], times, since, options["client_settings"]
            )
        write_trace(output, made.trace)
    say(str(output))
    show_facts(dict(_facts(made.trace)))
    for line in (*made.lines, *_notes(made), *made.last):
        say(line)


def _notes(made: _Made) -> Iterator[str]:
    """Yield what is strange about the rows of a trace; they stay in it."""
    trace = made.trace
    if made.resolution_us is not None:
        early = int((trace.arrival_time_us + made.resolution_us <= trace.event_time_us).sum())
        if early:
            yield f"note: {plural(early, 'row')} arrived before the event: two clocks disagree"
    plausible = PlausibleRows(system_clock())
    plausible.of(trace)
    yield from plausible.notes("note")


def _without_zone(names: Iterable[str]) -> list[str]:
    return [f"note: {name!r} has times without a zone; they were taken as UTC" for name in names]


# -- of what a job has reported --------------------------------------------------------------------------------------


def _of_stream(names: Sequence[str], output: Path, since: str, url: str, token_file: Path | None) -> _Made:
    if len(names) != 2:
        raise ValueError(
            "--from controller takes the names of a job and of a stream: tidemark trace JOB STREAM"
        )
    job, stream = names
    with open_client(url, token_file) as tidemark:
        made = stream_trace(tidemark, job, stream, since)
        slo = tidemark.slo(job, stream)
    last = _replay_of(made, output, None if slo is None else slo.target_ppm)
    return _Made(made.trace, _how(made), None, [last])


def stream_trace(tidemark: Client, job: str, stream: str, since: str) -> StreamTrace:
    """Return the trace of what was reported of a stream.

    Raises:
        ValueError: when there is nothing to make a trace from.
    """
    span_us = duration_of(since, "--since")
    if span_us <= 0:
        raise ValueError(f"--since must be above 0, not {since!r}")
    reports: list[Report] = []
    with progress("reports") as progressed:
        for report in _newest(tidemark.report_bodies(job, stream), span_us):
            reports.append(report)
            progressed("reading", len(reports))
    if not reports:
        raise ValueError(f"no report of {job}/{stream} is kept as it was sent")
    return trace_of_reports(reports[::-1])


def _newest(reports: Iterable[Report], span_us: int) -> Iterable[Report]:
    """Yield reports up to the first that is older than the first one by more than ``span_us``."""
    first_us = None
    for report in reports:
        first_us = report.started_us if first_us is None else first_us
        if report.started_us < first_us - span_us:
            return
        yield report


def _how(made: StreamTrace) -> Iterator[str]:
    trigger, granule = format_duration(made.trigger_us), format_duration(made.granule_us)
    yield (
        f"{plural(made.batches, 'batch', 'batches')}, one every {trigger}; rows arrive one trigger before their batch, "
        f"and event times are known to {granule}"
    )
    if made.other_batches:
        yield f"left out: {plural(made.other_batches, 'batch', 'batches')} of another operator"
    if made.uncounted_rows:
        yield f"left out: {plural(made.uncounted_rows, 'row')} that were not counted by event time"


def _replay_of(made: StreamTrace, output: Path, target_ppm: int | None) -> str:
    """Return the command that replays a trace as its stream ran."""
    target = [] if target_ppm is None else ["--target", format_target(target_ppm)]
    options = ["--trigger", _option(made.trigger_us), *target]
    operator = made.operator
    if isinstance(operator, TimeWindow) and operator.start_us:
        return "note: a replay has no windows with a start of their own, as this stream has them"
    if isinstance(operator, SessionWindow):
        command = ["curve", str(output), "--session-gap", _option(operator.gap_us), *options]
    else:
        policies = ["--policy", "tidemark", "--policy", f"fixed:{_option(made.bound_ms * 1_000)}"]
        command = ["backtest", str(output), *_window(operator), *options, *policies]
    return f"next: {join(['tidemark', *command])}"


def _window(operator: TimeWindow | RowLevel) -> list[str]:
    if isinstance(operator, RowLevel):
        return ["--window", "0"]
    slide = ["--slide", _option(operator.slide_us)] if operator.slide_us < operator.size_us else []
    return ["--window", _option(operator.size_us), *slide]


def _option(duration_us: int) -> str:
    return format_duration(duration_us).replace(" ", "")


# -- of a topic ------------------------------------------------------------------------------------------------------

_CLOCKS = {
    "CreateTime": "the producers' clocks: when a row was handed to the producer; the time from there into Kafka "
    "is not in the delays",
    "LogAppendTime": "the broker's clock: when a row was appended to its partition",
}


def _of_topic(
    bootstrap_servers: str | None,
    topic: str | None,
    times: TimeSources,
    since: str | None,
    client_settings: Path | None,
) -> _Made:
    if bootstrap_servers is None or topic is None:
        raise ValueError("--from kafka needs --bootstrap-servers and --topic")
    try:
        from tidemark.controller.lab.traces import kafka  # noqa: PLC0415 - an extra of its own
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        raise ValueError(
            "--from kafka needs confluent-kafka: pip install 'tidemark-streaming[kafka]'"
        ) from None

    since_us = None if since is None else duration_of(since, "--since")
    if since_us is not None and since_us <= 0:
        raise ValueError(f"--since must be above 0, not {since!r}")
    source = kafka.Topic(
        bootstrap_servers=bootstrap_servers,
        name=topic,
        since_ms=None if since_us is None else (time.time_ns() // 1_000 - since_us) // 1_000,
        client_settings={} if client_settings is None else kafka.read_client_settings(client_settings),
    )
    rows, done = TopicTraceBuilder(times), 0
    with kafka.TopicReader(source) as reader, progress(total=reader.rows) as progressed:
        for messages in reader.batches():
            rows.add(messages)
            done += len(messages)
            progressed("reading", done)
    made = rows.build()
    if not len(made.trace):
        raise ValueError(f"topic {topic!r} has no rows to make a trace from{_left_out(made, '; left out: ')}")
    resolution_us = _MILLISECOND_US if times.arrival is None else 1
    return _Made(made.trace, _of_clocks(made, times), resolution_us, _without_zone(made.without_zone))


def _of_clocks(made: TopicTrace, times: TimeSources) -> Iterator[str]:
    if times.arrival is not None:
        yield f"arrival: field {times.arrival!r} of the value"
    else:
        for kind, rows in made.timestamp_types.items():
            which = f" of {plural(rows, 'row')}" if len(made.timestamp_types) > 1 else ""
            yield f"arrival: the timestamp{which} is {kind}, {_CLOCKS[kind]}; to the millisecond"
    if made.unreadable:
        yield _left_out(made, "left out: ")
    if made.held_back:
        yield (
            f"note: {made.held_back:,} rows have an earlier time than a row in front of them in their partition; they "
            f"count as arriving with it, at most {format_duration(made.held_back_max_us)} later than their own time"
        )


def _left_out(made: TopicTrace, introduction: str) -> str:
    """Return how many messages are not in the trace and why; an empty text when all are."""
    if not made.unreadable:
        return ""
    reasons = "; ".join(f"{fault}: {count:,}" for fault, count in made.unreadable.items())
    return f"{introduction}{plural(sum(made.unreadable.values()), 'message')} ({reasons})"


# -- of files --------------------------------------------------------------------------------------------------------


def _of_files(
    sources: Sequence[Path], columns: Columns, file_format: Format | None, output: Path, *, skip_nulls: bool
) -> _Made:
    if not sources:
        raise ValueError("name the files or folders to read, or a topic with --from kafka")
    if any(output.resolve() == path.resolve() for path, _ in find_files(sources, file_format)):
        raise ValueError(f"{output}: the output is one of the sources")
    with progress() as progressed:
        made = trace_of_files(sources, columns, file_format, partial(progressed, "reading"))
    if made.null_rows and not skip_nulls:
        raise ValueError(
            f"{plural(made.null_rows, 'row')} without an event time, an arrival or a partition; "
            "--skip-nulls leaves such rows out"
        )
    if not len(made.trace):
        raise ValueError("there are no rows to make a trace from")
    lines = [f"left out: {plural(made.null_rows, 'row')} with a null"] if made.null_rows else []
    return _Made(made.trace, lines, last=_without_zone(made.without_zone))


# -- what it holds ---------------------------------------------------------------------------------------------------


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
