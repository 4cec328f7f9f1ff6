"""Group commit: reports that wait at the same time are stored in one transaction, and acknowledged after it.

A commit costs one write to the disk, however much it holds. One thread takes all waiting reports, in an order that is
the same for all replicas, and commits them together; the longer a commit takes, the more reports the next one holds.
If the transaction fails, each report is tried by itself, so that none is rejected because of another.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from math import exp, inf
from time import perf_counter

from tidemark.controller.base.clock import Clock
from tidemark.controller.base.counters import IntakeCounters
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.errors import TidemarkError
from tidemark.controller.reports.store_reports import NewNeeds, ReportFollower
from tidemark.controller.reports.take_reports import StoredReceipt, take_reports
from tidemark.models.protocol.messages import Report

_log = logging.getLogger(__name__)

_MAX_TOGETHER = 32
"""How many reports are committed together at most, which limits how long the last one waits."""

MAX_WAY_SECONDS = 0.1
"""How long background work gives way to reports at most at one time."""

_MIN_SHARE, _MAX_SHARE = 0.2, 0.5
"""Share of the time that background work gets under a constant load of reports."""

_LATELY_SECONDS = 15.0
"""Over how long the share of background work is measured; as often is a stream decided."""

_STOP_TIMEOUT_SECONDS = 10.0
"""How long a shutdown waits for the waiting reports."""

_Waiting = tuple[Report, "Future[StoredReceipt]", float]
"""A report, the future of its receipt, and since when it waits, by a steady clock in seconds."""


class ReportWriter:
    """Stores reports, one group after another, in a thread of its own.

    Args:
        clock: the wall time in microseconds.
        counters: metrics of the intake.
        evidence: is told of each report in the transaction that stores it.
        committed: is given the needs of committed reports by the ids of their rows.
    """

    def __init__(
        self,
        database: Database,
        clock: Clock,
        counters: IntakeCounters,
        evidence: ReportFollower,
        committed: Callable[[Mapping[int, NewNeeds]], None],
    ) -> None:
        self._database = database
        self._clock = clock
        self._counters = counters
        self._evidence = evidence
        self._committed = committed
        self._queue: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._idle = threading.Event()
        self._idle.set()
        self._paused = self._resumed = -inf
        self._worked = 0.0
        """Seconds of background work lately; what is older counts less."""
        self._thread = threading.Thread(target=self._run, name="tidemark-reports", daemon=True)
        self.groups = 0
        """Groups committed so far."""

    @property
    def waiting(self) -> int:
        """About how many reports wait."""
        return self._queue.qsize()

    def start(self) -> None:
        """Start storing reports."""
        self._thread.start()

    def stop(self) -> None:
        """Store the waiting reports and stop."""
        self._queue.put(None)
        if self._thread.ident is not None:
            self._thread.join(_STOP_TIMEOUT_SECONDS)

    def take(self, report: Report) -> Future[StoredReceipt]:
        """Queue a report; the future has its receipt once it is committed.

        The future raises what ``take_reports`` returns or the database raises.
        """
        future: Future[StoredReceipt] = Future()
        self._idle.clear()
        self._queue.put((report, future, perf_counter()))
        return future

    def give_way(self) -> None:
        """Wait until no report waits or is being stored, but not for long.

        The thread that does background work calls it between two pieces of that work, because both share the store's
        one writer and the interpreter. Under a constant load of reports, background work gets twice the share of the
        time that it took lately, but at least a fifth and at most a half: so a burst of it is spread out, and what is
        needed all the time is done.
        """
        now = perf_counter()
        worked = min(now - self._resumed, MAX_WAY_SECONDS)
        self._worked = self._worked * exp((self._paused - now) / _LATELY_SECONDS) + worked
        share = min(max(2 * self._worked / _LATELY_SECONDS, _MIN_SHARE), _MAX_SHARE)
        self._idle.wait(min((1 / share - 1) * worked, MAX_WAY_SECONDS))
        self._paused, self._resumed = now, perf_counter()

    def _run(self) -> None:
        last = False
        while not last:
            if self._queue.empty():
                self._idle.set()
            waiting, group = self._queue.get(), []
            self._idle.clear()
            while waiting is not None:
                # Whose caller is gone needs no acknowledgement.
                if waiting[1].set_running_or_notify_cancel():
                    group.append(waiting)
                if len(group) == _MAX_TOGETHER or self._queue.empty():
                    break
                waiting = self._queue.get()
            last = waiting is None
            if group:
                # The same order on all replicas, because streams are locked in it.
                self._write(sorted(group, key=_order))
        self._idle.set()

    def _write(self, waiting: list[_Waiting]) -> None:
        try:
            with self._counters.commit_seconds.time():
                taken = self._together([_without_wait(report, since) for report, _, since in waiting])
        except Exception as error:  # noqa: BLE001 - the future raises it
            if len(waiting) == 1:
                waiting[0][1].set_exception(error)
                return
            _log.debug("%d reports could not be stored together; each is tried by itself", len(waiting))
            for alone in waiting:
                self._write([alone])
            return
        self.groups += 1
        for (report, future, since), outcome in zip(waiting, taken, strict=True):
            if isinstance(outcome, TidemarkError):
                future.set_exception(outcome)
                continue
            future.set_result(outcome)
            self._counters.seconds.observe(perf_counter() - since)
            if not outcome.duplicate:
                self._counters.uncounted.labels(report.job, report.stream).inc(report.uncounted_rows)

    def _together(self, reports: list[Report]) -> list[StoredReceipt | TidemarkError]:
        database = self._database
        with database.write() as session:
            taken = take_reports(session, reports, self._clock(), self._evidence, database.limits)
        receipts = [outcome for outcome in taken if isinstance(outcome, StoredReceipt)]
        for receipt in receipts:
            self._committed(receipt.needs)
        if any(receipt.first for receipt in receipts):
            database.answers_changed()
        return taken


def _without_wait(report: Report, since: float) -> Report:
    """Return a report as if it had been sent when it was taken up: what it waited here says nothing of its driver."""
    if report.sent_us is None:
        return report
    return replace(report, sent_us=report.sent_us + round((perf_counter() - since) * 1e6))


def _order(waiting: _Waiting) -> tuple[str, str, str, int]:
    report = waiting[0]
    return report.job, report.stream, report.query_id, report.batch_id
