"""A stream in Live, or with a closing step: its plan, and what the listener tells them of the queries with it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs.core.binding import Batch, Binding, Extension, Judging, QueryRun, not_in_real_time
from tidemark.spark_jobs.core.connections import Start
from tidemark.spark_jobs.core.counting import with_tap
from tidemark.spark_jobs.core.listener import TidemarkListener
from tidemark.spark_jobs.live.backlog import backlog_of
from tidemark.spark_jobs.live.closing import ClosingInput, ClosingRun, ClosingTarget
from tidemark.spark_jobs.live.future_rows import FutureRowRule
from tidemark.spark_jobs.live.known_partitions import KnownPartitions
from tidemark.spark_jobs.live.learned import LearnedSaver, StreamHistory, saver_of
from tidemark.spark_jobs.live.queries import LiveQueries
from tidemark.spark_jobs.live.steering import Steering
from tidemark.spark_jobs.live.streams import LiveStream
from tidemark.spark_jobs.spark.event_time import quoted
from tidemark.spark_jobs.spark.java_classes import JavaClasses
from tidemark.spark_jobs.spark.jvm import items
from tidemark.spark_jobs.spark.progress import micros_of

_NOT_IN_REAL_TIME = (
    "a batch's clock stands still until it ends, so honest rows would be taken for future-dated, and its offsets are "
    "logged when it ends, so a batch that runs again could have another watermark"
)
_log = logging.getLogger("tidemark.spark")
_lock = threading.Lock()
_live: dict[TidemarkListener, LiveExtension] = {}


class LiveExtension(Extension):
    """The streams of a listener that are in Live, or have a closing step."""

    def __init__(self, listener: TidemarkListener) -> None:
        self._listener = listener
        self.classes: JavaClasses | None = None
        """What moves the watermarks of its queries; there before the first one."""
        self._savers: dict[str, LearnedSaver] = {}
        self._steering: dict[str, Steering] = {}
        self._closing: dict[str, ClosingRun] = {}
        self.queries = LiveQueries(listener.clock_us)
        """Those in Live."""

    def why_not(self, run: QueryRun, metric: str, judging: Judging) -> str | None:  # noqa: ARG002 - however judged
        """Return why a query must not run: in real-time mode none may whose watermark is steered."""
        if not run.is_real_time or self.queries.stream(metric) is None:
            return None
        return not_in_real_time(_NOT_IN_REAL_TIME, "use mode Off")

    def started(self, run: QueryRun) -> None:
        """Take a run, if any of its streams is in Live, or has a closing step."""
        self._begin_closing(run)
        streams = {
            metric: stream for metric in run.streams if (stream := self.queries.stream(metric)) is not None
        }
        for stream in streams.values():
            stream.orders.started(run.run_id)
        steered = {
            metric: run.streams[metric].operator
            for metric in streams
            if run.streams[metric].contradiction is None
        }
        if not steered or run.plan is None:
            return
        # Spark may not have notified the listener yet that an earlier run has ended.
        for steering in list(self._steering.values()):
            if steering.query_id == run.query.query_id:
                steering.finish()
        others = [node for node, tap in run.plan.watermarks.items() if tap not in steered]
        checkpoint, watermark = run.query.checkpoint(), self._watermark_of(run, others)
        if checkpoint is None or watermark is None:
            _log.error(
                "query %s is not steered, the ceiling alone holds: Spark's own object of the run is out of reach",
                run.query.query_id,
            )
            return
        partitions = KnownPartitions(run.query.spark, checkpoint)
        self.queries.started(
            run.run_id,
            steered,
            run.query.trigger_ms(),
            policy=run.query.watermark_policy,
            alone=not others,
            bases_us=partitions.read(),
        )
        saver = saver_of(run.query, self.queries, run.run_id)
        if saver is not None:
            self._savers[run.run_id] = saver
        self._steering[run.run_id] = Steering(
            run.run_id, run.query, watermark, self.queries, partitions, self._listener.catch_up
        )

    def _watermark_of(self, run: QueryRun, others: Sequence[str]) -> Any:
        """Return what moves a run's watermark, in the JVM; None where that is out of reach."""
        return None if self.classes is None else run.query.steering(self.classes, others)

    def _begin_closing(self, run: QueryRun) -> None:
        """Let a run that reads all there is close, if its calls say so."""
        closing = {
            metric: rule
            for metric, judging in run.streams.items()
            if (rule := run.bindings[metric].settings.close_at_end) is not None
            # Live does not steer a stream whose rows it cannot judge.
            and (judging.contradiction is None or self.queries.stream(metric) is None)
        }
        if run.run_end in {None, "Once"} or not closing or run.plan is None:
            return
        inputs = {}
        for metric, rule in closing.items():
            binding, is_live = run.bindings[metric], self.queries.stream(metric) is not None
            inputs[metric] = ClosingInput(
                operator=run.streams[metric].operator,
                bound_us=binding.chosen.bound_ms * 1_000,
                delay_us=rule.delay_us,
                steered_us=partial(self.queries.wanted_us, run.run_id, metric) if is_live else None,
            )
        others = [node for node, tap in run.plan.watermarks.items() if tap not in inputs]
        watermark = self._watermark_of(run, others)
        if watermark is not None and self.classes is not None:
            target = ClosingTarget(inputs, self._listener.clock_us())
            moment = run.query.closing_moment(self.classes, watermark)
            self._closing[run.run_id] = ClosingRun(
                run.run_id, run.query.query_id, moment, target, self._listener.catch_up
            )

    def batch(self, run: QueryRun, progress: StreamingQueryProgress) -> None:
        """Learn where the batch's watermark is."""
        watermark_ms = run.watermark_ms[progress.batchId]
        self.queries.batch(run.run_id, watermark_ms, micros_of(progress.timestamp))

    def reported(self, run: QueryRun, metric: str, report: Report, batch: Batch) -> Report:
        """Return a report with the state of a stream in Live."""
        if (closing := self._closing.get(run.run_id)) is not None:
            closing.target.observe(metric, report)
        if self.queries.stream(metric) is None:
            return report
        newest, backlog = batch.counts.newest_granules, backlog_of(batch.progress)
        report = replace(report, live=self.queries.observe(run.run_id, metric, report, newest, backlog))
        if (steering := self._steering.get(run.run_id)) is not None:
            steering.wake()
        return report

    def ended(self, run: QueryRun, error: str) -> None:  # noqa: ARG002 - whatever it is
        """Save what was learned, and forget the run."""
        for its in (self._closing, self._steering, self._savers):
            if (part := its.pop(run.run_id, None)) is not None:
                part.finish()
        for metric in run.streams:
            if (stream := self.queries.stream(metric)) is not None:
                stream.orders.ended(run.run_id)
        self.queries.ended(run.run_id)


def live_of(listener: TidemarkListener, classes: JavaClasses | None = None) -> LiveExtension:
    """Return what a listener has of Live and of closing steps; ``classes`` move the watermarks of its queries."""
    with _lock:
        if listener not in _live:
            _live[listener] = LiveExtension(listener)
        _live[listener].classes = classes or _live[listener].classes
        return _live[listener]


def steered(
    df: DataFrame,
    metric: str,
    listener: TidemarkListener,
    binding: Binding,
    start: Start,
    *,
    classes: JavaClasses,
) -> DataFrame:
    """Return rows with tap and ceiling: as by ``withWatermark``, with future-dated rows set back below it.

    Args:
        metric: name of the tap.
        listener: the session's.
        binding: the stream; it has a ceiling.
        start: what it starts with.
        classes: what moves the watermark.
    """
    assert binding.ceiling_ms is not None
    live, connection, settings = live_of(listener, classes), start.connection, binding.settings
    tap_classes = classes if settings.tap == "compiled" else None
    future = FutureRowRule.of(binding.tap, settings.future_allowance, settings.future_rows)
    tap = future.counted_by(binding.tap)
    tapped, counts = with_tap(future.mark(df), tap, metric, tap_classes)
    extensions = (*binding.extensions, live)
    listener.bind(metric, replace(binding, tap=tap, moves=True, stage_counts=counts, extensions=extensions))
    live.queries.add(
        metric,
        LiveStream(
            name=settings.stream,
            ceiling_us=binding.ceiling_ms * 1_000,
            idle_timeout_us=settings.idle_timeout,
            orders=start.orders,
            history=None if connection is None else StreamHistory(connection.client, *binding.key),
        ),
    )
    set_back = future.set_back(tapped, tap.granule_us, tap.cut, tap_classes)
    with_ceiling = set_back.withWatermark(quoted(tap.event_time), f"{binding.ceiling_ms} milliseconds")
    alias = _alias_of(df)
    return with_ceiling if alias is None else with_ceiling.alias(alias)


def _alias_of(df: DataFrame) -> str | None:
    """Return the alias of all columns of a frame. An event time that is set back is a new column, without it."""
    columns = items(df._jdf.queryExecution().analyzed().output())  # noqa: SLF001 - aliases are not public
    names = {tuple(items(column.qualifier())) for column in columns}
    return str(names.pop()[-1]) if len(names) == 1 and () not in names else None
