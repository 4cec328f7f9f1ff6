"""Ends a query between two batches, so that none is cut off and run again.

``StreamingQuery.stop()`` interrupts whatever runs, and with batches back to back something always runs. So the query's
own lock is taken: its thread needs it to plan a batch, to commit it, and once more after that. Whoever holds the lock
while no trigger is active has the thread between two batches, and can end it. There is no public way to the
lock; ``gate_of`` reaches for it (``jvm``). Where it is not accessible, the query is watched and stopped in
the gap after a batch, if there is one.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from tidemark.spark_jobs.spark.jvm import ACTIVE, TERMINATED, Py4JError, SparkContext, constant

_log = logging.getLogger("tidemark.spark")
_POLL_S = 0.05
_LOCKED_POLL_S = 0.005
_SETTLE_S = 0.05
"""How long a thread may take from checking whether to go on to showing that it does: a few instructions."""

_POLLS_TO_END = 4
"""Polls after which a query whose gate is closed is taken to sleep until its next trigger, and woken."""


class Gate:
    """The place between two batches of one micro-batch query (``MicroBatchExecution``, ``StreamExecution``).

    A query that has to end while it plans a batch interrupts itself when it has planned it; during a batch, or between
    two, it ends after that.
    """

    def __init__(
        self, execution: Any, states: tuple[Any, Any], jvm: Any, sleep: Callable[[float], None]
    ) -> None:
        self._on, self._off = states
        self._milliseconds = jvm.java.util.concurrent.TimeUnit.MILLISECONDS
        self._execution = execution
        self._state, self._thread = execution.state(), execution.queryExecutionThread()
        self._lock = execution.awaitProgressLock()
        self._sleep = sleep

    def close(self) -> bool:
        """Let the query begin no other batch, if it is between two now; return whether that was done.

        It may take a while to return, but never keeps the query waiting.
        """
        # With a limit, because without one the call could not be ended from the keyboard; a limit of 0 would be unfair.
        if not self._lock.tryLock(1_000, self._milliseconds):
            return False
        try:
            return self._close()
        finally:
            self._lock.unlock()

    def has_ended(self) -> bool:
        """Return whether the query's thread has ended."""
        return not self._thread.isAlive()

    def _close(self) -> bool:
        while self._execution.status().isTriggerActive():
            if self._lock.hasQueuedThreads():
                return False  # it has to commit, or to plan; when it has done that the lock is ours again
            self._sleep(_LOCKED_POLL_S)
        if not self._state.compareAndSet(self._on, self._off):
            self._sleep(_SETTLE_S)  # it has not begun to run, or it ends
            return False
        self._sleep(_SETTLE_S)
        if self._execution.status().isTriggerActive():
            # It had checked whether to go on just before its state changed, and waits for the lock now.
            self._state.compareAndSet(self._off, self._on)
            return False
        return True


def gate_of(query: StreamingQuery, sleep: Callable[[float], None] = time.sleep) -> Gate | None:
    """Return the gate of ``query``; None when this Spark has another kind of query, or no gate."""
    # A lock is held by a thread, so Python's threads have to be Java's.
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        return None
    if not hasattr(query, "_jsq"):
        return None  # a client of Spark Connect has no JVM
    try:
        execution = query._jsq.streamingQuery()  # noqa: SLF001 - see the module's docstring
        if "MicroBatch" not in execution.getClass().getSimpleName():
            return None
        states = constant(ACTIVE), constant(TERMINATED)
        missing = any(state is None for state in states)
        jvm = SparkContext._jvm  # noqa: SLF001 - as above
        return None if missing else Gate(execution, states, jvm, sleep)
    except (Py4JError, AttributeError, TypeError) as error:
        _log.warning("query %s: the place between two batches cannot be found: %s", query.id, error)
        return None


def end_between_batches(
    query: StreamingQuery,
    patience_s: float,
    *,
    gate: Callable[[StreamingQuery], Gate | None] = gate_of,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> bool:
    """Let the batch that runs be committed and end the query; return whether it could be ended, else it runs on.

    A query with a gate is waited for as long as its batch takes; one without, for up to ``patience_s`` seconds.

    Args:
        patience_s: how long to wait for a gap where there is no gate, in seconds.
        gate: returns the query's gate.
        sleep: waits so many seconds.
        monotonic: returns a time in seconds that only grows.

    Raises:
        StreamingQueryException: when the query failed meanwhile.
    """
    between = gate(query)
    if between is None:
        deadline = monotonic() + patience_s
        return _stop_in_gap(query, lambda: monotonic() < deadline, sleep)
    while not between.has_ended() and not between.close():
        pass  # at once, so as to be the next in the line for the lock
    polls = 0
    while not between.has_ended():
        polls += 1
        if polls >= _POLLS_TO_END:
            query.stop()
        sleep(_POLL_S)
    query.awaitTermination()
    return True


def _stop_in_gap(query: StreamingQuery, patient: Callable[[], bool], sleep: Callable[[float], None]) -> bool:
    """Stop the query when it waits, or as soon as it plans the next batch: the one before is committed then."""
    while patient():
        status = query.status
        if (
            not query.isActive
            or not status["isTriggerActive"]
            or status["message"].startswith("Getting offsets")
        ):
            query.stop()
            query.awaitTermination()
            return True
        sleep(_LOCKED_POLL_S)
    return False
