"""The thread that moves the watermark of one run of a query.

It decides after each batch and, while the query finds no rows, at each trigger. Spark waits for nothing of it: when it
is late, or ends, the watermark is where the bound in the plan has it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from tidemark.spark_jobs.live.known_partitions import KnownPartitions
from tidemark.spark_jobs.live.queries import LiveQueries
from tidemark.spark_jobs.spark.jvm import Py4JError
from tidemark.spark_jobs.spark.running_query import RunningQuery

_log = logging.getLogger("tidemark.spark")

_RETRY_SECONDS = 0.02
"""Time until the next try where Spark's watermark cannot be moved at the moment, in seconds."""

_FINISH_SECONDS = 10.0


class Steering:
    """Moves the watermark of one run.

    Args:
        run_id: Spark's id of the run.
        watermark: what moves it, in the JVM.
        queries: where that is decided.
        partitions: where it is kept how far the partitions have come.
        catch_up: reports the batches of which Spark has not notified the listener yet.
    """

    def __init__(  # noqa: PLR0917 - who takes part
        self,
        run_id: str,
        query: RunningQuery,
        watermark: Any,
        queries: LiveQueries,
        partitions: KnownPartitions,
        catch_up: Callable[[str], None],
    ) -> None:
        self.query_id = query.query_id
        """The query's persistent id."""
        self._run_id, self._query, self._watermark = run_id, query, watermark
        self._queries, self._partitions, self._catch_up = queries, partitions, catch_up
        self._woken, self._ended = threading.Event(), threading.Event()
        self._asked_ms: int | None = None
        """The watermark that is required and that Spark does not have yet, in milliseconds."""
        self._busy = False
        """Whether Spark's watermark could not be moved at the last moment."""
        self._thread = threading.Thread(target=self._steer, name="tidemark-steering", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Decide now: a batch has been reported."""
        self._woken.set()

    def finish(self) -> None:
        """End, while the run is still known, and keep what it has read."""
        if not self._ended.is_set():
            self._catch_up(self._run_id)
        self._ended.set()
        self._woken.set()
        self._thread.join(_FINISH_SECONDS)
        self._partitions.keep(self._queries.bases_us(self._run_id), at_once=True)

    def _steer(self) -> None:
        while not self._ended.is_set():
            self._woken.wait(_RETRY_SECONDS if self._busy else self._queries.tick_s(self._run_id))
            self._woken.clear()
            try:
                self._decide()
                self._move()
                self._queries.decided(self._run_id)
            except Py4JError as error:
                if not self._ended.is_set():
                    self._queries.cannot_steer(self._run_id, str(error).splitlines()[0])
                return
            except Exception as error:  # noqa: BLE001 - the bound in the plan holds, which is safe, and the next time may succeed
                self._queries.decided(self._run_id, error)

    def _decide(self) -> None:
        self._catch_up(self._run_id)
        required_ms = self._queries.requires(self._run_id, finds_nothing=self._query.finds_nothing())
        if required_ms is not None:
            # First: a driver that starts again must not forget a partition that this watermark has regard for.
            self._partitions.keep(self._queries.bases_us(self._run_id))
            self._asked_ms = required_ms

    def _move(self) -> None:
        if self._asked_ms is None:
            return
        reached_ms = self._watermark.raiseTo(self._asked_ms)
        self._busy = reached_ms < 0
        if reached_ms >= self._asked_ms:
            self._queries.moved(self._run_id, self._asked_ms)
            self._asked_ms = None
