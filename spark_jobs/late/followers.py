"""Follows running queries: after each commit a thread in the driver catches up with the late rows of a stream."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
)

from tidemark.models.base.operators import Operator
from tidemark.models.protocol.messages import OutputMode
from tidemark.spark_jobs.json_listener import JsonListener
from tidemark.spark_jobs.late.catch_up import CatchUp
from tidemark.spark_jobs.late.follower import RETAINED, Follower
from tidemark.spark_jobs.late.missing_reports import Ledger, MissingReports
from tidemark.spark_jobs.late.switch import LateSwitch
from tidemark.spark_jobs.query_plan import Found, NoOperator
from tidemark.spark_jobs.running_query import RunningQuery

_log = logging.getLogger("tidemark.spark")
_lock = threading.Lock()
_followers: dict[SparkSession, Followers] = {}


@dataclass(frozen=True, slots=True)
class Begun:
    """A run of a query that begins."""

    run_id: str
    """Spark's id of it."""
    checkpoint: str
    """Where the query's checkpoint is."""
    output_mode: OutputMode | None
    """Spark's output mode; None when it cannot be read."""


Make = Callable[[Begun, Operator], tuple[CatchUp, MissingReports | None]]
"""Makes what catches up with a stream, of a run and the operator behind the watermark; and what completes its ledger,
None without a controller."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A stream whose late rows are to be kept."""

    name: str
    """Name of the stream, for the log."""
    operator: Operator | None
    """What the call declares; None to read it from the plan."""
    make: Make
    switch: LateSwitch
    """Whether its late rows are kept."""
    ledger: Ledger | None = None
    """None without a controller."""


class Followers(JsonListener):
    """The followers of a session's queries; as a listener it wakes them, and reads no progress.

    Args:
        spark: the session whose queries are followed.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._streams: dict[str, Followed] = {}
        self._runs: dict[str, list[Follower]] = {}
        self._ended: list[Follower] = []

    def add(self, metric: str, stream: Followed) -> None:
        """Let the stream of the tap ``metric`` be followed in every query that has it."""
        self._streams[metric] = stream

    def wait(self, timeout_s: float) -> bool:
        """Wait until the followers of ended runs have ended; return whether they have."""
        deadline = time.monotonic() + timeout_s
        try:
            active = {str(query.runId) for query in self._spark.streams.active}
        except Exception:  # noqa: BLE001 - the session has ended, and with it all queries
            return False
        # A run may have ended before this listener was notified.
        for run_id in [run_id for run_id in list(self._runs) if run_id not in active]:
            self._end(run_id)
        for follower in list(self._ended):
            if follower.join(deadline - time.monotonic()):
                self._ended.remove(follower)
        return not self._ended

    # -- Spark's callbacks ------------------------------------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Follow the query's streams. Synchronous with ``start()``: must be quick."""
        query = RunningQuery(self._spark, str(event.id))
        plan = query.plan()
        checkpoint = query.checkpoint()
        if plan is None or checkpoint is None:
            _log.error(
                "query %s: its late rows are not kept: its plan or checkpoint cannot be read", event.id
            )
            return
        mine = {metric: self._streams[metric] for metric in plan.operators if metric in self._streams}
        begun = Begun(str(event.runId), checkpoint, query.output_mode())
        if mine and begun.output_mode == "complete":
            _log.error("query %s: in complete mode no row is dropped as late, so none is kept", event.id)
            for stream in mine.values():
                stream.switch.cannot_keep()
            return
        retained = int(self._spark.conf.get(RETAINED) or 0)
        followers = self._runs[begun.run_id] = []
        for metric, stream in mine.items():
            found, declared = plan.operators[metric], stream.operator
            operator, changed = _known(found, declared), plan.changes.get(metric)
            if operator is None or declared not in {None, operator} or changed is not None:
                why = found.why if isinstance(found, NoOperator) else f"the query has a {found}"
                why = why if changed is None else f"{changed} behind adaptive_watermark changes the rows"
                _log.error("stream %s: its late rows are not kept: %s", stream.name, why)
                stream.switch.cannot_keep()
                continue
            try:
                catch_up, missing = stream.make(begun, operator)
                followers.append(
                    Follower(
                        stream.name,
                        catch_up,
                        retained,
                        switch=stream.switch,
                        ledger=stream.ledger,
                        missing=missing,
                    )
                )
            except Exception:  # noqa: BLE001 - the query goes on
                _log.exception("stream %s: its late rows are not kept in this run", stream.name)
                stream.switch.cannot_keep()

    def wants(self, run_id: str, batch_id: int) -> bool:  # noqa: ARG002 - that there is one is enough
        """Wake the followers of a run whose batch has been committed; its progress is not read."""
        for follower in self._runs.get(run_id, ()):
            follower.wake()
        return False

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Wake the followers, where PySpark calls this instead of ``wants``."""
        self.wants(str(event.progress.runId), event.progress.batchId)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Ignore: an idle trigger runs no batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Let the followers of a run catch up a last time."""
        self._end(str(event.runId))

    def _end(self, run_id: str) -> None:
        for follower in self._runs.pop(run_id, ()):
            self._ended.append(follower)
            follower.end()


def _known(found: Found, declared: Operator | None) -> Operator | None:
    """Return the operator that drops a stream's rows; None when none does, or it is not known."""
    if not isinstance(found, NoOperator):
        return found
    return None if found.kind in {"NothingLate", "Unsupported", "Uncounted"} else declared


def followers_of(spark: SparkSession) -> Followers:
    """Return the session's followers; they are added to the session with the first call."""
    with _lock:
        if spark not in _followers:
            _followers[spark] = Followers(spark)
            spark.streams.addListener(_followers[spark])
        return _followers[spark]


def wait_for_followers(timeout_s: float) -> bool:
    """Wait until the late rows of all ended runs are kept; return whether they are."""
    deadline = time.monotonic() + timeout_s
    with _lock:
        every = list(_followers.values())
    waited = [each.wait(deadline - time.monotonic()) for each in every]
    return all(waited)
