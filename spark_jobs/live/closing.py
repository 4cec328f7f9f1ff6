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
Then the watermark moves (``ClosingMoment.java``), and Spark plans another batch, which puts the windows out.

What moved is in the offset log before the batch runs, so a replay moves it alike. Rows that come behind it later are
late, and the ledger counts them as all others. Where nothing can be moved, the windows come out in the next run, as
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

_log = logging.getLogger("tidemark.spark")


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
        its_input = self._inputs[metric]
        own_us = self._newest_us[metric] - its_input.bound_us
        steered_us = own_us if its_input.steered_us is None else its_input.steered_us()
        by_clock_us = None if its_input.delay_us is None else self._began_us - its_input.delay_us
        return max((us for us in (steered_us, by_clock_us) if us is not None), default=None)

    def _newest_key_us(self, metric: str) -> int:
        event_us = np.array([self._newest_us[metric]], np.int64)
        return int(self._inputs[metric].operator.keys(event_us)[1].max())


class ClosingRun:
    """The closing step of one run, in a thread of its own.

    Args:
        run_id: Spark's id of the run.
        query_id: the query's persistent id.
        moment: what finds the moment, and moves the watermark in it, in the JVM.
        target: how far.
        catch_up: reports the batches of which Spark has not notified the listener yet.
    """

    def __init__(
        self, run_id: str, query_id: str, moment: Any, target: ClosingTarget, catch_up: Callable[[str], None]
    ) -> None:
        self.target = target
        """How far it moves the watermark."""
        self._run_id, self._query_id, self._moment, self._catch_up = run_id, query_id, moment, catch_up
        self._ended = False
        moment.start()
        threading.Thread(target=self._watch, name="tidemark-closing", daemon=True).start()

    def finish(self) -> None:
        """End: the run has."""
        self._ended = True
        self._moment.end()

    def _watch(self) -> None:
        try:
            while self._moment.comes():
                self._catch_up(self._run_id)
                target_ms = self.target.watermark_ms
                reached_ms = self._moment.close(-1 if target_ms is None else target_ms)
                if reached_ms >= 0:
                    _log.info(
                        "query %s: all is read, and its watermark is at %d ms", self._query_id, reached_ms
                    )
        except Py4JError as error:
            if not self._ended:
                _log.warning("a run cannot be closed: %s", str(error).splitlines()[0])
