"""What a driver has once: a listener for each session, which control sources ask, a sender for each controller."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from tidemark.models.protocol.messages import Acknowledgement, Report
from tidemark.spark_jobs.arguments import checked
from tidemark.spark_jobs.client import ControllerClient
from tidemark.spark_jobs.driver_metrics import StreamCounts
from tidemark.spark_jobs.late.followers import wait_for_followers
from tidemark.spark_jobs.listener import TidemarkListener
from tidemark.spark_jobs.live.control_source import ControlAnswers
from tidemark.spark_jobs.sender import Sender
from tidemark.spark_jobs.session_kinds import kind_of
from tidemark.spark_jobs.settings import JobSettings

_log = logging.getLogger("tidemark.spark")
_lock = threading.Lock()
_listeners: dict[SparkSession, TidemarkListener] = {}
_answers: dict[SparkSession, ControlAnswers] = {}
_senders: dict[tuple[str, Path | None], tuple[ControllerClient, Sender]] = {}


class NoSink:
    """The sink of a job that has no controller."""

    dropped = 0

    def report(self, report: Report) -> None:
        """Drop the report."""

    def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> None:
        """Drop the acknowledgement."""


def listener_of(spark: SparkSession) -> TidemarkListener:
    """Return the session's listener; it is added to the session with the first call."""
    with _lock:
        listener = _listeners.get(spark)
        if listener is None:
            listener = _listeners[spark] = kind_of(spark).listen(spark)
        return listener


def answers_of(spark: SparkSession) -> ControlAnswers:
    """Return what the session's control sources ask: its listener."""
    listener = listener_of(spark)
    with _lock:
        if spark not in _answers:
            _answers[spark] = ControlAnswers(listener.control)
        return _answers[spark]


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
        listeners = list(_listeners.values())
        senders = [sender for _, sender in _senders.values()]
    found = [listener.wait_for_ended_runs(deadline - time.monotonic()) for listener in listeners]
    sent = [sender.flush(max(deadline - time.monotonic(), 0)) for sender in senders]
    return all(found) and all(sent) and wait_for_followers(max(deadline - time.monotonic(), 0))


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
