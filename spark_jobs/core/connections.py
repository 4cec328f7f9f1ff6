"""What a driver has once, a listener a session and a sender a controller; and what a stream starts with."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from shlex import quote
from textwrap import shorten
from typing import ClassVar
from urllib.parse import quote as quote_url

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.base.duration import format_duration
from tidemark.models.base.operators import Operator
from tidemark.spark_jobs.core.arguments import checked
from tidemark.spark_jobs.core.binding import Binding, Extension, QueryRun
from tidemark.spark_jobs.core.bound import ChosenBound, OwnBounds, choose_bound_at_start
from tidemark.spark_jobs.core.client import ControllerClient
from tidemark.spark_jobs.core.driver_log import print_or_log
from tidemark.spark_jobs.core.driver_metrics import StreamCounts
from tidemark.spark_jobs.core.listener import TidemarkListener
from tidemark.spark_jobs.core.sender import Sender
from tidemark.spark_jobs.core.settings import JobSettings, unknown_keys
from tidemark.spark_jobs.core.watch import Orders, mode_of, watch_of

_log = logging.getLogger("tidemark.spark")
_lock = threading.Lock()
_listeners: dict[SparkSession, TidemarkListener] = {}
_waits: list[Callable[[float], bool]] = []
_connections: dict[tuple[str, Path | None], Connection] = {}
_REASON_LENGTH = 200
"""Characters of the reason in the line that a job logs at its start; the status has all of it."""


@dataclass(frozen=True, slots=True)
class Connection:
    """A controller, and the way of reports to it."""

    client: ControllerClient
    sender: Sender


def listen(spark: SparkSession) -> TidemarkListener:
    """Return a new listener, which is added to a session in the driver."""
    listener = TidemarkListener(spark)
    spark.streams.addListener(listener)
    return listener


def listener_of(
    spark: SparkSession, listen: Callable[[SparkSession], TidemarkListener] = listen
) -> TidemarkListener:
    """Return the session's listener; with the first call ``listen`` adds one to the session."""
    with _lock:
        if spark not in _listeners:
            _listeners[spark] = listen(spark)
        return _listeners[spark]


def forget_listener(spark: SparkSession) -> None:
    """Forget the listener of a session that has ended."""
    with _lock:
        _listeners.pop(spark, None)


def wait_at_flush(wait: Callable[[float], bool]) -> None:
    """Let ``flush`` wait for something more: ``wait`` gets the seconds left, and returns whether it is done."""
    with _lock:
        _waits.append(wait)


def connection_to(settings: JobSettings) -> Connection | None:
    """Return the connection to the job's controller; None without one, or when none can be made."""
    if settings.controller_url is None:
        return None
    with _lock:
        where = settings.controller_url, settings.token_file
        if where not in _connections:
            try:
                client = ControllerClient(
                    settings.controller_url, settings.token_file, settings.timeout_ms / 1_000
                )
            except Exception as error:  # noqa: BLE001 - proxies and certificates of the environment; the job must start
                what = "no connection to %s can be made, so nothing is reported: %s"
                _log.error(what, settings.controller_url, error)
                return None
            _connections[where] = Connection(client, Sender(client, settings.queue_reports))
        return _connections[where]


@checked()
def flush(timeout_s: float = 10.0) -> bool:
    """Wait until the batches of ended queries are reported, the reports have left the driver, and late rows are kept.

    Call it before a short job (``trigger(availableNow=True)``) ends: Spark notifies listeners of batches
    asynchronously. Returns whether all went out in time.
    """
    deadline = time.monotonic() + timeout_s
    with _lock:
        listeners, waits = list(_listeners.values()), list(_waits)
        senders = [connection.sender for connection in _connections.values()]
    done = [listener.wait_for_ended_runs(deadline - time.monotonic()) for listener in listeners]
    done += [sender.flush(max(deadline - time.monotonic(), 0)) for sender in senders]
    done += [wait(max(deadline - time.monotonic(), 0)) for wait in waits]
    return all(done)


@checked()
def counts_of(query: StreamingQuery) -> dict[str, StreamCounts]:
    """Return by stream what became of the rows of a running query.

    It is empty where ``spark.sql.streaming.metricsEnabled`` was not true as the query started, without a
    call of ``adaptive_watermark`` in the query, and when it has ended.
    """
    run_id = str(query.runId)
    with _lock:
        listeners = list(_listeners.values())
    return next(filter(None, (listener.metrics.of(run_id) for listener in listeners)), {})


def run_of(query_id: str) -> QueryRun | None:
    """Return the newest run of a query of this driver; None without a call of ``adaptive_watermark``."""
    with _lock:
        listeners = list(_listeners.values())
    return next(filter(None, (listener.run_of(query_id) for listener in listeners)), None)


@dataclass(frozen=True, slots=True)
class Start:
    """What a stream starts with, and where it hears of what comes after that."""

    connection: Connection | None
    """None for a job without a controller."""
    chosen: ChosenBound
    """The bound, with the mode that the stream starts in."""
    orders: Orders
    """What comes after that."""


class LateOption:
    """What becomes of late rows by a call: what ``side(...)`` and ``revise(...)`` return.

    It loads what it needs, so that a job without it has none of that.
    """

    __slots__ = ()

    revises: ClassVar[bool] = False
    """Whether windows come out in versions: then the bound moves in each batch, and no window is closed."""

    def check(self, operator: Operator | None, settings: JobSettings) -> None:
        """Raise unless a stream with these settings can have it.

        Raises:
            ValueError: when it cannot.
        """

    def read_in(self, df: DataFrame, settings: JobSettings) -> LateOption:  # noqa: ARG002 - for subclasses
        """Return the same, as a stream with these rows has it.

        Raises:
            WrongValueError: when the stream cannot have it.
        """
        return self

    def extension(self, df: DataFrame, metric: str, binding: Binding, start: Start) -> Extension:
        """Return what takes part in the queries that have a tap.

        Args:
            df: the stream's rows.
            metric: name of the tap.
            binding: the tap, and what reports of it say.
            start: what the stream starts with.
        """
        raise NotImplementedError

    def delay_ms(self, start: Start) -> int:
        """Return the delay of the plan's watermark, in milliseconds."""
        return start.chosen.bound_ms


def start_of(settings: JobSettings, own: OwnBounds, *, restarts: bool) -> Start:
    """Ask for the bound of a stream.

    Args:
        own: what is the job's own.
        restarts: whether another bound needs another start.
    """
    connection = connection_to(settings)
    client = None if connection is None else connection.client
    choice = choose_bound_at_start(settings, own, client, restarts=restarts)
    make_watch = None if client is None else partial(watch_of, choice)
    answer = choice.chosen.answer
    orders = Orders(answer, own.bound_ms, settings.mode, settings.pin, make_watch)
    return Start(connection, replace(choice.chosen, mode=mode_of(answer, settings.mode)), orders)


def announce(settings: JobSettings, start: Start, ceiling_ms: int | None) -> None:
    """Say with which bound a stream runs and, with a controller, which command shows what the job still needs."""
    for line in settings.left_out:
        _log.warning("stream %s: %s", settings.stream, line)
    ceiling = None if ceiling_ms is None else format_duration(ceiling_ms * 1_000)
    print_or_log(
        f"job={settings.job} stream={settings.stream} bound={format_duration(start.chosen.bound_ms * 1_000)} "
        f"source={start.chosen.source} generation={start.chosen.generation} mode={start.chosen.mode} ceiling={ceiling} "
        f"controller={settings.controller_url} ({shorten(start.chosen.reason, _REASON_LENGTH, placeholder=' ...')})"
    )
    if settings.controller_url is not None:
        place = "/".join(quote_url(name, safe="") for name in (settings.job, settings.stream))
        print_or_log(f"page: {settings.controller_url.rstrip('/')}/#/streams/{place}")
        _say_next(settings.job, settings.controller_url)


def conf_of(spark: SparkSession) -> Callable[[str, str | None], str | None]:
    """Return what reads the conf of a session whose job calls ``adaptive_watermark``.

    Keys in the conf of the driver that are none of Tidemark's are logged.
    """
    if not hasattr(spark, "_jsparkSession"):
        # One request in place of one for each key. PySpark before 4.0 cannot, and is refused later on.
        every: dict[str, str] = getattr(spark.conf, "getAll", {})
        return every.get
    for key, near in unknown_keys(key for key, _ in spark.sparkContext.getConf().getAll()):
        _warn_once(f"{key} is no key of Tidemark{'' if near is None else f': write {near}'}")
    return spark.conf.get


@cache
def _warn_once(line: str) -> None:
    print_or_log(line)


@cache
def _say_next(job: str, url: str) -> None:
    """Say it once in a process: a job has several streams, and may start its query again."""
    print_or_log(f"next: tidemark doctor {quote(job)} --url {quote(url)}")
