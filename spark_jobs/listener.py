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

from tidemark.models.evidence.needs import BaseTracker
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.protocol.messages import REPORT_SCHEMA, Acknowledgement, Report
from tidemark.spark_jobs.batch_counts import counted_in, forget_counts
from tidemark.spark_jobs.binding import (
    Binding,
    Judging,
    log_judging,
)
from tidemark.spark_jobs.chains import LastBounds
from tidemark.spark_jobs.driver_metrics import DriverMetrics
from tidemark.spark_jobs.json_listener import JsonListener
from tidemark.spark_jobs.live.backlog import backlog_of, control_offsets_of
from tidemark.spark_jobs.live.learned_files import LearnedKeeper, keeper_of
from tidemark.spark_jobs.live.mode_changes import why_rejected
from tidemark.spark_jobs.live.offset import Offset
from tidemark.spark_jobs.live.queries import LiveQueries
from tidemark.spark_jobs.progress_times import micros_of, watermark_ms_of
from tidemark.spark_jobs.query_plan import QueryPlan
from tidemark.spark_jobs.running_query import RunningQuery
from tidemark.spark_jobs.start_check import (
    downstream_at_start,
    errors_at_start,
    judged_at_start,
    warn_of_other_queries,
)
from tidemark.spark_jobs.tap import NO_ROWS, Tap, TapCounts

_log = logging.getLogger("tidemark.spark")


@dataclass(slots=True)
class _Run:
    """The state of one run of a query."""

    query: RunningQuery
    met: bool = False
    """Whether its plan was read, or could not be with its first batch either."""
    ended: threading.Event = field(default_factory=threading.Event)
    last_batch: int = -1
    """The last batch that was reported."""
    streams: dict[str, Judging] = field(default_factory=dict)
    """By tap in its plan how the rows are judged."""
    watermark_ms: dict[int, int] = field(default_factory=dict)
    bases: dict[str, BaseTracker] = field(default_factory=dict)
    acknowledged: dict[str, tuple[object, ...]] = field(default_factory=dict)
    """By tap what was acknowledged last."""
    last_bounds: LastBounds | None = None
    """Where its bounds are written down; None for a query that any bound is right for."""
    downstream: dict[str, Downstream | None] = field(default_factory=dict)
    """By tap what its bound decides behind its own operator."""
    learned: LearnedKeeper | None = None
    """Keeps what its live policies learn; None without any."""


class TidemarkListener(JsonListener):
    """Reports every batch of every query that a bound tap feeds.

    Args:
        spark: the session whose queries are watched.
        clock_us: returns the wall time in microseconds.
    """

    def __init__(
        self, spark: SparkSession, clock_us: Callable[[], int] = lambda: time.time_ns() // 1_000
    ) -> None:
        self._spark = spark
        self._clock_us = clock_us
        self._bindings: dict[str, Binding] = {}
        self._runs: dict[str, _Run] = {}
        self._reporting = threading.RLock()
        self.live = LiveQueries(clock_us)
        """The live queries among those that are watched."""
        self.metrics = DriverMetrics()
        """What Spark's metrics show of them."""

    def bind(self, metric: str, binding: Binding) -> None:
        """Let the observed metric of name ``metric`` stand for ``binding``."""
        self._bindings[metric] = binding

    def bindings_in(self, plan: QueryPlan) -> list[Binding]:
        """Return what stands behind the taps of a plan."""
        return [self._bindings[metric] for metric in plan.operators if metric in self._bindings]

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
        found = [run.ended.wait(max(deadline - time.monotonic(), 0)) for run in ended]
        return all(found)

    def control(self, metric: str, start: Offset) -> Offset | None:
        """Return the offset after ``start`` for a control source that asks while a batch is planned; None for no news.

        It is made of all batches before that one, of which Spark may not have notified this listener yet.
        """
        for run_id in self.live.runs_of(metric, start.get("source")):
            self._catch_up(run_id)
        return self.live.answer(metric, start)

    # -- Spark's callbacks ------------------------------------------------------------------------------------

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - Spark's name
        """Get a handle on the query while it is surely active. Synchronous with ``start()``: must be quick."""
        run = self._runs[str(event.runId)] = _Run(self._query_of(str(event.id)))
        self._meet(str(event.runId), run, begins=True)

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
                self._runs[run_id] = _Run(self._query_of(str(progress.id)))
            self._report_batch(self._runs[run_id], progress)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - Spark's name
        """Ignore: an idle trigger runs no batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - Spark's name
        """Note that all batches of the run are reported."""
        run_id = str(event.runId)
        run = self._runs.get(run_id)
        if run is not None:
            if run.learned is not None:
                run.learned.finish()
            for metric in run.streams:
                self._bindings[metric].ended(run.query)
            self._explain(run, event.exception or "")
            run.ended.set()
        # Removed as well: a run holds on to Spark's own object, and a driver may start one every minute.
        self._runs.pop(run_id, None)
        self.live.ended(run_id)
        self.metrics.ended(run_id)

    # -- inside -------------------------------------------------------------------------------------------------

    def _query_of(self, query_id: str) -> RunningQuery:
        return RunningQuery(self._spark, query_id)

    def _meet(self, run_id: str, run: _Run, *, begins: bool) -> None:
        """Read the plan of a run: as it begins, or with a batch of one whose beginning was missed or failed."""
        query, plan = run.query, run.query.plan()
        if plan is None:
            what = "query %s: its plan cannot be read; its streams are recognised by the rows of a batch"
            _log.log(query.unread_level, what, query.query_id)
            return
        found = {metric: found for metric, found in plan.operators.items() if metric in self._bindings}
        if begins:
            forget_counts(self._bindings, found, query.query_id)
        streams, rejected = judged_at_start(found, self._bindings, query, plan)
        if found:
            bindings = self.bindings_in(plan)
            if plan.own_times:
                run.last_bounds = LastBounds(self._spark, query.checkpoint(), bindings)
            joins = query.joins()
            rejected += errors_at_start(query, joins, plan, bindings, run.last_bounds)
            # An earlier run of this query may not be reported as ended yet.
            others = [each for each in list(self._runs.values()) if each.query.query_id != query.query_id]
            warn_of_other_queries(bindings, [self._bindings[tap] for each in others for tap in each.streams])
            operators = {metric: judging.operator for metric, judging in streams.items()}
            run.downstream = downstream_at_start(query.coupling(joins), plan, self._bindings, operators)
        run.met = True
        if not (rejected and self._reject(query, "; ".join(rejected), begins=begins)):
            self._begin(run_id, run, streams, plan.watermarks)

    @staticmethod
    def _reject(query: RunningQuery, why: str, *, begins: bool) -> bool:
        """Let a query that begins end before its first batch; return whether it will. The log has the error, too."""
        will_end = begins and query.fail(why)
        what = "is stopped before its first batch" if will_end else "should not run and cannot be stopped"
        _log.error("query %s %s: %s", query.query_id, what, why)
        return will_end

    def _begin(
        self, run_id: str, run: _Run, streams: dict[str, Judging], watermark_nodes: int | None
    ) -> None:
        """Record the taps of a run."""
        run.streams = streams
        for metric, judging in streams.items():
            binding = self._bindings[metric]
            log_judging(binding, judging)
            binding.started(run.query)
        bounds_ms = {self._bindings[metric].stream: self._bindings[metric].bound_ms for metric in streams}
        self.metrics.started(run_id, run.query, bounds_ms)
        operators = {
            metric: judging.operator for metric, judging in streams.items() if judging.contradiction is None
        }
        policy, trigger_ms = run.query.watermark_policy, run.query.trigger_ms()
        self.live.started(run_id, operators, trigger_ms, policy=policy, watermark_nodes=watermark_nodes)
        run.learned = keeper_of(self._spark, run.query, self.live, run_id)

    def _explain(self, run: _Run, error: str) -> None:
        """Log what to do where Spark's own message does not say it."""
        for metric in run.streams:
            binding = self._bindings.get(metric)
            reason = None if binding is None else why_rejected(error, binding.ceiling_ms is not None)
            if binding is not None and reason is not None:
                _log.error("stream %s: %s", binding.stream, reason)

    def _catch_up(self, run_id: str) -> None:
        """Report the batches that have ended, before Spark notifies this listener: the next one is being planned."""
        with self._reporting:
            run = self._runs.get(run_id)
            # None may be left out: a batch before the last one that was reported is taken for a repetition.
            if run is not None:
                for progress in run.query.newer_progress(run.last_batch):
                    self._report_batch(run, progress)

    def _report_batch(self, run: _Run, progress: StreamingQueryProgress) -> None:
        """Report a batch for each tap in it, once."""
        if progress.batchId <= run.last_batch:
            return
        run_id = str(progress.runId)
        if not run.met:
            run.met = True
            try:
                self._meet(run_id, run, begins=False)
            except Exception:  # noqa: BLE001 - its streams are those whose taps have rows
                _log.exception("query %s: its plan is not known", progress.id)
        taps = counted_in(progress, self._bindings, run.streams)
        if not taps:
            return
        run.last_batch = progress.batchId
        if run.last_bounds is not None:
            run.last_bounds.record()
        run.watermark_ms[progress.batchId] = _watermark_ms(progress, run)
        if not run.streams:  # the plan could not be read
            found = {tap: run.query.unread_of(tap) for tap in taps}
            self._begin(run_id, run, judged_at_start(found, self._bindings, run.query, None)[0], None)
        self.live.recognise(run_id, control_offsets_of(progress), run.watermark_ms[progress.batchId])
        for metric, observed in taps.items():
            binding = self._bindings[metric]
            try:
                self._report_stream(run, metric, binding, progress, observed)
            except Exception:  # noqa: BLE001 - the query goes on; the gap in batch ids shows the loss
                _log.exception("stream %s: batch %d is not reported", binding.stream, progress.batchId)
        run.watermark_ms.pop(progress.batchId - 2, None)

    def _report_stream(
        self, run: _Run, metric: str, binding: Binding, progress: StreamingQueryProgress, observed: str | None
    ) -> None:
        judging, binding = run.streams[metric], binding.in_batch(run.query, progress.batchId)
        late = binding.late_treatment
        in_force = binding.bound_ms, binding.generation, binding.source, binding.mode, late
        if run.acknowledged.get(metric) != in_force:
            run.acknowledged[metric] = in_force
            # A stream that is not steered does not run in Live, whatever its mode is.
            mode = "Off" if binding.mode == "Live" and judging.contradiction else binding.mode
            applied = self._acknowledgement(replace(binding, mode=mode), progress)
            applied = replace(applied, downstream=run.downstream.get(metric), late=late)
            binding.sink.acknowledge(binding.job, binding.stream, applied)
        clock_us = self._clock_of(run, binding.tap, progress)
        counts = NO_ROWS if observed is None else binding.tap.decode(observed, judging.granules, clock_us)
        report = self._report(run, metric, binding, progress, counts)
        if binding.revised is not None:
            report = binding.revised.judged(report, run.query)
        if metric in self.live:
            state = self.live.observe(
                str(progress.runId), metric, report, counts.newest_granules, backlog_of(progress)
            )
            report = replace(report, live=state)
        if report.uncounted_rows:
            _log.warning(
                "stream %s: batch %d: %d rows cannot be judged: %s",
                binding.stream,
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

    def _acknowledgement(self, binding: Binding, progress: StreamingQueryProgress) -> Acknowledgement:
        return Acknowledgement(
            query_id=str(progress.id),
            run_id=str(progress.runId),
            bound_ms=binding.bound_ms,
            generation=binding.generation,
            source=binding.source,
            mode=binding.mode,
            applied_us=self._clock_us(),
            ceiling_ms=binding.ceiling_ms,
        )

    def _report(
        self, run: _Run, metric: str, binding: Binding, progress: StreamingQueryProgress, counts: TapCounts
    ) -> Report:
        batch, judging = progress.batchId, run.streams[metric]
        bases = run.bases.setdefault(metric, BaseTracker())
        bases.add(batch, counts.max_event_time_us)
        states = progress.stateOperators
        output_mode = run.query.output_mode()
        return Report(
            schema_version=REPORT_SCHEMA,
            job=binding.job,
            stream=binding.stream,
            query_id=str(progress.id),
            run_id=str(progress.runId),
            batch_id=batch,
            started_us=micros_of(progress.timestamp),
            duration_ms=int(progress.durationMs.get("triggerExecution", progress.batchDuration)),
            operator=judging.operator,
            output_mode=output_mode or "append",
            bound_ms=binding.bound_ms,
            generation=binding.generation,
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
        )

    def _late_watermark_ms(self, run: _Run, batch: int) -> int | None:
        """W(n-1): what this listener saw, else what the checkpoint logged, else unknown."""
        if batch == 0:
            return 0
        known = run.watermark_ms.get(batch - 1)
        return run.query.logged_watermark_ms(batch - 1) if known is None else known


def _watermark_ms(progress: StreamingQueryProgress, run: _Run) -> int:
    """Return what Spark reports, else what the checkpoint logged, which no year is too late for."""
    found = watermark_ms_of(progress)
    return (run.query.logged_watermark_ms(progress.batchId) or 0) if found is None else found
