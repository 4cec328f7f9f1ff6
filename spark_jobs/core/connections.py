"""What a driver has once: a listener for each session, a sender for each controller."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.spark_jobs.core.arguments import checked
from tidemark.spark_jobs.core.client import ControllerClient
from tidemark.spark_jobs.core.driver_metrics import StreamCounts
from tidemark.spark_jobs.core.listener import TidemarkListener
from tidemark.spark_jobs.core.sender import Sender
from tidemark.spark_jobs.core.settings import JobSettings

_log = logging.getLogger("tidemark.spark")
_lock = threading.Lock()
_listeners: dict[SparkSession, TidemarkListener] = {}
_waits: list[Callable[[float], bool]] = []
_senders: dict[tuple[str, Path | None], tuple[ControllerClient, Sender]] = {}


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


def wait_at_flush(wait: Callable[[float], bool]) -> None:
    """Let ``flush`` wait for something more: ``wait`` gets the seconds left, and returns whether it is done."""
    with _lock:
        _waits.append(wait)


def connection_to(settings: JobSettings) -> tuple[ControllerClient | None, Sender | None]:
    """Return the client and the sender for the job's controller; None and None without one."""
    if settings.controller_url is None:
        return None, None
    with _lock:
        where = settings.controller_url, settings.token_file
        if where not in _senders:
            try:
                client = ControllerClient(settings.controller_url, settings.token_file, settings.timeout_s)
            except Exception:  # noqa: BLE001 - proxies and certificates of the environment; the job must start
                _log.exception(
                    "no connection to %s can be made; nothing is reported", settings.controller_url
                )
                return None, None
            _senders[where] = client, Sender(client, settings.queue_reports)
        return _senders[where]


@checked()
def flush(timeout_s: float = 10.0) -> bool:
    """Wait until the batches of ended queries are reported, the reports have left the driver, and late rows are kept.

    Call it before a short job (``trigger(availableNow=True)``) ends: Spark notifies listeners of batches
    asynchronously. Returns whether all went out in time.
    """
    deadline = time.monotonic() + timeout_s
    with _lock:
        listeners, waits = list(_listeners.values()), list(_waits)
        senders = [sender for _, sender in _senders.values()]
    done = [listener.wait_for_ended_runs(deadline - time.monotonic()) for listener in listeners]
    done += [sender.flush(max(deadline - time.monotonic(), 0)) for sender in senders]
    done += [wait(max(deadline - time.monotonic(), 0)) for wait in waits]
    return all(done)


@checked()
def counts_of(query: StreamingQuery) -> dict[str, StreamCounts]:
    """Return by stream what became of the rows of a running query.

    It is empty where ``spark.sql.streaming.metricsEnabled`` was not true as the query started, without a call of
    ``adaptive_watermark`` in the query, and when it has ended.
    """
    run_id = str(query.runId)
    with _lock:
        listeners = list(_listeners.values())
    return next(filter(None, (listener.metrics.of(run_id) for listener in listeners)), {})
