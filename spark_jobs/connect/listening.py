"""Keeps a listener listening to a Spark Connect server, as long as the client's process has work of its own.

Spark hands a client its events over one connection. When that breaks, the client drops all its listeners; then they
are added again, and what they have missed is taken from the progress that Spark remembers. The thread that takes the
events keeps a process from ending; so it is ended when all other threads have.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import warnings
from collections.abc import Container
from uuid import UUID

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import QueryTerminatedEvent

from tidemark.spark_jobs.connect.query import ConnectQuery, end_events, is_listening, listen_again
from tidemark.spark_jobs.core.listener import TidemarkListener
from tidemark.spark_jobs.spark.jvm import is_since
from tidemark.spark_jobs.spark.running_query import RunningQuery

CHECK_S = 30.0
"""How often it is made sure that nothing was missed, in seconds."""

NO_LIVE = "over Spark Connect the watermark that is to be moved is in the server, out of reach of its client"
"""Why the watermark of a running query cannot be moved."""

_NO_LATE = (
    "it needs the offset log and files beside the checkpoint, which a client of Spark Connect does not reach; run the "
    "job with a session in the driver"
)
_EVENT_THREAD = "_query_event_handler"
"""In the name of the thread that takes events: it is that of the function it runs."""

_log = logging.getLogger("tidemark.spark")


class ConnectListener(TidemarkListener):
    """A listener in a client, which Spark may fail to notify."""

    def catch_up_all(self) -> None:
        """Report the batches that have ended and that this listener was not notified of."""
        for run_id in list(self._runs):
            self.catch_up(run_id)

    def forget_all_but(self, active: Container[str]) -> None:
        """Take the other runs for ended, and their batches for reported."""
        for run_id, run in list(self._runs.items()):
            if run_id not in active:
                self.onQueryTerminated(
                    QueryTerminatedEvent(UUID(run.query.query_id), UUID(run_id), None, None)
                )

    def _query_of(self, query_id: str) -> RunningQuery:
        return ConnectQuery(self._spark, query_id)


def check_client(late: str | None) -> None:
    """Raise unless a client of Spark Connect can do what a call wants.

    Args:
        late: what becomes of late rows by the call; None where they are dropped.

    Raises:
        NotImplementedError: with ``late``, and before PySpark 4.0.
    """
    if not is_since(4, 0):
        raise NotImplementedError(
            "adaptive_watermark works over Spark Connect from PySpark 4.0 on: before, listeners run in the server and "
            "not in the client; take PySpark 4.0 or withWatermark"
        )
    if late is not None:
        raise NotImplementedError(f"late={late}(...) is not possible: {_NO_LATE}")


def listener_over_connect(spark: SparkSession) -> ConnectListener:
    """Return a new listener, which is added to a session and kept there."""
    listener = ConnectListener(spark)
    spark.streams.addListener(listener)
    threading.Thread(target=_keep, args=(spark, listener), name="tidemark-connect", daemon=True).start()
    return listener


def _keep(spark: SparkSession, listener: ConnectListener) -> None:
    away = False
    while _work_goes_on(CHECK_S):
        try:
            if spark.is_stopped:  # type: ignore[attr-defined]  # a client's session has it
                return
            _check(spark, listener)
            away = False
        except Exception as error:  # noqa: BLE001 - whatever the network brings
            if not away:
                _log.warning("the Spark Connect server is out of reach; batches may go unreported: %s", error)
            away = True
    # The thread then fails at a pool that the end of the process has closed, of which PySpark warns.
    warnings.filterwarnings("ignore", message="StreamingQueryListenerBus Handler")
    with contextlib.suppress(Exception):  # the server is gone, or the session
        end_events(spark)


def _work_goes_on(wait_s: float) -> bool:
    """Wait up to ``wait_s`` seconds for a thread of the process to end; return whether there was one to wait for."""
    for thread in threading.enumerate():
        if thread.is_alive() and not thread.daemon and _EVENT_THREAD not in thread.name:
            thread.join(wait_s)
            return True
    return False


def _check(spark: SparkSession, listener: ConnectListener) -> None:
    """Report what the listener has missed, and add it again if it was dropped."""
    if is_listening(spark, listener):
        listener.catch_up_all()
        return
    _log.warning("the connection to the Spark Connect server broke; the listener is added again")
    listen_again(spark, listener)
    active = {str(query.runId) for query in spark.streams.active}
    listener.catch_up_all()
    listener.forget_all_but(active)
