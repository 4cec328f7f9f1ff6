"""The listener: turns each finished batch into one report and passes it on, without blocking the query.

Spark calls a listener after the batch has been committed, on a thread of its own; an exception there is logged by
Spark and stops nothing. Everything here takes microseconds to milliseconds: sending happens elsewhere.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryProgress,
)

from tidemark.models.evidence.ledger import BaseTracker
from tidemark.models.protocol.late_policy import DROPPED
from tidemark.models.protocol.messages import MAX_TEXT, REPORT_SCHEMA, Acknowledgement, Report
from tidemark.spark_jobs.core.binding import Batch, Binding, QueryRun
from tidemark.spark_jobs.core.counting import counted_in
from tidemark.spark_jobs.core.driver_metrics import DriverMetrics
from tidemark.spark_jobs.core.judging import judge, log_judging, warn_of_other_queries
from tidemark.spark_jobs.core.tap import NO_ROWS, Tap, TapCounts
from tidemark.spark_jobs.spark.progress import JsonListener, micros_of, watermark_ms_of
from tidemark.spark_jobs.spark.query_plan import QueryPlan
from tidemark.spark_jobs.spark.running_query import RunningQuery

_log = logging.getLogger("tidemark.spark")


@dataclass(slots=True, kw_only=True)
class _Run(QueryRun):
    """A run, and how far it is reported."""

    met: bool = False
    """Whether its plan was read, or could not be with its first batch either."""
    reported: threading.Event = field(default_factory=threading.Event)
    """Set when the run has ended and all its batches are reported."""
    last_batch: int = -1
    """The last batch that was reported."""
    bases: dict[str, BaseTracker] = field(default_factory=dict)
    acknowledged: dict[str, Acknowledgement] = field(default_factory=dict)
    """By tap what was acknowledged last, but for the time."""


class TidemarkListener(JsonListener):
    """Reports every batch of every query that a bound tap feeds."""

    def __init__(
        self, spark: SparkSession, clock_us: Callable[[], int] = lambda: time.time_ns() // 1_000
    ) -> None:
        self._spark = spark
        self.clock_us = clock_us
        """Returns the wall time in microseconds."""
        self._bindings: dict[str, Binding] = {}
        self._runs: dict[str, _Run] = {}
        self._reporting = threading.RLock()
        self.metrics = DriverMetrics()
        """What Spark's metrics show of the queries that are watched."""

    def bind(self, metric: str, binding: Binding) -> None:
        """Let the observed metric of name ``metric`` stand for ``binding``."""
        self._bindings[metric] = binding

    def bindings_in(self, plan: QueryPlan) -> list[Binding]:
        """Return what stands behind the taps of a plan."""
        return [self._bindings[metric] for metric in plan.operators if metric in self._bindings]

    def run_of(self, query_id: str) -> QueryRun | None:
        """Return the newest run of a query; None of one that it has not met."""
        runs = [run for run in list(self._runs.values()) if run.query.query_id == query_id]
        return runs[-1] if runs else None

    def wait_for_ended_runs(self, timeout_s: float) -> bool:
        """Wait until every batch of the runs that have ended is reported; return whether that is so.

        Spark delivers progress asynchronously, so right after ``awaitTermination`` the last batches may be missing.
        """
        deadline = time.monotonic() + timeout_s
        if not self._runs:
            return True
        try:
            active = {str(query.runId) for query in self._spark.streams.active}
        except Exception:  # noqa: BLE001 - the session has ended, and nothing more will be reported
            self._runs.clear()
            return False
        ended = [run for run_id, run in list(self._runs.items()) if run_id not in active]
        return all(run.reported.wait(max(deadline - time.monotonic(), 0)) for run in ended)

    def catch_up(self, run_id: str) -> None:
        """Report the batches of a run that have ended, also those of which Spark has not notified this listener yet."""
        with self._reporting:
            run = self._runs.get(run_id)
            # None may be left out: a batch before the last one that was reported is taken for a repetition.
            if run is not None:
                for progress in run.query.newer_progress(run.last_batch):
                    self._report_batch(run, progress)

    # -- Spark's callbacks ------------------------------------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Get a handle on the query while it is surely active. Synchronous with ``start()``: must be quick."""
        run = self._runs[str(event.runId)] = self._run_of(str(event.runId), str(event.id))
        self._meet(run, begins=True)

    def wants(self, run_id: str, batch_id: int) -> bool:
        """Return whether a batch is yet to be reported: in Live most are before Spark notifies this listener."""
        run = self._runs.get(run_id)
        return run is None or batch_id > run.last_batch

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - Spark's name
        """Report the batch for each tap in it, unless that was done before."""
        progress = event.progress
        run_id = str(progress.runId)
        with self._reporting:
            if run_id not in self._runs:  # its start was missed
                self._runs[run_id] = self._run_of(run_id, str(progress.id))
            self._report_batch(self._runs[run_id], progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Ignore: an idle trigger runs no batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Note that all batches of the run are reported."""
        run = self._runs.get(str(event.runId))
        if run is None:
            return
        try:
            for extension in run.extensions:
                extension.ended(run, event.exception or "")
        finally:
            run.reported.set()
            # Removed as well: a run holds on to Spark's own object, and a driver may start one every minute.
            self._runs.pop(run.run_id, None)
            self.metrics.ended(run.run_id)

    # -- inside -------------------------------------------------------------------------------------------------

    def _run_of(self, run_id: str, query_id: str) -> _Run:
        return _Run(run_id=run_id, query=self._query_of(query_id))

    def _query_of(self, query_id: str) -> RunningQuery:
        return RunningQuery(self._spark, query_id)

    def _meet(self, run: _Run, *, begins: bool) -> None:
        """Read the plan of a run: as it begins, or with a batch of one whose beginning was missed or failed."""
        query = run.query
        run.plan = plan = query.plan()
        if plan is None:
            what = "query %s: its plan cannot be read; its streams are recognised by the rows of a batch"
            _log.log(query.unread_level, what, query.query_id)
            return
        run.bindings = {
            metric: self._bindings[metric] for metric in plan.operators if metric in self._bindings
        }
        run.is_met_at_start = begins
        if begins:
            # It reads a batch that failed anew.
            for binding in run.bindings.values():
                if binding.stage_counts is not None:
                    binding.stage_counts.forget(query.query_id)
        rejected = judge(run, {metric: plan.operators[metric] for metric in run.bindings})
        for extension in run.extensions:
            rejected += extension.rejects(run)
        # An earlier run of this query may not be reported as ended yet.
        others = [other for other in list(self._runs.values()) if other.query.query_id != query.query_id]
        warn_of_other_queries(run, others)
        run.met = True
        if rejected and self._reject(run, "; ".join(rejected), begins=begins):
            run.streams = {}
        else:
            self._begin(run)

    @staticmethod
    def _reject(run: QueryRun, why: str, *, begins: bool) -> bool:
        """Let a query that begins end before its first batch; return whether it will. The log has the error, too."""
        may_end = all(binding.settings.called for binding in run.bindings.values())
        will_end = may_end and begins and run.query.fail(why)
        if may_end:
            what = "is stopped before its first batch" if will_end else "should not run and cannot be stopped"
            _log.error("query %s %s: %s", run.query.query_id, what, why)
        else:
            _log.warning("query %s: %s", run.query.query_id, why)
        return will_end

    def _begin(self, run: _Run) -> None:
        """Let a run whose streams are known begin."""
        for metric, judging in run.streams.items():
            log_judging(run.bindings[metric], judging)
        for extension in run.extensions:
            extension.started(run)
        bounds = {binding.settings.stream: binding.chosen.bound_ms for binding in run.bindings.values()}
        self.metrics.started(run.run_id, run.query, bounds)

    def _report_batch(self, run: _Run, progress: StreamingQueryProgress) -> None:
        """Report a batch for each tap in it, once."""
        if progress.batchId <= run.last_batch:
            return
        if not run.met:
            run.met = True
            try:
                self._meet(run, begins=False)
            except Exception:  # noqa: BLE001 - its streams are those whose taps have rows
                _log.exception("query %s: its plan is not known", progress.id)
        counters = {metric: binding.stage_counts for metric, binding in self._bindings.items()}
        taps = counted_in(progress, counters, run.streams)
        if not taps:
            return
        run.last_batch = progress.batchId
        run.watermark_ms[progress.batchId] = _watermark_ms(progress, run)
        if not run.streams:  # the plan could not be read
            run.bindings = {metric: self._bindings[metric] for metric in taps}
            judge(run, {metric: run.query.unread_of(metric) for metric in taps})
            self._begin(run)
        for extension in run.extensions:
            extension.batch(run, progress)
        for metric, observed in taps.items():
            try:
                self._report_stream(run, metric, progress, observed)
            except Exception:  # noqa: BLE001 - the query goes on; the gap in batch ids shows the loss
                _log.exception(
                    "stream %s: batch %d is not reported",
                    run.bindings[metric].settings.stream,
                    progress.batchId,
                )
        run.watermark_ms.pop(progress.batchId - 2, None)

    def _report_stream(
        self, run: _Run, metric: str, progress: StreamingQueryProgress, observed: str | None
    ) -> None:
        judging, binding = run.streams[metric], run.bindings[metric]
        self._acknowledge(run, metric, progress)
        clock_us = self._clock_of(run, binding.tap, progress)
        counts = NO_ROWS if observed is None else binding.tap.decode(observed, judging.granules, clock_us)
        report = self._report(run, metric, progress, counts)
        for extension in binding.extensions:
            report = extension.reported(run, metric, report, Batch(progress, counts))
        if report.uncounted_rows:
            _log.warning(
                "stream %s: batch %d: %d rows cannot be judged: %s",
                binding.settings.stream,
                report.batch_id,
                report.uncounted_rows,
                counts.uncounted or "their event times are out of range",
            )
        binding.sink.report(report)
        self.metrics.add(report)

    def _clock_of(self, run: _Run, tap: Tap, progress: StreamingQueryProgress) -> int | None:
        """Return the batch's clock in microseconds; None where the tap does not need it."""
        if tap.allowance_us is None:
            return None
        logged_ms = run.query.logged_clock_ms(progress.batchId)
        # Spark reads the clock as it plans the batch, some milliseconds after the trigger.
        return micros_of(progress.timestamp) if logged_ms is None else logged_ms * 1_000

    def _acknowledge(self, run: _Run, metric: str, progress: StreamingQueryProgress) -> None:
        """Acknowledge what is in force in a batch, if that was not done before."""
        binding = run.bindings[metric]
        if metric not in run.datasets:
            run.datasets[metric] = run.query.datasets(metric)
        # A stream that is not steered does not run in Live, whatever its mode is.
        steered = binding.chosen.mode != "Live" or run.streams[metric].contradiction is None
        acknowledgement = Acknowledgement(
            query_id=str(progress.id),
            run_id=str(progress.runId),
            bound_ms=binding.chosen.bound_ms,
            generation=binding.chosen.generation,
            source=binding.chosen.source,
            mode=binding.chosen.mode if steered else "Off",
            applied_us=0,
            ceiling_ms=binding.ceiling_ms,
            late=DROPPED,
            datasets=run.datasets[metric],
            run_end=run.run_end,
            spark_ui=run.spark_ui,
            called=binding.settings.called,
            reads=binding.settings.reads,
            conf_left_out="; ".join(binding.settings.left_out)[:MAX_TEXT] or None,
        )
        for extension in binding.extensions:
            acknowledgement = extension.acknowledged(run, metric, acknowledgement, progress.batchId)
        if run.acknowledged.get(metric) != acknowledgement:
            run.acknowledged[metric] = acknowledgement
            binding.sink.acknowledge(*binding.key, replace(acknowledgement, applied_us=self.clock_us()))

    def _report(self, run: _Run, metric: str, progress: StreamingQueryProgress, counts: TapCounts) -> Report:
        binding = run.bindings[metric]
        batch, judging = progress.batchId, run.streams[metric]
        bases = run.bases.setdefault(metric, BaseTracker())
        bases.add(batch, counts.max_event_time_us)
        states = progress.stateOperators
        output_mode = run.query.output_mode()
        return Report(
            schema_version=REPORT_SCHEMA,
            job=binding.settings.job,
            stream=binding.settings.stream,
            query_id=str(progress.id),
            run_id=str(progress.runId),
            batch_id=batch,
            started_us=micros_of(progress.timestamp),
            duration_ms=int(progress.durationMs.get("triggerExecution", progress.batchDuration)),
            operator=judging.operator,
            output_mode=output_mode or "append",
            bound_ms=binding.chosen.bound_ms,
            generation=binding.chosen.generation,
            # In a mode that cannot be read nobody knows what became of the rows.
            late_watermark_ms=self._late_watermark_ms(run, batch) if output_mode is not None else None,
            watermark_ms=run.watermark_ms[batch],
            late_base_ms=bases.late_base_ms(batch),
            granule_us=judging.granules.granule_us,
            closed=judging.granules.closed,
            rows=counts.rows,
            null_rows=counts.null_rows,
            min_event_time_us=counts.min_event_time_us,
            max_event_time_us=counts.max_event_time_us,
            counts=counts.by_granule,
            state_rows=sum(state.numRowsTotal for state in states),
            state_bytes=sum(state.memoryUsedBytes for state in states),
            dropped_by_spark=sum(state.numRowsDroppedByWatermark for state in states),
            dropped_reports=binding.sink.dropped,
            append_delay=counts.append_delay,
            contradiction=judging.contradiction_in(progress, counts.max_event_time_us),
            drops_late=judging.drops_late,
        )

    def _late_watermark_ms(self, run: _Run, batch: int) -> int | None:
        """W(n-1): what this listener saw, else what the checkpoint logged, else unknown."""
        if batch == 0:
            return 0
        known_ms = run.watermark_ms.get(batch - 1)
        return run.query.logged_watermark_ms(batch - 1) if known_ms is None else known_ms


def _watermark_ms(progress: StreamingQueryProgress, run: QueryRun) -> int:
    """Return what Spark reports, else what the checkpoint logged, which no year is too late for."""
    reported_ms = watermark_ms_of(progress)
    return (run.query.logged_watermark_ms(progress.batchId) or 0) if reported_ms is None else reported_ms
