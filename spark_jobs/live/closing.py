"""The closing step: what moves the watermark once a run with ``availableNow`` has read all that its sources had.

Spark ends such a run where the watermark is *newest event time - bound*, as the least over all inputs; an input that
had no row in the run counts as 0 in that, since a checkpoint keeps the query's watermark and not that of each input.
So the last batches of the run are the control streams': one that asks whether anything is left to read, and one whose
only rows move the watermark. Spark itself then runs the batch without rows that puts the windows out.

How far the watermark moves:

* an input that had rows in the run lets it come as near to its newest row as its bound; in Live as its policy decides;
* with a delay by the clock, it lets it come as near to the time at which the run began as that, too;
* an input without rows in the run holds nothing, unless no input had any;
* it does not pass the newest window that has rows.

What moved is in the offset log before the batch runs, so a replay moves it alike. Rows that come behind it later are
late, and the ledger counts them as all others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Operator
from tidemark.models.live.policy import NO_BASE_US
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs.live.backlog import Offset

_log = logging.getLogger("tidemark.spark")
_CLOSING = "closing"
"""Key of an offset with what only the closing step needs: how often it asked for a batch, and the newest row."""

_UNREPORTED = 2
"""How many batches in a row may be asked for without a report of one: a run must end, whatever its listener does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosingInput:
    """One input of a query whose runs close."""

    name: str
    """Name of the stream."""
    operator: Operator
    bound_us: int
    delay_us: int | None = None
    """How late rows come at most by the clock; None when that is not said."""
    steered_us: Callable[[], int | None] | None = None
    """In Live, returns where its policy lets the watermark be, in microseconds; None where it lets it not move."""


@dataclass(slots=True)
class _Input:
    given: ClosingInput
    base_us: int = NO_BASE_US
    """Newest event time, of earlier runs too; never beyond the clock."""
    has_rows: bool = False
    """Whether this run had rows of it."""

    def add(self, base_us: int) -> None:
        self.base_us = max(self.base_us, base_us)

    def target_us(self, started_us: int) -> int | None:
        """Return how far it lets the watermark come in a run that began at ``started_us``; None for not at all."""
        given = self.given
        steered_us = self.base_us - given.bound_us if given.steered_us is None else given.steered_us()
        by_clock_us = None if given.delay_us is None else started_us - given.delay_us
        return max((each for each in (steered_us, by_clock_us) if each is not None), default=None)

    def newest_key_us(self) -> int:
        return int(self.given.operator.keys(np.array([self.base_us], np.int64))[1].max())


@dataclass(slots=True)
class _Run:
    started_us: int
    inputs: Mapping[str, _Input]
    sources: set[object] = field(default_factory=set)
    """Ids of its control sources, known from the first batch on."""
    reads: bool = True
    """Whether the newest batch has read anything, so that there may be more."""

    def target_ms(self) -> int | None:
        """Return the watermark that all inputs let come, in milliseconds; None for none."""
        seen = [each for each in self.inputs.values() if each.base_us != NO_BASE_US]
        holding = [each for each in seen if each.has_rows] or seen
        targets = [target for each in holding if (target := each.target_us(self.started_us)) is not None]
        if not targets:
            return None
        newest_us = max(each.newest_key_us() for each in seen)
        return min(*targets, newest_us) // SPARK_TICK_US


class ClosingRuns:
    """The runs of a listener's queries that close.

    Two threads call in: Spark's listener, when a batch has ended, and a control source, when the next one is planned.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._metrics: dict[object, str] = {}
        """The tap of each control source that has asked, by the source's id."""
        self._asked: dict[object, int] = {}
        """By source the batches that were asked for since one was reported."""

    def started(self, run_id: str, inputs: Mapping[str, ClosingInput], now_us: int) -> None:
        """Take a run that will read all there is; ``inputs`` has its closing streams by tap."""
        with self._lock:
            self._runs[run_id] = _Run(now_us, {metric: _Input(each) for metric, each in inputs.items()})

    def ended(self, run_id: str) -> None:
        """Forget a run."""
        with self._lock:
            self._runs.pop(run_id, None)

    def batch(self, run_id: str, offsets: Sequence[Offset], *, reads: bool) -> None:
        """Take a batch, before its streams are observed.

        Args:
            run_id: the run.
            offsets: how far its control streams were read.
            reads: whether another source was read any further.
        """
        with self._lock:
            run = self._runs.get(run_id)
            if run is None:
                return
            run.reads = reads
            for offset in offsets:
                self._asked.pop(offset["source"], None)
                entry = run.inputs.get(self._metrics.get(offset["source"], ""))
                if entry is not None and offset["source"] not in run.sources:
                    run.sources.add(offset["source"])
                    for base_us in (*offset["partitions"].values(), *_base_in(offset)):
                        entry.add(base_us)

    def observe(self, run_id: str, metric: str, report: Report) -> None:
        """Take a batch of one stream."""
        with self._lock:
            run = self._runs.get(run_id)
            entry = None if run is None else run.inputs.get(metric)
            if entry is not None and report.max_event_time_us is not None:
                entry.has_rows = True
                entry.add(min(report.max_event_time_us, report.started_us))

    def runs_of(self, metric: str) -> list[str]:
        """Return the runs that a source of a tap may belong to."""
        with self._lock:
            return [run_id for run_id, run in self._runs.items() if metric in run.inputs]

    def answer(self, metric: str, start: Offset) -> Offset | None:
        """Return the offset after ``start`` for a source that asks while a batch is planned; None for no news."""
        source = start["source"]
        with self._lock:
            self._metrics[source] = metric
            runs = [run for run in self._runs.values() if metric in run.inputs]
            run = next((run for run in runs if source in run.sources), None)
            if not runs:
                return None
            # The first batch shows whose source it is, and each one whether anything was left to read.
            if run is None or run.reads:
                self._asked[source] = self._asked.get(source, 0) + 1
                if self._asked[source] > _UNREPORTED:
                    return None
                return _asking(start, None if run is None else run.inputs[metric].base_us)
            target_ms = run.target_ms()
            if target_ms is None or target_ms <= max(start["watermark_ms"] or 0, 0):
                return None
            name = run.inputs[metric].given.name
            _log.info("stream %s: all is read, so the watermark moves to %d ms", name, target_ms)
            return {**start, "watermark_ms": target_ms}


def _asking(start: Offset, base_us: int | None) -> Offset:
    """Return an offset that brings a batch, if there is none anyway, and moves nothing."""
    before = start.get(_CLOSING, {})
    newest_us = before.get("base_us") if base_us in {None, NO_BASE_US} else base_us
    return {**start, _CLOSING: {"steps": before.get("steps", 0) + 1, "base_us": newest_us}}


def _base_in(offset: Offset) -> list[int]:
    base_us = offset.get(_CLOSING, {}).get("base_us")
    return [] if base_us is None else [base_us]
