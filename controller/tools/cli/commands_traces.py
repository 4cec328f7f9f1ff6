"""The commands over traces: each is a row."""

from __future__ import annotations

from tidemark.controller.tools.cli.parameters import TOKEN_FILE, URL
from tidemark.controller.tools.cli.shape import PATH, Params, arg, opt, row, several

_WINDOW = "Size of the windows; 0 for a row-level operator."
_SLIDE = opt("--slide", "Slide of the windows. Default: they tumble, the slide is the size.")
_ENGINE = opt(
    "--engine",
    "Which late rule to replay: Spark's, by batches, or that of an engine that works row by row.",
    ("spark", "per-row"),
    default="spark",
)


def _of_backtest() -> Params:
    from tidemark.models.backtest.catalogue import policy_forms  # noqa: PLC0415 - help of other commands needs no numpy

    return (
        arg(
            "traces",
            "Traces made by `tidemark trace`; or the names of a job and a stream of a running controller.",
            "TRACE...|JOB STREAM",
            nargs=-1,
            type=PATH,
            required=True,
        ),
        opt(
            "--target",
            "Completeness target, a decimal share such as 0.99. Default: 0.99, or for a stream that of its SLO.",
        ),
        opt(
            "--objective",
            "What must meet the target: occurrences, all rows together; timeslices, each of 99 % of the windows.",
            ("occurrences", "timeslices"),
            default="occurrences",
        ),
        opt("--window", _WINDOW, default="10s"),
        _SLIDE,
        opt(
            "--trigger",
            "Spark's processing-time trigger; with --engine per-row the time between decisions.",
            default="1s",
        ),
        _ENGINE,
        opt(
            "--scope",
            "global: one watermark for the stream; partition: the minimum of the watermarks of its partitions.",
            ("global", "partition"),
            default="global",
        ),
        opt(
            "--mode",
            "How a new bound reaches the job: live, while it runs, or by a restart.",
            ("live", "restart"),
            default="live",
        ),
        opt(
            "--restart-cost",
            "With --mode restart: time without batches at each change of the bound.",
            default="30s",
        ),
        opt(
            "--horizon",
            "With the policy tidemark and --mode restart: how far back evidence counts, up to 31d. Default: 1d, "
            "longer where a day has too few rows. For a stream: the horizon to try, or none for that default.",
        ),
        opt(
            "--latency-cap",
            "With the policy tidemark and --mode live: no window waits longer, even if the target is missed. "
            "For a stream: the cap to try, or none.",
        ),
        several(
            "--policy",
            "Policy to replay; may be repeated; all stands for one of each kind. Default: tidemark. "
            f"Policies: {', '.join(policy_forms())}.",
            metavar="NAME",
        ),
        opt(
            "--timeline",
            "Write the batches to this file; for one trace under one policy.",
            PATH,
            metavar="FILE.parquet",
        ),
        opt("--since", "For a stream: how far back from its newest report to begin.", default="6h"),
        URL,
        TOKEN_FILE,
    )


TRACES = (
    row(
        "trace",
        "lab.traces.command:trace",
        """Make a trace, a Parquet file of recorded arrivals.

        It reads files in Parquet, newline-delimited JSON or CSV, a Kafka topic, or what a running controller holds of a
        stream. From Kafka it reads what the topic holds when the command begins, and changes nothing there.
        """,
        arg(
            "sources",
            "Files, or folders of files; with --from controller, JOB and STREAM.",
            "SOURCE",
            nargs=-1,
            type=PATH,
            required=False,
        ),
        opt("--output -o", "Parquet file to write the trace to.", PATH, required=True),
        opt("--event-time", "Column of the event time.", default="event_time"),
        opt(
            "--arrival",
            "Column of the arrival time. Default with --from kafka: the timestamp of the message.",
        ),
        opt(
            "--arrival-from-file-time",
            "Take the modification time of each file as the arrival time.",
            bool,
        ),
        opt("--partition", "Column of the partition. Default: the name of the file."),
        opt("--unit", "Unit of times that are numbers.", ("s", "ms", "us", "ns")),
        opt(
            "--format file_format",
            "Format of the files. Default: by their names.",
            ("parquet", "json", "csv"),
        ),
        opt("--skip-nulls", "Leave out rows with a null instead of rejecting them.", bool),
        opt(
            "--from source_kind",
            "Read files, a Kafka topic whose messages are JSON objects, or what a job has reported.",
            ("files", "kafka", "controller"),
            default="files",
        ),
        opt("--bootstrap-servers", "Kafka: address, host:port."),
        opt("--topic", "Kafka: name of the topic."),
        opt(
            "--since",
            "Kafka and controller: how far back to read, such as 2h. Default: the whole topic, or 6h of reports.",
        ),
        opt(
            "--event-time-from",
            "Kafka: where the event time is: in the value, in a header, or the timestamp of the message.",
            ("value", "header", "timestamp"),
            default="value",
        ),
        opt(
            "--client-settings",
            "Kafka: properties file for the client, such as for TLS and a login.",
            PATH,
        ),
        URL,
        TOKEN_FILE,
        kind="plain",
        extra="trace",
    ),
    row(
        "curve",
        "lab.curve.command:curve",
        """Show completeness and latency by bound, for a trace or a stream.

        For a trace it also chooses the smallest bound that its rows certify for the target. With JOB STREAM it asks a
        running controller.
        """,
        arg(
            "trace",
            "A trace made by `tidemark trace`; or, before STREAM, the name of a job.",
            "TRACE|JOB",
            type=PATH,
        ),
        arg("stream", "Name of the stream, to show a stream and not a trace.", required=False),
        opt("--window", f"{_WINDOW} Default: 10s."),
        _SLIDE,
        opt("--session-gap", "Gap of session windows, instead of --window."),
        _ENGINE,
        opt("--trigger", "Spark's processing-time trigger.", default="1s"),
        opt(
            "--bounds",
            "Bounds to show, such as 0,2s,5s; bare numbers are seconds. Default: chosen from the data.",
        ),
        opt(
            "--grace",
            "Time that a window is still corrected after the bound, such as 5s,15s: shows what it admits then.",
        ),
        opt("--target", "Completeness target, a decimal share such as 0.99.", default="0.99"),
        opt(
            "--confidence",
            "Confidence with which rows to come must meet the target, as in an SLO; none: the trace alone counts.",
            default="0.95",
        ),
        opt("--latency-cap", "Maximum mean latency, such as 12s."),
        opt(
            "--latency",
            "Which latency the cap limits: base, by event time, or wall, by the clock.",
            ("base", "wall"),
            default="base",
        ),
        opt("--plot", "Draw the late rows by bound under the table, in the terminal.", bool),
        URL,
        TOKEN_FILE,
        kind="itself",
        extra="trace",
    ),
    row(
        "backtest",
        "lab.backtest.command:backtest",
        """Replay traces under policies and compare the policies, or try a target on a stream.

        It shows completeness and latency of each policy, and of the best fixed bound and the best that is possible at
        all. With JOB STREAM it asks a running controller for what the job has reported, and replays it under the SLO in
        force and under the target and the cap that are tried; nothing changes for the job.
        """,
        later=_of_backtest,
        kind="itself",
        extra="trace",
    ),
)
