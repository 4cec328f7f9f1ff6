"""``tidemark demo``: see the whole loop at work in under two minutes.

It starts a controller on SQLite, runs a real Spark job over a fleet of 16 partitions with a bound that somebody
guessed, restarts it from its checkpoint with the bound that the controller recommends, and counts the sink of both
against the truth, beside a bound that somebody thinks is safe and Live control. With ``--kafka`` the rows come through
a Kafka broker that it starts too. With ``--keep`` the job goes on in real time.
"""

from __future__ import annotations

import logging
import os
import shutil
import signal
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pyspark.sql import SparkSession
from rich.console import Console

from tidemark.models.base.duration import format_duration, parse_duration
from tidemark.models.base.operators import TimeWindow
from tidemark.models.base.target import format_share, parse_target
from tidemark.models.base.text import format_number, plural
from tidemark.spark_jobs.demo.controller_process import ControllerProcess, DemoError
from tidemark.spark_jobs.demo.generator import Fleet, generate
from tidemark.spark_jobs.demo.kafka_jars import with_kafka
from tidemark.spark_jobs.demo.loop import JOB, STREAM, Loop, policy
from tidemark.spark_jobs.demo.plan import (
    MAX_BATCHES,
    Feed,
    FileFeed,
    Plan,
    nice_duration_us,
    plan_of,
    read_trace,
    write_trace,
)
from tidemark.spark_jobs.demo.replaying import Job
from tidemark.spark_jobs.spark.checkpoint import LOCAL_SPARK
from tidemark.spark_jobs.spark.jar import JarsNotFound
from tidemark.spark_jobs.spark.java import JavaNotFound, ensure_java

_RECENT = {"horizon_ms": 15 * 60_000, "window_ms": 30 * 60_000}
"""Of the fleet, minutes count: what the guessed bound lost is soon forgotten."""

_SECONDS, _ROWS_PER_SECOND, _SEED, _SLOT_US = 300, 400, 1, 3_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What the options of ``tidemark demo`` say."""

    keep: bool
    """Whether to go on until Ctrl-C."""
    kafka: bool
    """Whether rows come through a Kafka broker."""
    trace: Path | None
    """A trace in place of the generated fleet."""
    window: str | None
    """Length of the windows."""
    guess: str | None
    """The bound that somebody guessed."""
    safe: str | None
    """The bound that somebody thinks is safe."""
    slots: int
    """Maximum number of batches to coarsen a trace to."""
    target: str
    """Completeness to reach."""


def demonstrate(chosen: Chosen) -> int:
    """Run the demonstration; return the exit code."""
    console = Console()
    signals: list[int] = []

    def leave(number: int, _: object) -> None:
        """End as by Ctrl-C, so that a closed terminal leaves no controller behind."""
        signals.append(number)
        # Sent to the whole group the signal ends Spark's process too, whose clients would say so at length.
        logging.disable()
        raise SystemExit(128 + number)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)
    try:
        parse_target(chosen.target)
        ensure_java()
        folder = Path(tempfile.mkdtemp(prefix="tidemark-demo-"))
        try:
            return _demonstrate(chosen, folder, console)
        finally:
            if not chosen.keep:
                shutil.rmtree(folder, ignore_errors=True)
    except KeyboardInterrupt:
        console.print("stopped; nothing is left running")
        return 130
    except Exception as error:
        # That Spark's process is gone may be noticed first.
        if signals:
            return 128 + signals[0]
        if not isinstance(error, (DemoError, JavaNotFound, ValueError, OSError)):
            raise
        console.print(f"[red]demo:[/red] {error}", highlight=False)
        return 2


def _demonstrate(chosen: Chosen, folder: Path, console: Console) -> int:
    plan, bounds = _prepare(chosen, folder)
    operator = TimeWindow(bounds.window_us, bounds.window_us)
    console.print(
        f"{plural(plan.rows, 'row')} of {plural(len(np.unique(plan.arrivals.partition)), 'partition')} in windows of "
        f"{format_duration(bounds.window_us)}: {format_share(parse_target(chosen.target))} are to be counted; "
        f"the guessed bound, the delay in withWatermark, is {format_duration(bounds.guess_us)}"
    )
    if chosen.trace:
        console.print(
            f"coarsened to {plural(plan.batches, 'batch', 'batches')} (at most {chosen.slots}): each holds up to "
            f"{format_duration(plan.slot_us)} of arrivals, so latencies are no finer than that"
        )
    _show_warnings_alone()
    with ExitStack() as stack:
        feed: Feed = (
            _through_kafka(plan, stack, console) if chosen.kafka else FileFeed(plan, folder / "slots")
        )
        console.print("starting a controller and Spark; the whole takes a minute or two ...")
        controller = ControllerProcess(folder, JOB, STREAM)
        stack.callback(controller.stop)
        # Both take seconds to start, so they start side by side.
        spark = _session(folder, kafka=chosen.kafka)
        stack.callback(_stop, spark)
        controller.wait_until_ready()
        controller.put(
            "slo", {"target_ppm": parse_target(chosen.target), **(_RECENT if chosen.trace is None else {})}
        )
        controller.put("policy", policy("Off"))
        console.print(f"watch it here: {controller.url}/#/streams/{JOB}/{STREAM}", highlight=False)
        loop = Loop(
            job=Job(
                spark=spark,
                feed=feed,
                operator=operator,
                own_bound=f"{bounds.guess_us // 1_000} milliseconds",
                folder=folder,
                names=(JOB, STREAM),
                controller_url=controller.url,
            ),
            plan=plan,
            target_ppm=parse_target(chosen.target),
            guess_ms=bounds.guess_us // 1_000,
            safe_ms=bounds.safe_us // 1_000,
            controller=controller,
            console=console,
        )
        loop.run()
        if chosen.keep:
            _go_on(loop, feed, folder, fleet=chosen.trace is None)
    _next_steps(console, kept=chosen.keep)
    return 0


def _show_warnings_alone() -> None:
    """Leave out what else the job logs: commands for a controller that ends with the demo."""
    handler = logging.StreamHandler()
    handler.setLevel(logging.WARNING)
    handler.setFormatter(logging.Formatter("tidemark: %(message)s"))
    log = logging.getLogger("tidemark.spark")
    log.setLevel(logging.INFO)
    log.addHandler(handler)


def _stop(spark: SparkSession) -> None:
    # Interrupted in the middle of a call, Spark may not answer any more; its process ends with this one.
    with suppress(Exception), warnings.catch_warnings(action="ignore"):
        spark.stop()


def _go_on(loop: Loop, feed: Feed, folder: Path, *, fleet: bool) -> None:
    """Go on until Ctrl-C: with the fleet's rows as they arrive, or with the controller alone."""
    console, url = loop.console, loop.controller.url
    goes_on = fleet and isinstance(feed, FileFeed)
    what = "the job goes on in real time" if goes_on else "the controller goes on"
    console.print(
        f"{what}: {url}/#/streams/{JOB}/{STREAM}; files in {folder}; Ctrl-C ends it", highlight=False
    )
    try:
        if isinstance(feed, FileFeed) and fleet:
            last_us = int(loop.plan.arrivals.event_time_us.max())
            loop.go_on(feed, Fleet(last_us, _ROWS_PER_SECOND, _SEED))
        while True:
            time.sleep(_SECONDS)
    except KeyboardInterrupt:
        console.print()


def _next_steps(console: Console, *, kept: bool) -> None:
    console.print("\nnext:")
    program = _program()
    conf = "--conf spark.tidemark.job=JOB --conf spark.tidemark.controller.url=http://localhost:8642"
    steps = (
        f"your own rows: {program} demo --trace my.parquet ({program} trace makes one)",
        f"your own job, as it is: {program} serve, then {program} run {conf} JOB.py",
        'to let Tidemark set its bound: in the job, adaptive_watermark("ts", "10 minutes", stream="clicks") within '
        f".transform(...) in place of .withWatermark(...); {program} doctor JOB says what is missing"
        if kept
        else f"the page with a job that goes on: {program} demo --keep",
    )
    for number, step in enumerate(steps, 1):
        console.print(f"  {number}. {step}", highlight=False, soft_wrap=True)


def _program() -> str:
    """Return what the command is called here: after ``make`` it is not on PATH."""
    called = Path(sys.argv[0])
    return (
        os.path.relpath(called) if called.name == "tidemark" and not shutil.which("tidemark") else "tidemark"
    )


def _through_kafka(plan: Plan, stack: ExitStack, console: Console) -> Feed:
    """Start a broker that ends with ``stack``, and say how its batches differ from slots."""
    try:
        from tidemark.spark_jobs.demo.kafka_feed import running_kafka_feed  # noqa: PLC0415 - an extra of its own
    except ModuleNotFoundError as error:
        if error.name != "confluent_kafka":
            raise
        raise DemoError("--kafka needs confluent-kafka: pip install 'tidemark-streaming[kafka]'") from None

    console.print("starting a Kafka broker (its jars come from Maven the first time) ...")
    feed = stack.enter_context(running_kafka_feed(plan))
    console.print(
        f"the trace is sent through Kafka {format_number(feed.speed, 3)} times as fast as it happened; a batch takes "
        f"what is there every {feed.interval}, so batches differ from run to run and latencies are no finer than "
        f"{format_duration(plan.slot_us)}"
    )
    return feed


class _Bounds(NamedTuple):
    window_us: int
    guess_us: int
    safe_us: int


def _prepare(chosen: Chosen, folder: Path) -> tuple[Plan, _Bounds]:
    if not 2 <= chosen.slots <= MAX_BATCHES:
        raise ValueError(f"--slots must be at least 2 and at most {MAX_BATCHES}, not {chosen.slots}")
    for option in ("guess", "safe"):
        delay = getattr(chosen, option)
        if delay and parse_duration(delay) < 0:
            raise ValueError(f"--{option} must be at least 0, not {delay!r}")
    path = folder / "trace.parquet"
    if chosen.trace is None:
        # Up to now, as far as whole minutes go: what the page shows is of today.
        minute_us = 60_000_000
        start_us = (time.time_ns() // 1_000 // minute_us) * minute_us - _SECONDS * 1_000_000
        arrivals = generate(_SECONDS, _ROWS_PER_SECOND, _SEED, start_us)
        write_trace(path, arrivals)
        plan = plan_of(path, arrivals, _SLOT_US)
        window_us, guess_us, safe_us = 10_000_000, 2_000_000, 60_000_000
    elif not chosen.trace.is_file():
        raise DemoError(f"there is no file {chosen.trace}")
    else:
        arrivals = read_trace(chosen.trace)
        write_trace(path, arrivals)
        plan = plan_of(path, arrivals, max_batches=chosen.slots)
        window_us = nice_duration_us(plan.slot_us)
        guess_us = parse_duration(chosen.window) if chosen.window else window_us
        safe_us = 10 * (parse_duration(chosen.guess) if chosen.guess else guess_us) or 10 * guess_us
    return plan, _Bounds(
        parse_duration(chosen.window) if chosen.window else window_us,
        parse_duration(chosen.guess) if chosen.guess else guess_us,
        parse_duration(chosen.safe) if chosen.safe else safe_us,
    )


def _session(folder: Path, *, kafka: bool) -> SparkSession:
    # Python workers must be this Python, or they cannot import what the job imports.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    builder = (
        SparkSession.builder.master("local[2]")
        .appName(JOB)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "1000")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.tidemark.cache.dir", str(folder / "bounds"))
        # A controller that is slow, on a machine that is busy, is not away: the comparison needs its bound.
        .config("spark.tidemark.timeout.ms", "60000")
        .config(map=LOCAL_SPARK)
    )
    if kafka:
        builder = _with_kafka(builder)
    log = folder / "spark.log"
    try:
        with _stderr_into(log):
            spark = builder.getOrCreate()
    except Exception as error:
        raise DemoError(
            f"Spark did not start; it said:\n{log.read_text(errors='replace')[-2_000:]}"
        ) from error
    spark.sparkContext.setLogLevel("WARN")
    return spark


def _with_kafka(builder: SparkSession.Builder) -> SparkSession.Builder:
    try:
        return with_kafka(builder)
    except JarsNotFound as error:
        raise DemoError(str(error)) from error


@contextmanager
def _stderr_into(path: Path) -> Iterator[None]:
    """Let a process that is started meanwhile write its errors to a file: the JVM's would tear the live table."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
