"""The closing step: what moves the watermark once a run with ``availableNow`` has read all that its sources had.

Spark ends such a run where the watermark is *newest event time - bound*, as the least over all inputs; an input that
had no row in the run counts as 0 in that, since a checkpoint keeps the query's watermark and not that of each input.

How far the watermark moves:

* an input that had rows in the run lets it come as near to its newest row as its bound; in Live as its
  policy decides, which may be not to move;
* with a delay by the clock, it lets it come as near to the time at which the run began as that, too;
* an input without rows in the run holds nothing;
* it does not pass the newest window that has rows.

The sources' ends are fixed when the run begins, so once Spark runs a batch without new rows nothing is left to read.
That batch is when the watermark moves: Spark then plans another one, which puts the windows out. Spark plans the first
one only when the watermark has moved, so each batch with rows lets it move by a millisecond at least.

What moved is in the offset log before the batch runs, so a replay moves it alike. Rows that come behind it later are
late, and the ledger counts them as all others. Where the moment is missed, the windows come out in the next run, as
without a closing step.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Operator
from tidemark.models.live.policy import NO_BASE_US
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs.spark.jvm import Py4JError
from tidemark.spark_jobs.spark.running_query import RunningQuery

_log = logging.getLogger("tidemark.spark")

_POLL_SECONDS = 0.005
"""How often the query is looked at: its batch without rows may be short, and such runs do not take long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingInput:
    """One input of a query whose runs close."""

    operator: Operator
    bound_us: int
    delay_us: int | None = None
    """How late rows come at most by the clock; None when that is not said."""
    steered_us: Callable[[], int | None] | None = None
    """In Live, returns where its policy lets the watermark be, in microseconds; None where it lets it not move."""


class ClosingTarget:
    """How far the watermark of a run may move at its end.

    Args:
        inputs: the closing streams, by tap.
        began_us: when the run began, in microseconds.
    """

    def __init__(self, inputs: Mapping[str, ClosingInput], began_us: int) -> None:
        self._inputs, self._began_us = inputs, began_us
        self._newest_us: dict[str, int] = {}

    def observe(self, metric: str, report: Report) -> None:
        """Take a batch of one stream."""
        if metric in self._inputs and report.max_event_time_us is not None:
            newest_us = min(report.max_event_time_us, report.started_us)
            self._newest_us[metric] = max(self._newest_us.get(metric, NO_BASE_US), newest_us)

    @property
    def watermark_ms(self) -> int | None:
        """The watermark that all inputs with rows let come, in milliseconds; None where one lets it not move at all."""
        seen = list(self._newest_us)
        targets = [self._target_us(metric) for metric in seen]
        allowed = [target for target in targets if target is not None]
        if not targets or len(allowed) < len(targets):
            return None
        return min(*allowed, max(map(self._newest_key_us, seen))) // SPARK_TICK_US

    def _target_us(self, metric: str) -> int | None:
        given = self._inputs[metric]
        own_us = self._newest_us[metric] - given.bound_us
        steered_us = own_us if given.steered_us is None else given.steered_us()
        by_clock_us = None if given.delay_us is None else self._began_us - given.delay_us
        return max((each for each in (steered_us, by_clock_us) if each is not None), default=None)

    def _newest_key_us(self, metric: str) -> int:
        event_us = np.array([self._newest_us[metric]], np.int64)
        return int(self._inputs[metric].operator.keys(event_us)[1].max())


class ClosingRun:
    """The closing step of one run, in a thread of its own: Spark waits for nothing of it.

    Args:
        run_id: Spark's id of the run.
        query: the query.
        watermark: what moves its watermark, in the JVM.
        target: how far.
        catch_up: reports the batches of which Spark has not notified the listener yet.
    """

    def __init__(
        self,
        run_id: str,
        query: RunningQuery,
        watermark: Any,
        target: ClosingTarget,
        catch_up: Callable[[str], None],
    ) -> None:
        self.target = target
        """How far it moves the watermark."""
        self._run_id, self._query, self._watermark, self._catch_up = run_id, query, watermark, catch_up
        self._ended = threading.Event()
        self._moved_in: int | None = None
        """The batch before the one that has last moved the watermark by a millisecond; None before any has."""
        threading.Thread(target=self._watch, name="tidemark-closing", daemon=True).start()

    def finish(self) -> None:
        """End: the run has."""
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(_POLL_SECONDS):
            try:
                if self._step():
                    return
            except Py4JError as error:
                if not self._ended.is_set():
                    _log.warning("a run cannot be closed: %s", str(error).splitlines()[0])
                return

    def _step(self) -> bool:
        """Do what the moment allows; return whether the run is closed."""
        lowest = self._query.watermark_policy() == "min"
        if self._query.reads_rows():
            self._move_a_little(lowest=lowest)
            return False
        if not self._query.has_read_all():
            return False
        self._catch_up(self._run_id)
        target_ms = self.target.watermark_ms
        if target_ms is None:
            return True
        reached_ms = self._watermark.raiseTo(target_ms, lowest)
        if reached_ms >= 0:
            _log.info(
                "query %s: all is read, and its watermark is at %d ms", self._query.query_id, reached_ms
            )
        return bool(reached_ms >= 0)

    def _move_a_little(self, *, lowest: bool) -> None:
        """Move the watermark by a millisecond, once in each batch, so that a batch without rows follows."""
        before = self._query.last_batch()
        if before == self._moved_in:
            return
        watermark_ms = self._watermark.raiseTo(0, lowest)
        if watermark_ms >= 0 and self._watermark.raiseTo(watermark_ms + 1, lowest) >= 0:
            self._moved_in = before
