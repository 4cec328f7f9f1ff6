"""Reports that were lost, made anew: batches that the controller lacks are read again and counted as the tap counts.

A driver that is killed between commit and report, or whose queue is full, leaves a gap in the ledger. What a report
says is in the checkpoint, in the source and in the folder with the late rows, until Spark and the source forget it.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import SparkSession

from tidemark.models.base.granules import SPARK_TICK_US, Granules
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import REPORT_SCHEMA, Report
from tidemark.spark_jobs.core.binding import Binding
from tidemark.spark_jobs.core.client import ControllerClient, LedgerGaps, RequestRejected
from tidemark.spark_jobs.core.sender import Sender
from tidemark.spark_jobs.core.tap import TapCounts
from tidemark.spark_jobs.late.late_rows import DueBatch, FutureRowTreatment, due_batches
from tidemark.spark_jobs.late.reread import LateStream, reader_of
from tidemark.spark_jobs.late.side_folder import ReportedRun, SideFolder
from tidemark.spark_jobs.spark.checkpoint import Checkpoint, HadoopFiles, LogEntry

_log = logging.getLogger("tidemark.spark")

_EVERY_S = 60.0
"""How often the controller is asked, at most."""
_RETRY_S = 10.0
"""How long it is not asked for the policy after it was, or did not answer."""
_SENT_S = 5.0
"""How long the reports of a run that has ended may take to be sent."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """The controller's ledger of one stream. Methods that ask it raise as ``ControllerClient.bound``."""

    client: ControllerClient
    sender: Sender
    job: str
    stream: str

    def count(self, counts: str) -> None:
        """Send what was counted by dimension, as JSON."""
        self.client.late_rows(self.job, self.stream, counts)

    def has_all(self, timeout_s: float) -> bool:
        """Wait until no report of the driver is on its way any more; return whether that is so."""
        return self.sender.flush(timeout_s)

    def missing(self, query_id: str, from_batch: int) -> LedgerGaps:
        """Return which batches of a query lack a report, and what the policy says of late rows."""
        return self.client.missing_batches(self.job, self.stream, query_id, from_batch)

    def report(self, report: Report) -> None:
        """Send a report."""
        self.client.report(report)


class MissingReports:
    """Makes the reports of one stream of one query that its ledger lacks.

    Args:
        spark: the session to read with.
        checkpoint: where the query's checkpoint is.
        folder: where its late rows are kept.
        late: how its rows are read again.
        binding: what its reports say, and its tap.
        monotonic: returns a time in seconds that only grows.
    """

    def __init__(
        self,
        spark: SparkSession,
        checkpoint: str,
        folder: str,
        late: LateStream,
        *,
        binding: Binding,
        granules: Granules,
        ledger: Ledger,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._checkpoint = Checkpoint(HadoopFiles(spark, checkpoint))
        self._files = HadoopFiles(spark, folder)
        self._late = late
        self._binding = binding
        self._granules = granules
        self._ledger = ledger
        self._monotonic = monotonic
        self._next_s = self._policy_next_s = monotonic()
        self.answer: LedgerGaps | None = None
        """What the controller last answered; None before its first answer in this run."""
        self._asked_at_end = False
        self._waiting: deque[int] = deque()
        self._unknown: set[int] = set()

    def ask_policy(self) -> None:
        """Ask the controller what it says of late rows, unless that was done within the last minute.

        Raises as ``step`` does.
        """
        if self._monotonic() >= self._policy_next_s:
            self._policy_next_s = self._monotonic() + _RETRY_S
            self._request(all_sent=self._ledger.has_all(0))

    def step(self, *, ending: bool) -> bool:
        """Report one batch that is missing; return whether there may be more.

        The controller is asked once a minute and, as the run ends, once more.

        Raises:
            ControllerUnavailable: when it does not answer.
            RequestRejected: when it does not say what is missing.
            CheckpointError: as ``CatchUp.step`` does.
            LogFormatError: as ``CatchUp.step`` does.
        """
        if not self._waiting:
            self._ask(ending=ending)
        if self._waiting:
            # What fails is asked for again.
            number = self._waiting.popleft()
            why = self._report(number)
            if why is not None:
                self._unknown.add(number)
                _log.warning(
                    "stream %s: batch %d was never reported, and stays unknown: %s",
                    self._binding.settings.stream,
                    number,
                    why,
                )
        return bool(self._waiting) or (ending and not self._asked_at_end)

    def _ask(self, *, ending: bool) -> None:
        if self._asked_at_end or not (ending or self._monotonic() >= self._next_s):
            return
        self._asked_at_end = ending
        if self._ledger.has_all(_SENT_S if ending else 0):
            self._request(all_sent=True)

    def _request(self, *, all_sent: bool) -> None:
        """Ask what is missing, and with it what the policy says.

        Args:
            all_sent: whether no report is on its way any more: one that is would be taken for missing.
        """
        log, committed = self._checkpoint.offset_log(), self._checkpoint.committed()
        # A batch begins where the one before ends.
        there = {0, *(number + 1 for number in log)}
        readable = sorted(number for number in log if number in there and number <= committed)
        gaps = self.answer = self._ledger.missing(self._checkpoint.query_id(), min(readable, default=0))
        self._policy_next_s = self._monotonic() + _EVERY_S
        if self._waiting or not all_sent:
            return
        self._next_s = self._policy_next_s
        self._waiting.extend(
            number
            for number in readable
            if number not in self._unknown and any(first <= number <= last for first, last in gaps.ranges)
        )

    def _report(self, number: int) -> str | None:
        """Report a batch; return why that can never be, None when it is done."""
        log = self._checkpoint.offset_log()
        source = self._checkpoint.source(log, self._late.source)
        entry = log.get(number)
        batches = due_batches(log, number, number - 1, source or "", at_most=1).batches
        if source is None or entry is None or not batches:
            return "Spark has purged its entry of the offset log"
        folder = SideFolder(self._files, self._checkpoint.query_id(), source)
        run = folder.run_of(number)
        if run is None:
            return "its run kept no late rows, or had no controller"
        counts = self._counts(source, batches[0], folder.future_rows()(number))
        if isinstance(counts, str):
            return counts
        try:
            self._ledger.report(self._made(run, batches[0], entry, counts))
        except RequestRejected as error:
            return str(error)
        return None

    def _counts(self, source: str, batch: DueBatch, future: FutureRowTreatment | None) -> TapCounts | str:
        """Return what the tap saw in a batch, or why that is no longer known."""
        if not batch.has_rows:
            return TapCounts(0, 0, None, None, GranuleCounts.of(()))
        tap = self._binding.tap
        if future is not None:
            if (future.granule_us, future.closed) != (tap.granule_us, tap.cut):
                return "its rows were counted by another granule"
            tap = future.rule.counted_by(tap)
        with reader_of(self._spark, self._late.origin, self._checkpoint.files, source, self._files) as reader:
            try:
                rows = self._late.parse(reader.read(batch))
                observed = tap.count(rows if future is None else future.rule.mark(rows))
            except Exception:
                lost = reader.lost([batch])
                if not lost:
                    raise
                return lost[batch.batch_id]
        clock_us = None if tap.allowance_us is None else batch.clock_ms * SPARK_TICK_US
        return tap.decode(observed, self._granules, clock_us)

    def _made(self, run: ReportedRun, batch: DueBatch, entry: LogEntry, counts: TapCounts) -> Report:
        committed_ms = self._checkpoint.committed_ms(batch.batch_id) or batch.clock_ms
        return Report(
            schema_version=REPORT_SCHEMA,
            job=self._binding.settings.job,
            stream=self._binding.settings.stream,
            query_id=self._checkpoint.query_id(),
            run_id=run.run_id,
            batch_id=batch.batch_id,
            started_us=batch.clock_ms * SPARK_TICK_US,
            duration_ms=max(committed_ms - batch.clock_ms, 0),
            operator=self._late.rule.operator,
            output_mode=run.output_mode,
            bound_ms=run.bound.bound_ms,
            generation=run.bound.generation,
            late_watermark_ms=batch.late_watermark_ms,
            watermark_ms=entry.watermark_ms,
            # The controller has it from the batches before.
            late_base_ms=None,
            granule_us=self._granules.granule_us,
            closed=self._granules.closed,
            rows=counts.rows,
            null_rows=counts.null_rows,
            min_event_time_us=counts.min_event_time_us,
            max_event_time_us=counts.max_event_time_us,
            counts=counts.by_granule,
            state_rows=0,
            state_bytes=0,
            dropped_by_spark=0,
            dropped_reports=self._binding.sink.dropped,
            append_delay=counts.append_delay,
            reread=True,
        )
