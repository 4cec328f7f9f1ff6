"""Follows running queries: after each commit a thread in the driver catches up with the late rows of a stream.

Nothing here stops a query. What fails is logged once for each kind of error and tried again, with the next commit at
the latest; what a driver leaves undone the next one does.
"""

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

from tidemark.models.operators import Operator
from tidemark.spark_jobs.client import RequestRejected
from tidemark.spark_jobs.json_listener import JsonListener
from tidemark.spark_jobs.late.catch_up import CatchUp, Step
from tidemark.spark_jobs.query_plan import Found, NoOperator
from tidemark.spark_jobs.running_query import RunningQuery

_log = logging.getLogger("tidemark.spark")
_lock = threading.Lock()
_followers: dict[SparkSession, Followers] = {}

_RETRY_S = 10.0
_REST, _MAX_REST_S = 4.0, 60.0
"""How many times as long as a step took its follower rests, and for how long at most. A step costs the driver half a
second of CPU time, however few rows it reads, so that batches of a second are better read several at once."""
_RETAINED = "spark.sql.streaming.minBatchesToRetain"

Make = Callable[[str, Operator], CatchUp]
"""Makes what catches up with a stream, from where the query's checkpoint is and the operator behind the watermark."""

Send = Callable[[str], None]
"""Sends the JSON of what was counted by dimension; raises as ``ControllerClient.late_rows``."""


@dataclass(frozen=True, slots=True)
class Followed:
    """A stream whose late rows are to be kept."""

    name: str
    """Name of the stream, for the log."""
    operator: Operator | None
    """What the call declares; None to read it from the plan."""
    make: Make
    send: Send | None = None
    """None where nothing is sent."""


class Follower:
    """Catches up with one stream of one run, in a thread of its own, until the run has ended.

    Args:
        stream: name of the stream, for the log.
        catch_up: what catches up.
        retained: batches of which Spark keeps the offset log.
        send: sends what was counted by dimension; None where it stays in the folder.
    """

    def __init__(self, stream: str, catch_up: CatchUp, retained: int, send: Send | None = None) -> None:
        self._stream = stream
        self._catch_up = catch_up
        self._retained = retained
        self._send = send
        self._rejected: set[int] = set()
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._errors: set[str] = set()
        self._warned = False
        self._thread = threading.Thread(target=self._run, name=f"tidemark-late-{stream}", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Let it look for batches that are due."""
        self._woken.set()

    def end(self) -> None:
        """Let it catch up a last time, and end."""
        self._ending.set()
        self._woken.set()

    def join(self, timeout_s: float) -> bool:
        """Wait until it has ended; return whether it has."""
        self._thread.join(max(timeout_s, 0))
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            ending = self._ending.is_set()
            failed = False
            try:
                began = time.monotonic()
                while (step := self._catch_up.step()) is not None:
                    self._tell(step)
                    self._deliver()
                    if step.waiting * 4 < self._retained:
                        self._ending.wait(min(_REST * (time.monotonic() - began), _MAX_REST_S))
                    began = time.monotonic()
            except Exception as error:  # noqa: BLE001 - the query goes on, and the next try does the same again
                if self._catch_up.session_has_ended():
                    return  # the next driver goes on
                failed = True
                self._explain("its late rows cannot be kept, which is tried again", error)
            failed = not self._deliver() or failed
            if ending:
                return
            self._woken.wait(_RETRY_S if failed else None)
            self._woken.clear()

    def _deliver(self) -> bool:
        """Send what was counted by dimension; return whether nothing is left to be tried again."""
        if self._send is None:
            return True
        try:
            for first, counts in self._catch_up.kept_counts():
                if first in self._rejected:
                    continue
                try:
                    self._send(counts)
                except RequestRejected as error:
                    # A later release may send it.
                    self._rejected.add(first)
                    self._explain("its counts of lost rows are rejected, and stay in the folder", error)
                else:
                    self._catch_up.forget_counts(first)
        except Exception as error:  # noqa: BLE001 - the query goes on, and the next try does the same again
            if not self._catch_up.session_has_ended():
                self._explain("its counts of lost rows wait in the folder, and are sent again", error)
            return False
        return True

    def _tell(self, step: Step) -> None:
        for gap in step.unknown:
            _log.error(
                "stream %s: the late rows of batches %d to %d are unknown: %s",
                self._stream,
                gap.first,
                gap.last,
                gap.reason,
            )
        if step.waiting * 2 > self._retained and not self._warned:
            _log.warning(
                "stream %s: late rows are %d batches behind, and Spark keeps the offset log of %d: soon some will be "
                "unknown; raise %s",
                self._stream,
                step.waiting,
                self._retained,
                _RETAINED,
            )
        self._warned = step.waiting * 2 > self._retained

    def _explain(self, what: str, error: Exception) -> None:
        kind = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if kind not in self._errors:
            self._errors.add(kind)
            _log.error("stream %s: %s: %s", self._stream, what, kind, exc_info=error)


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
        if mine and query.output_mode() == "complete":
            _log.error("query %s: in complete mode no row is dropped as late, so none is kept", event.id)
            return
        retained = int(self._spark.conf.get(_RETAINED) or 0)
        followers = self._runs[str(event.runId)] = []
        for metric, stream in mine.items():
            found, declared = plan.operators[metric], stream.operator
            operator = _known(found, declared)
            if operator is None or declared not in {None, operator}:
                why = found.why if isinstance(found, NoOperator) else f"the query has a {found}"
                _log.error("stream %s: its late rows are not kept: %s", stream.name, why)
                continue
            try:
                catch_up = stream.make(checkpoint, operator)
                followers.append(Follower(stream.name, catch_up, retained, stream.send))
            except Exception:  # noqa: BLE001 - the query goes on
                _log.exception("stream %s: its late rows are not kept in this run", stream.name)

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
    return None if found.kind in {"NothingLate", "Unsupported"} else declared


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
