"""Follows one stream of one run: catches up with its late rows, and completes its ledger, in a thread of its own.

Nothing here stops a query. What fails is logged once for each kind of error and tried again, with the next commit at
the latest; what a driver leaves undone the next one does.
"""

from __future__ import annotations

import logging
import threading
import time

from tidemark.models.protocol.late_policy import DROPPED, LateRows, LateTreatment
from tidemark.spark_jobs.core.client import LedgerGaps, RequestRejected
from tidemark.spark_jobs.late.catch_up import CatchUp, Step
from tidemark.spark_jobs.late.missing_reports import Ledger, MissingReports

_log = logging.getLogger("tidemark.spark")

_RETRY_S = 10.0
_REST, _MAX_REST_S = 4.0, 60.0
"""How many times as long as a step took its follower rests, and for how long at most. A step costs the driver half a
second of CPU time, however few rows it reads, so that batches of a second are better read several at once."""
_LOOK_EVERY_S = 60.0
"""How often the source is asked what it still has, at most, while batches wait."""
RETAINED = "spark.sql.streaming.minBatchesToRetain"
"""Of how many batches Spark keeps the offset log."""


_CHOICES: tuple[LateRows, ...] = ("drop", "side")


class Follower:
    """Catches up with one stream of one run, in a thread of its own, until the run has ended.

    Args:
        stream: name of the stream, for the log.
        catch_up: what catches up.
        retained: batches of which Spark keeps the offset log.
        switch: says whether late rows are kept.
        ledger: gets what was counted by dimension; None where it stays in the folder.
        missing: completes the ledger; None where nothing does.
    """

    def __init__(
        self,
        stream: str,
        catch_up: CatchUp,
        retained: int,
        *,
        switch: LateSwitch,
        ledger: Ledger | None = None,
        missing: MissingReports | None = None,
    ) -> None:
        self._stream = stream
        self._catch_up = catch_up
        self._retained = retained
        self._ledger = ledger
        self._missing = missing
        self._switch = switch
        self._stored: bool | None = None
        """Whether late rows are kept; None until that is settled."""
        self._rejected: set[int] = set()
        self._woken = threading.Event()
        self._ending = threading.Event()
        self._errors: set[str] = set()
        self._warned = self._warned_of_source = False
        self._looked = time.monotonic()
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
                self._settle()
                while self._stored and (step := self._catch_up.step()) is not None:
                    self._tell(step)
                    self._deliver()
                    if step.waiting * 4 < self._retained:
                        self._rest(began)
                    began = time.monotonic()
                    self._settle()
            except Exception as error:  # noqa: BLE001 - the query goes on, and the next try does the same again
                if self._catch_up.session_has_ended():
                    return  # the next driver goes on
                failed = True
                self._explain("its late rows cannot be kept, which is tried again", error)
                self._look()
            failed = not self._deliver() or failed
            if self._complete(ending=ending):
                continue
            if ending:
                return
            self._woken.wait(_RETRY_S if failed else None)
            self._woken.clear()

    def _settle(self) -> None:
        """Settle whether late rows are kept now; a change is written to the folder first."""
        answer = None
        if self._missing is not None:
            try:
                self._missing.ask_policy()
            except Exception as error:  # noqa: BLE001 - the query goes on, and the controller is asked again
                if not self._catch_up.session_has_ended():
                    self._explain("what the policy says of its late rows is not known", error)
            answer = self._missing.answer
        before = self._stored
        if before is None and self._missing is not None:
            before = self._catch_up.stored_before()
        stored = self._switch.stores(answer, before)
        if stored != self._stored:
            first = self._catch_up.switch(kept=stored)
            if first is not None:
                _log.warning(
                    "stream %s: late rows are only counted from batch %d on, and not kept",
                    self._stream,
                    first,
                )
            elif self._stored is not None:
                _log.warning("stream %s: late rows are kept again", self._stream)
            self._stored = stored
            self._switch.settle(stored=stored)

    def _rest(self, began: float) -> None:
        self._ending.wait(min(_REST * (time.monotonic() - began), _MAX_REST_S))

    def _complete(self, *, ending: bool) -> bool:
        """Report a batch that the ledger lacks; return whether there may be more."""
        began = time.monotonic()
        try:
            more = self._missing is not None and self._missing.step(ending=ending)
        except Exception as error:  # noqa: BLE001 - the query goes on, and the controller is asked again
            if not self._catch_up.session_has_ended():
                self._explain("batches that were not reported are not reported now either", error)
            return False
        if more:
            self._rest(began)
        return more

    def _deliver(self) -> bool:
        """Send what was counted by dimension; return whether nothing is left to be tried again."""
        if self._ledger is None:
            return True
        try:
            for first, counts in self._catch_up.unsent_counts():
                if first in self._rejected:
                    continue
                try:
                    self._ledger.count(counts)
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
        for gap in step.not_kept:
            _log.warning(
                "stream %s: the late rows of batches %d to %d were not kept: %s",
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
                RETAINED,
            )
        self._warned = step.waiting * 2 > self._retained
        if step.waiting:
            self._look()

    def _look(self) -> None:
        """Warn, once, when the source may soon delete what is due."""
        if time.monotonic() - self._looked < _LOOK_EVERY_S:
            return
        self._looked = time.monotonic()
        try:
            expiring = self._catch_up.expiring()
        except Exception as error:  # noqa: BLE001 - it is only a warning that is missed
            self._explain("what its source still has is not known", error)
            return
        if expiring is not None and not self._warned_of_source:
            _log.warning("stream %s: soon some late rows will be unknown: %s", self._stream, expiring)
        self._warned_of_source = expiring is not None

    def _explain(self, what: str, error: Exception) -> None:
        kind = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        if kind not in self._errors:
            self._errors.add(kind)
            _log.error("stream %s: %s: %s", self._stream, what, kind, exc_info=error)


class LateSwitch:
    """What becomes of a stream's late rows, which its follower settles and its listener acknowledges."""

    def __init__(self, *, by_call: bool) -> None:
        self._by_call = by_call
        self.treatment = LateTreatment(in_force=None, choices=_CHOICES)
        """What is acknowledged; read by another thread than the follower's."""

    def stores(self, answer: LedgerGaps | None, before: bool | None) -> bool:
        """Return whether late rows are kept.

        Args:
            answer: the controller's newest answer; None before its first one.
            before: whether they were kept when it was last settled; None where it never was.
        """
        if answer is None and before is not None:
            # An outage changes nothing.
            return before
        policy = None if answer is None else answer.late
        return self._by_call if policy is None else policy == "side"

    def settle(self, *, stored: bool) -> None:
        """Acknowledge from now on that late rows are kept, or that they are only counted."""
        self.treatment = LateTreatment(in_force="side" if stored else "drop", choices=_CHOICES)

    def cannot_keep(self) -> None:
        """Acknowledge that they cannot be kept."""
        self.treatment = DROPPED
