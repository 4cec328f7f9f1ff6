"""The sender: a bounded queue and one daemon thread between the listener and the controller.

It never blocks the query and never makes it fail. A report waits here through every failure of the controller. When the
queue is full the oldest one is dropped, since the newest evidence is worth more; what is dropped is counted by reason,
and the gap in batch ids shows the controller exactly which ones are missing.
"""

from __future__ import annotations

import atexit
import logging
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_random_exponential
from tenacity.nap import sleep_using_event
from tenacity.stop import stop_any, stop_base, stop_when_event_set

from tidemark.models.base.text import plural
from tidemark.models.protocol.messages import Acknowledgement, Report
from tidemark.spark_jobs.core.client import (
    ControllerBroken,
    ControllerClient,
    ControllerUnavailable,
    RequestRejected,
)

DEFAULT_QUEUE = 1_000
"""Reports kept while the controller is away: 2.8 hours of 10-second batches, some 10 MB at 64 partitions."""

_FIRST_WAIT_S = 0.2
_LONGEST_WAIT_S = 10.0
_REPEAT_S = 60.0
_log = logging.getLogger("tidemark.spark")


_TRIES_WHEN_BROKEN = 6
"""Tries of a request that the controller itself fails on, before those behind it have their turn."""

DropReason = Literal["queue full", "rejected", "not sent", "driver ended"]
"""Why a report was dropped: *not sent* is an error of the driver itself."""


class _StopWhenBroken(stop_base):
    def __call__(self, retry_state: RetryCallState) -> bool:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        return isinstance(error, ControllerBroken) and retry_state.attempt_number >= _TRIES_WHEN_BROKEN


@dataclass(frozen=True, slots=True)
class _Item:
    what: str
    send: Callable[[], None]
    is_report: bool


class Sender:
    """Sends reports and acknowledgements in order, as soon as the controller takes them.

    Args:
        client: where to send them.
        queue: how many may wait.
        longest_wait_s: longest pause between two tries, in seconds.
    """

    def __init__(
        self, client: ControllerClient, queue: int = DEFAULT_QUEUE, longest_wait_s: float = _LONGEST_WAIT_S
    ) -> None:
        if queue < 1:
            raise ValueError(f"the queue must hold at least 1 report, not {queue}")
        self._client = client
        self._limit = queue
        self._longest_wait_s = longest_wait_s
        self._items: deque[_Item] = deque()
        self._changed = threading.Condition()
        self._in_flight = False
        self._stop = threading.Event()
        self._drops: Counter[DropReason] = Counter()
        self._follow: dict[tuple[str, str], Callable[[Report], object]] = {}
        self._failed = 0
        """Tries that failed since one succeeded."""
        self._said: dict[tuple[int, type], tuple[float, int]] = {}
        """By kind when it was logged last, and how often it came since."""
        self._thread = threading.Thread(target=self._run, name="tidemark-sender", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def dropped(self) -> int:
        """Reports that were dropped, for whatever reason."""
        return self._drops.total()

    @property
    def drops(self) -> Mapping[DropReason, int]:
        """Reports that were dropped, by reason; reasons without any are left out."""
        return dict(self._drops)

    @property
    def is_failing(self) -> bool:
        """Whether what was tried last has failed: the controller is away, or does not want it now."""
        return self._failed > 0

    def after_reports(self, job: str, stream: str, follow: Callable[[Report], object]) -> None:
        """Call ``follow`` with each report of a stream that has gone out. The next one waits until it returns."""
        self._follow[job, stream] = follow

    def report(self, report: Report) -> None:
        """Queue a report. Never blocks."""
        what = f"report of batch {report.batch_id} of {report.job}/{report.stream}"
        self._put(_Item(what, lambda: self._send(report), True))

    def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> None:
        """Queue an acknowledgement. Never blocks."""
        what = f"acknowledgement of {job}/{stream}"
        self._put(_Item(what, lambda: self._client.acknowledge(job, stream, acknowledgement), False))

    def flush(self, timeout_s: float) -> bool:
        """Wait until everything queued has been sent, rejected or dropped; return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._items, timeout_s)

    def close(self, timeout_s: float = 5.0) -> None:
        """Send what can be sent within ``timeout_s`` seconds, log how many reports are dropped, and end the thread."""
        if self._stop.is_set():
            return
        atexit.unregister(self.close)
        flushed = self.flush(timeout_s)
        self._stop.set()
        with self._changed:
            if not flushed:
                lost = sum(item.is_report for item in self._items)
                self._drops["driver ended"] += lost
                _log.warning("the driver ends with %d reports not sent to %s", lost, self._client.url)
            self._items.clear()
            self._changed.notify_all()
        self._thread.join(timeout_s)
        self._client.close()

    # -- inside -------------------------------------------------------------------------------------------------

    def _send(self, report: Report) -> None:
        self._client.report(report)
        with suppress(Exception):  # the report has gone out, whatever follows from that
            if (follow := self._follow.get((report.job, report.stream))) is not None:
                follow(report)

    def _put(self, item: _Item) -> None:
        with self._changed:
            if self._stop.is_set():
                self._drop(item, "driver ended")
                return
            if len(self._items) >= self._limit:
                self._drop_oldest()
            self._items.append(item)
            self._changed.notify_all()

    def _drop_oldest(self) -> None:
        # The one in flight may already have arrived, so it is never counted as dropped.
        waiting = range(int(self._in_flight), len(self._items))
        reports = (position for position in waiting if self._items[position].is_report)
        position = next(reports, waiting.start if waiting else None)
        if position is not None:
            _log.debug("dropped: %s", self._items[position].what)
            self._drop(self._items[position], "queue full")
            del self._items[position]

    def _drop(self, item: _Item, reason: DropReason) -> None:
        if item.is_report:
            self._drops[reason] += 1

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._stop.is_set())
                if self._stop.is_set():
                    return
                item, self._in_flight = self._items[0], True
            settled = self._deliver(item)
            with self._changed:
                self._in_flight = False
                if self._items and self._items[0] is item:
                    self._items.popleft()
                    if not settled:
                        self._items.append(item)
                self._changed.notify_all()

    def _deliver(self, item: _Item) -> bool:
        """Send an item; return whether that is settled, rather than to be tried again after the others."""
        retrying = Retrying(
            retry=retry_if_exception_type(ControllerUnavailable),
            wait=wait_random_exponential(_FIRST_WAIT_S, self._longest_wait_s),
            stop=stop_any(stop_when_event_set(self._stop), _StopWhenBroken()),
            sleep=sleep_using_event(self._stop),
            before_sleep=self._note_failed,
            reraise=True,
        )
        try:
            retrying(item.send)
        except ControllerBroken as error:
            self._say(logging.ERROR, f"{item.what} waits behind the others", error)
            return False
        except RequestRejected as error:
            self._drop(item, "rejected")
            self._say(logging.ERROR, f"{item.what} was rejected", error)
        except ControllerUnavailable:
            return True  # the sender closes, and close() has counted it
        except Exception as error:  # noqa: BLE001 - no error may end the thread
            self._drop(item, "not sent")
            self._say(logging.ERROR, f"{item.what} could not be sent", error)
        if self._failed:
            failed, self._failed = plural(self._failed, "try", "tries"), 0
            drops = ", ".join(f"{reason}: {number}" for reason, number in self._drops.items()) or "none"
            text = "%s answers again after %s that failed; reports dropped so far: %s"
            _log.warning(text, self._client.url, failed, drops)
        return True

    def _note_failed(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        if not self._failed:
            self._say(logging.WARNING, f"reports wait in the driver, up to {self._limit} of them", error)
        self._failed += 1

    def _say(self, level: int, text: str, error: BaseException | None) -> None:
        """Log what became of something: once a minute for each kind of error, with how often it came meanwhile."""
        kind, now_s = (level, type(error)), time.monotonic()
        since_s, unsaid = self._said.get(kind, (-math.inf, 0))
        if now_s - since_s < _REPEAT_S:
            self._said[kind] = since_s, unsaid + 1
            return
        self._said[kind] = now_s, 0
        _log.log(level, "%s: %s%s", text, error, f" (and {plural(unsaid, 'line')} like it)" if unsaid else "")
