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

from pyspark.sql import SparkSession

from tidemark.spark_jobs.connect.commands import end_events, is_listening, listen_again
from tidemark.spark_jobs.listener import TidemarkListener

CHECK_S = 30.0
"""How often it is made sure that nothing was missed, in seconds."""

_EVENT_THREAD = "_query_event_handler"
"""In the name of the thread that takes events: it is that of the function it runs."""

_log = logging.getLogger("tidemark.spark")


def keep_listening(spark: SparkSession, listener: TidemarkListener) -> None:
    """Add a listener to a session, and keep it there."""
    spark.streams.addListener(listener)
    threading.Thread(target=_keep, args=(spark, listener), name="tidemark-connect", daemon=True).start()


def _keep(spark: SparkSession, listener: TidemarkListener) -> None:
    away = False
    while _work_goes_on(CHECK_S):
        try:
            if spark.is_stopped:  # type: ignore[attr-defined]  # a client's session has it
                return
            _check(spark, listener)
            away = False
        except Exception as error:  # noqa: BLE001 - whatever the network brings
            if not away:
                _log.warning(
                    "the Spark Connect server does not answer, and batches may go unreported: %s", error
                )
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


def _check(spark: SparkSession, listener: TidemarkListener) -> None:
    """Report what the listener has missed, and add it again if it was dropped."""
    if is_listening(spark, listener):
        listener.catch_up()
        return
    _log.warning("the connection to the Spark Connect server broke; the listener is added again")
    listen_again(spark, listener)
    active = {str(query.runId) for query in spark.streams.active}
    listener.catch_up()
    listener.forget_all_but(active)
