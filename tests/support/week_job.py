"""A driver of the simulated week: it batches by Spark's rules, reports through the real sender, and keeps the truth."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import numpy as np

from tidemark.models.base.granules import default_granule_us
from tidemark.models.protocol.messages import Acknowledgement, BoundAnswer, BoundSource, LiveState, Report
from tidemark.spark_jobs.core.client import ControllerClient, ControllerUnavailable
from tidemark.spark_jobs.core.sender import Sender

from support.patience import PATIENCE_S, until
from support.streams import report_of
from support.week_streams import WeekStream

__all__ = ["Batch", "Run", "WeekJob"]

T = TypeVar("T")
_LIVE_ROWS, _LIVE_SHARE = 500, 0.995
"""In Live: of how many of the newest rows which share is waited for."""


@dataclass(slots=True)
class Batch:
    """What became of a batch: the truth."""

    number: int
    seen_us: int
    """When it was triggered: the controller takes off how far the driver's clock is wrong."""
    first: int
    last: int
    """Its rows are those from the first one to before the last one, in order of arrival."""
    late_ms: int
    """W(n-1), by which its rows are late."""
    mark_ms: int
    """W(n)."""
    reported: bool = True
    """Whether its report is not lost."""


def _until_answered(ask: Callable[[], T]) -> T:
    """Ask until there is an answer: a connection may end at any time, and drivers ask again."""

    def answers() -> list[T]:
        with suppress(ControllerUnavailable):
            return [ask()]
        return []

    return until(answers, "an answer of the controller")[0]


class Run(NamedTuple):
    """A run of a job, and what it had in its plan."""

    since_us: int
    generation: int | None
    """Generation of the bound; None: the job's own."""
    bound_ms: int


class _DriverClient(ControllerClient):
    """A client of a driver whose clock the simulation moves."""

    now_us = 0
    """What that clock shows, in microseconds."""

    def report(self, report: Report) -> None:
        """Send a report with the driver's own time in it."""
        self._send("POST", report.job, report.stream, "reports", body=replace(report, sent_us=self.now_us))


class WeekJob:
    """One job with one stream.

    Args:
        made: the stream.
        url: where the controller is.
    """

    def __init__(self, made: WeekStream, url: str) -> None:
        self.made = made
        self.path = f"/v1/jobs/{made.name}/streams/rows"
        self.batches: list[Batch] = []
        self.bound_ms = made.own_ms
        self.generation: int | None = None
        self.clock_ahead_us = 0
        self._url = url
        self._granule_us = default_granule_us(made.operator)
        self._base_us: int | None = None
        self._late_base_us: int | None = None
        self._control_ms: list[int] = []
        self._contact_us: int | None = None
        self._unsent: list[tuple[Report, Batch]] = []
        self._lost: list[tuple[Report, Batch]] = []
        self.runs: list[Run] = []
        """Its runs."""
        self.found_missing: list[bool] = []
        """For each time that it asked which reports are missing, whether these were the ones that were lost."""
        self._connect()

    @property
    def live(self) -> bool:
        """Whether it is steered live."""
        return self.made.mode == "Live"

    def _connect(self) -> None:
        self.client = _DriverClient(self._url, timeout_s=PATIENCE_S)
        self.sender = Sender(self.client, longest_wait_s=0.5)

    # -- what a driver does --------------------------------------------------------------------------------------

    def batch(self, now_us: int) -> None:
        """Read what has arrived and report it; without rows only where the watermark moves, as Spark does."""
        started_us = self.client.now_us = now_us + self.clock_ahead_us
        before = self.batches[-1] if self.batches else None
        late_ms = before.mark_ms if before else 0
        arrivals_us = self.made.trace.arrival_time_us
        first = before.last if before else 0
        last = int(np.searchsorted(arrivals_us, now_us, "right"))
        mark_ms = max(late_ms, self._watermark_ms())
        if before and first == last and mark_ms == late_ms:
            return
        number = before.number + 1 if before else 0
        batch = Batch(number, now_us, first, last, late_ms, mark_ms)
        times_us = self.made.trace.event_time_us[first:last].tolist()
        partitions = self.made.trace.partition[first:last].tolist()
        report = report_of(
            zip(map(str, partitions), times_us, strict=True),
            self.made.operator,
            granule_us=self._granule_us,
            late_watermark_ms=late_ms,
            job=self.made.name,
            stream="rows",
            query_id=self._query_id,
            run_id=self._run_id,
            batch_id=number,
            started_us=started_us,
            duration_ms=20_000,
            watermark_ms=mark_ms,
            late_base_ms=None if self._late_base_us is None else self._late_base_us // 1_000,
            bound_ms=self.bound_ms,
            generation=self.generation,
            state_rows=last - first,
            state_bytes=100 * (last - first),
            live=self._live_state() if self.live else None,
        )
        self.batches.append(batch)
        self._unsent.append((report, batch))
        self.sender.report(report)
        self._late_base_us = self._base_us
        if times_us:
            self._base_us = max(times_us) if self._base_us is None else max(self._base_us, *times_us)
            self._control_ms.append(self._wanted_ms(last))

    def flushed(self) -> bool:
        """Wait until all reports are sent."""
        done = self.sender.flush(PATIENCE_S)
        if done:
            self._unsent.clear()
        return done

    def asked(self) -> BoundAnswer:
        """Return what the controller publishes to it."""
        return _until_answered(lambda: self.client.bound(self.made.name, "rows"))

    def follow(self, now_us: int) -> None:
        """Ask for the bound, and in Restart start again for another one."""
        answer = self.asked()
        self._contact_us = now_us
        if answer.mode == "Restart" and answer.bound_ms not in {None, self.bound_ms}:
            self.start(now_us, answer)

    def start(self, now_us: int, answer: BoundAnswer | None) -> None:
        """Start a run with an answer; None: with the last good one, which is on disk."""
        self._base_us = self._late_base_us = None
        self._control_ms = []
        source: BoundSource = "disk"
        if answer is not None:
            given = not self.live and answer.bound_ms is not None and answer.mode != "Off"
            self.bound_ms = self.made.own_ms if not given or answer.bound_ms is None else answer.bound_ms
            self.generation = answer.generation if given or self.live else None
            source = "controller" if given else "job"
        self.runs.append(Run(now_us, self.generation, self.bound_ms))
        self.sender.acknowledge(
            self.made.name,
            "rows",
            Acknowledgement(
                query_id=self._query_id,
                run_id=self._run_id,
                bound_ms=self.bound_ms,
                generation=self.generation,
                source=source,
                mode=self.made.mode,
                applied_us=now_us,
                ceiling_ms=self.made.own_ms if self.live else None,
            ),
        )

    def kill(self) -> None:
        """End the driver at once: reports that were not sent are lost."""
        self.end()
        # As the process would: what it was just sending must not arrive once the fault is over.
        self.sender._thread.join(PATIENCE_S)
        for _, batch in self._unsent:
            batch.reported = False
        self._lost += self._unsent
        self._unsent = []
        self._connect()

    def end(self) -> None:
        """End the driver."""
        self.sender.close(0.1)

    def report_again(self) -> None:
        """Read lost batches again, once a later one shows that they are missing, if it is a job that does so."""
        if self.made.seed % 2 or not self._lost or self.batches[-1].number == self._lost[-1][1].number:
            return
        found = _until_answered(
            lambda: self.client.missing_batches(self.made.name, "rows", self._query_id, 0)
        )
        missing = [number for first, last in found.ranges for number in range(first, last + 1)]
        self.found_missing.append(missing == [batch.number for _, batch in self._lost])
        for report, batch in self._lost:
            self.sender.report(replace(report, reread=True, state_rows=0, state_bytes=0, live=None))
            batch.reported = True
        self._lost = []
        assert self.flushed()

    # -- inside --------------------------------------------------------------------------------------------------

    @property
    def _query_id(self) -> str:
        return f"query of {self.made.name}"

    @property
    def _run_id(self) -> str:
        return f"run {len(self.runs)}"

    def _watermark_ms(self) -> int:
        if self._base_us is None:
            return 0
        behind_ms = self._base_us // 1_000 - self.bound_ms
        # What is wanted after a batch is in force two batches later.
        return max(behind_ms, self._control_ms[-2] if self.live and len(self._control_ms) > 1 else 0, 0)

    def _wanted_ms(self, last: int) -> int:
        """Return the watermark that Live wants after a batch: behind the newest rows, but for the slowest of them."""
        newest_us = self.made.trace.event_time_us[max(last - _LIVE_ROWS, 0) : last]
        assert self._base_us is not None
        return int(np.quantile(newest_us, 1 - _LIVE_SHARE)) // 1_000

    def _live_state(self) -> LiveState:
        return LiveState(
            ceiling_ms=self.made.own_ms,
            control_ms=self._control_ms[-1] if self._control_ms else None,
            reason="behind the newest rows, but for the slowest of them",
            last_contact_us=self._contact_us,
        )
