"""A stream with a control stream: its tap and ceiling, and what the listener tells Live and the closing step of it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import DataFrame
from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidemark.models.protocol.messages import Acknowledgement, Report
from tidemark.spark_jobs.core.binding import Batch, Binding, Extension, Judging, QueryRun, not_in_real_time
from tidemark.spark_jobs.core.counting import with_tap
from tidemark.spark_jobs.core.listener import TidemarkListener
from tidemark.spark_jobs.core.watch import Orders
from tidemark.spark_jobs.live.backlog import Offset, backlog_of, control_offsets_of, reads_data
from tidemark.spark_jobs.live.closing import ClosingInput, ClosingRuns
from tidemark.spark_jobs.live.control_stream import ControlAnswers, steered
from tidemark.spark_jobs.live.future_rows import FutureRowRule
from tidemark.spark_jobs.live.learned import LearnedSaver, StreamHistory, saver_of
from tidemark.spark_jobs.live.queries import LiveQueries, LiveStream
from tidemark.spark_jobs.spark.java_classes import JavaClasses
from tidemark.spark_jobs.spark.jvm import items

_NOT_IN_REAL_TIME = (
    "a batch's clock stands still until it ends, so honest rows would be taken for future-dated, and its offsets are "
    "logged when it ends, so a batch that runs again could have another watermark"
)
_lock = threading.Lock()
_live: dict[TidemarkListener, LiveExtension] = {}


class LiveExtension(Extension):
    """The streams of a listener that have a control stream, which is silent but in Live and in a closing step."""

    def __init__(self, listener: TidemarkListener) -> None:
        self._listener = listener
        self._savers: dict[str, LearnedSaver] = {}
        self.queries = LiveQueries(listener.clock_us)
        """Those in Live."""
        self.closing = ClosingRuns()
        """Those with a closing step."""
        self.answers = ControlAnswers(self.control)
        """What control sources ask."""

    def control(self, metric: str, start: Offset) -> Offset | None:
        """Return the offset after ``start`` for a control source that asks while a batch is planned; None for no news.

        It is made of all batches before that one, of which Spark may not have notified the listener yet.
        """
        for run_id in {*self.queries.runs_of(metric, start.get("source")), *self.closing.runs_of(metric)}:
            self._listener.catch_up(run_id)
        return self.queries.answer(metric, start) or self.closing.answer(metric, start)

    def why_not(self, run: QueryRun, metric: str, judging: Judging) -> str | None:  # noqa: ARG002 - of any stream
        """Return why a query must not run: in real-time mode none may."""
        if not run.is_real_time:
            return None
        return not_in_real_time(_NOT_IN_REAL_TIME, "take ceiling= out")

    def started(self, run: QueryRun) -> None:
        """Take a run, if any of its streams is in Live, or has a closing step."""
        self._begin_closing(run)
        streams = [stream for metric in run.streams if (stream := self.queries.stream(metric)) is not None]
        if not streams:
            return
        for stream in streams:
            stream.orders.started(run.run_id)
        self.queries.started(
            run.run_id,
            {
                metric: judging.operator
                for metric, judging in run.streams.items()
                if judging.contradiction is None
            },
            run.query.trigger_ms(),
            policy=run.query.watermark_policy,
            watermark_nodes=None if run.plan is None else run.plan.watermarks,
        )
        saver = saver_of(run.query, self.queries, run.run_id)
        if saver is not None:
            self._savers[run.run_id] = saver

    def _begin_closing(self, run: QueryRun) -> None:
        """Let a run that reads all there is close, if its calls say so."""
        closing = {
            metric: rule
            for metric, judging in run.streams.items()
            if (rule := run.bindings[metric].closing) is not None
            # Live does not steer a stream whose rows it cannot judge.
            and (judging.contradiction is None or self.queries.stream(metric) is None)
        }
        if run.run_end != "AvailableNow" or not closing:
            return
        inputs = {}
        for metric, rule in closing.items():
            binding, is_live = run.bindings[metric], self.queries.stream(metric) is not None
            inputs[metric] = ClosingInput(
                name=binding.stream,
                operator=run.streams[metric].operator,
                bound_us=binding.bound_ms * 1_000,
                delay_us=rule.delay_us,
                steered_us=partial(self.queries.wanted_us, run.run_id, metric) if is_live else None,
            )
        self.closing.started(run.run_id, inputs, self._listener.clock_us())

    def acknowledged(
        self,
        run: QueryRun,
        metric: str,
        found: Acknowledgement,
        batch_id: int,  # noqa: ARG002 - the same in all
    ) -> Acknowledgement:
        """Return ``found`` with that the run closes."""
        closes = run.bindings[metric].closing is not None and found.run_end == "AvailableNow"
        return replace(found, run_end="Closed") if closes else found

    def batch(self, run: QueryRun, progress: StreamingQueryProgress) -> None:
        """Learn what the batch shows of the run's control sources."""
        offsets = control_offsets_of(progress)
        self.queries.recognise(run.run_id, offsets, run.watermark_ms[progress.batchId])
        self.closing.batch(run.run_id, offsets, reads=reads_data(progress))

    def reported(self, run: QueryRun, metric: str, report: Report, batch: Batch) -> Report:
        """Return a report with the state of a stream in Live."""
        self.closing.observe(run.run_id, metric, report)
        if self.queries.stream(metric) is None:
            return report
        newest, backlog = batch.counts.newest_granules, backlog_of(batch.progress)
        return replace(report, live=self.queries.observe(run.run_id, metric, report, newest, backlog))

    def ended(self, run: QueryRun, error: str) -> None:  # noqa: ARG002 - whatever it is
        """Save what was learned, and forget the run."""
        saver = self._savers.pop(run.run_id, None)
        if saver is not None:
            saver.finish()
        for metric in run.streams:
            if (stream := self.queries.stream(metric)) is not None:
                stream.orders.ended(run.run_id)
        self.queries.ended(run.run_id)
        self.closing.ended(run.run_id)


def live_of(listener: TidemarkListener) -> LiveExtension:
    """Return what a listener has of Live."""
    with _lock:
        if listener not in _live:
            _live[listener] = LiveExtension(listener)
        return _live[listener]


@dataclass(frozen=True, slots=True)
class LivePlan:
    """The plan with a control stream: it moves in Live, and is silent in every other mode."""

    ceiling_ms: int
    idle_timeout_us: int | None
    future: FutureRowRule
    orders: Orders
    classes: JavaClasses
    """What makes the control stream."""
    tap_classes: JavaClasses | None
    """The functions that Spark compiles into a stage; None where rows are observed."""
    history: StreamHistory | None
    """The stream's earlier reports; None for a job without a controller."""

    def plan(self, df: DataFrame, metric: str, listener: TidemarkListener, binding: Binding) -> DataFrame:
        """Return ``df`` with tap, ceiling and control stream."""
        live, future = live_of(listener), self.future
        binding = replace(binding, extensions=(*binding.extensions, live))
        steer = partial(steered, classes=self.classes, answers=live.answers)
        if binding.mode != "Live":
            tapped, counts = with_tap(df, binding.tap, metric, self.tap_classes)
            listener.bind(metric, replace(binding, stage_counts=counts))
            return steer(tapped, binding.tap.event_time, binding.bound_ms, metric)
        tap = future.counted_by(binding.tap)
        tapped, counts = with_tap(future.mark(df), tap, metric, self.tap_classes)
        listener.bind(metric, replace(binding, tap=tap, moves=True, stage_counts=counts))
        live.queries.add(
            metric,
            LiveStream(
                name=binding.stream,
                ceiling_us=self.ceiling_ms * 1_000,
                idle_timeout_us=self.idle_timeout_us,
                orders=self.orders,
                history=self.history,
            ),
        )
        steered_df = steer(
            tapped,
            tap.event_time,
            self.ceiling_ms,
            metric,
            set_back=lambda marked: future.set_back(marked, tap.granule_us, tap.cut, self.tap_classes),
        )
        alias = _alias_of(df)
        return steered_df if alias is None else steered_df.alias(alias)


def _alias_of(df: DataFrame) -> str | None:
    """Return the alias of all columns of a frame. An event time that is set back is a new column, without it."""
    columns = items(df._jdf.queryExecution().analyzed().output())  # noqa: SLF001 - aliases are not public
    names = {tuple(items(column.qualifier())) for column in columns}
    return str(names.pop()[-1]) if len(names) == 1 and () not in names else None
