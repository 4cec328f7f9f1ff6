"""``tidemark trace --from controller``: makes a trace from what a stream's job has reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import join

from tidemark.controller.cli.options import duration_of
from tidemark.controller.cli.progress import progress_bar
from tidemark.controller.cli.remote import open_client
from tidemark.controller.cli.trace import note_misdated_rows, show_trace
from tidemark.controller.traces.format import write_trace
from tidemark.controller.traces.from_reports import StreamTrace, trace_of_reports
from tidemark.models.base.duration import format_duration
from tidemark.models.base.operators import RowLevel, SessionWindow, TimeWindow
from tidemark.models.base.target import format_target
from tidemark.models.base.text import plural
from tidemark.models.protocol.messages import Report


def make_stream_trace(
    names: Sequence[str], output: Path, *, since: str, url: str, token_file: Path | None
) -> None:
    """Write a trace of what was reported of a stream, and print a summary and how to replay it.

    Args:
        names: the names of job and stream.
        output: the Parquet file to write.
        since: how far back from the newest report to begin, as a duration.
        url: address of the controller.
        token_file: file with the bearer token.

    Raises:
        ValueError: when there is nothing to make a trace from.
    """
    if len(names) != 2:
        raise ValueError(
            "--from controller takes the names of a job and of a stream: tidemark trace JOB STREAM"
        )
    span_us = duration_of(since)
    if span_us <= 0:
        raise ValueError(f"--since must be above 0, not {since!r}")
    job, stream = names
    with open_client(url, token_file) as tidemark, progress_bar("reports") as progress:
        task = progress.add_task("reading", total=None)
        reports: list[Report] = []
        for report in _newest(tidemark.report_bodies(job, stream), span_us):
            reports.append(report)
            progress.advance(task, 1)
        slo = tidemark.slo(job, stream)
    if not reports:
        raise ValueError(f"no report of {job}/{stream} is kept as it was sent")
    made = trace_of_reports(reports[::-1])
    write_trace(output, made.trace)
    _show(made, output, None if slo is None else slo.target_ppm)


def _newest(reports: Iterable[Report], span_us: int) -> Iterable[Report]:
    """Yield reports up to the first that is older than the first one by more than ``span_us``."""
    first_us = None
    for report in reports:
        first_us = report.started_us if first_us is None else first_us
        if report.started_us < first_us - span_us:
            return
        yield report


def _show(made: StreamTrace, output: Path, target_ppm: int | None) -> None:
    say = show_trace(made.trace, output)
    trigger, granule = format_duration(made.trigger_us), format_duration(made.granule_us)
    say(
        f"{plural(made.batches, 'batch', 'batches')}, one every {trigger}; rows arrive one trigger before their batch, "
        f"and event times are known to {granule}"
    )
    if made.other_batches:
        say(f"left out: {plural(made.other_batches, 'batch', 'batches')} of another operator")
    if made.uncounted_rows:
        say(f"left out: {plural(made.uncounted_rows, 'row')} that were not counted by event time")
    note_misdated_rows(say, made.trace)
    target = [] if target_ppm is None else ["--target", format_target(target_ppm)]
    options = ["--trigger", _option(made.trigger_us), *target]
    operator = made.operator
    if isinstance(operator, TimeWindow) and operator.start_us:
        return say("note: a replay has no windows with a start of their own, as this stream has them")
    if isinstance(operator, SessionWindow):
        command = ["curve", str(output), "--session-gap", _option(operator.gap_us), *options]
    else:
        policies = ["--policy", "tidemark", "--policy", f"fixed:{_option(made.bound_ms * 1_000)}"]
        command = ["backtest", str(output), *_window(operator), *options, *policies]
    return say(f"next: {join(['tidemark', *command])}")


def _window(operator: TimeWindow | RowLevel) -> list[str]:
    if isinstance(operator, RowLevel):
        return ["--window", "0"]
    slide = ["--slide", _option(operator.slide_us)] if operator.slide_us < operator.size_us else []
    return ["--window", _option(operator.size_us), *slide]


def _option(duration_us: int) -> str:
    return format_duration(duration_us).replace(" ", "")
