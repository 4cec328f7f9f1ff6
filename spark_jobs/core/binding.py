"""What a call of ``adaptive_watermark`` binds to its tap, a run of a query that has it, and what takes part in that.

``Extension`` is the one way in which checks of plans, Live and late rows take part in reporting: the listener calls
them, and knows none of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Protocol

from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidemark.models.base.granules import SPARK_TICK_US, Granules
from tidemark.models.base.operators import Operator
from tidemark.models.protocol.datasets import Datasets
from tidemark.models.protocol.messages import Acknowledgement, Report, RunEnd
from tidemark.spark_jobs.core.bound import ChosenBound
from tidemark.spark_jobs.core.counting import StageCounts
from tidemark.spark_jobs.core.settings import JobSettings
from tidemark.spark_jobs.core.tap import Tap, TapCounts
from tidemark.spark_jobs.spark.progress import newest_ms_of
from tidemark.spark_jobs.spark.query_plan import QueryPlan
from tidemark.spark_jobs.spark.running_query import RunningQuery


class ReportSink(Protocol):
    """Where reports go. Neither call may block."""

    @property
    def dropped(self) -> int:
        """Reports dropped so far."""
        ...

    def report(self, report: Report) -> None:
        """Take a report."""
        ...

    def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> None:
        """Take an acknowledgement."""
        ...


class NoSink:
    """The sink of a job that has no controller."""

    dropped = 0

    def report(self, report: Report) -> None:
        """Drop the report."""

    def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> None:
        """Drop the acknowledgement."""


class Extension:
    """What a call adds to counting and reporting. One may serve several streams; a method does nothing by itself."""

    def why_not(self, run: QueryRun, metric: str, judging: Judging) -> str | None:  # noqa: ARG002 - for subclasses
        """Return why a query must not run with a stream, and what to write; None where it may."""
        return None

    def rejects(self, run: QueryRun) -> Sequence[str]:  # noqa: ARG002 - as above
        """Return why a query whose plan is known must not run, and what to do instead."""
        return ()

    def started(self, run: QueryRun) -> None:
        """Take a run whose streams are known, before its first report."""

    def batch(self, run: QueryRun, progress: StreamingQueryProgress) -> None:
        """Take a batch that has ended, before its streams are reported."""

    def acknowledged(
        self,
        run: QueryRun,  # noqa: ARG002 - as above
        metric: str,  # noqa: ARG002
        acknowledgement: Acknowledgement,
        batch_id: int,  # noqa: ARG002
    ) -> Acknowledgement:
        """Return what a stream acknowledges with a batch, whose bound at the start ``acknowledgement`` has."""
        return acknowledgement

    def reported(self, run: QueryRun, metric: str, report: Report, batch: Batch) -> Report:  # noqa: ARG002 - as above
        """Return what is reported of a stream's batch."""
        return report

    def ended(self, run: QueryRun, error: str) -> None:
        """Forget a run, which may have ended before it started; ``error`` is what it failed of, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One stream as one plan has it: what to count, and which bound was applied."""

    settings: JobSettings
    """Those of the stream; ``close_at_end`` is None where nothing can close its last windows."""
    tap: Tap
    operator: Operator | None
    """The operator that the call declares; None when it is to be read from the plan."""
    chosen: ChosenBound
    """The bound in the plan, with the mode that the stream starts in."""
    own_bound_ms: int
    sink: ReportSink
    ceiling_ms: int | None = None
    moves: bool = False
    """Whether its bound, or its watermark, moves while a query runs."""
    extensions: tuple[Extension, ...] = ()
    """What takes part in the runs that have its tap."""
    stage_counts: StageCounts | None = None
    """What the row counter counted; None where the tap observes."""

    @property
    def key(self) -> tuple[str, str]:
        """Names of the job and the stream."""
        return self.settings.job, self.settings.stream


@dataclass(frozen=True, slots=True)
class Judging:
    """How the rows of a stream are judged in one run of a query."""

    operator: Operator
    granules: Granules
    contradiction: str | None = None
    """Why no row is judged; None when they are."""
    compared: bool = False
    """Whether Spark says of each batch what the maximum event time is that the tap should have."""
    doubt: str | None = None
    """Why the plan cannot say whether the declared operator is right; None when it could."""
    drops_late: bool = True
    """Whether Spark drops late rows in the query's output mode."""

    def contradiction_in(self, progress: StreamingQueryProgress, newest_us: int | None) -> str | None:
        """Return why no row of a batch is judged; None when they are.

        Args:
            newest_us: the maximum event time that the tap has, in microseconds; None without any.
        """
        if self.contradiction is not None or not self.compared:
            return self.contradiction
        try:
            spark_ms = newest_ms_of(progress)
        except ValueError:
            return None  # Spark's watermark has left the calendar, which the status says by itself
        newest_ms = None if newest_us is None else newest_us // SPARK_TICK_US
        if spark_ms == newest_ms or (spark_ms == 0 and (newest_ms or -1) < 0):
            return None
        return (
            f"Spark's newest event time of batch {progress.batchId} is {_shown(spark_ms)} and the tap's is "
            f"{_shown(newest_ms)}, so the tap does not count what the watermark is made of"
        )


@dataclass(slots=True, kw_only=True)
class QueryRun:
    """One run of a query."""

    run_id: str
    query: RunningQuery
    plan: QueryPlan | None = None
    """None while it is not known, or when it cannot be read."""
    bindings: dict[str, Binding] = field(default_factory=dict)
    """The streams by tap in its plan."""
    streams: dict[str, Judging] = field(default_factory=dict)
    """By tap how the rows are judged."""
    watermark_ms: dict[int, int] = field(default_factory=dict)
    """The watermark in force in the newest batches."""
    is_real_time: bool = False
    run_end: RunEnd | None = None
    """How it ends by itself; None when it does not, or when that is not known."""
    spark_ui: str | None = None
    """Address of its page in Spark's UI; None without one."""
    datasets: dict[str, Datasets] = field(default_factory=dict)
    """By tap what is read and written, once a batch was reported."""
    is_met_at_start: bool = False
    """Whether its plan was read before its first batch."""

    @property
    def extensions(self) -> list[Extension]:
        """What takes part in it, each once."""
        every = (extension for binding in self.bindings.values() for extension in binding.extensions)
        return list({id(extension): extension for extension in every}.values())


@dataclass(frozen=True, slots=True)
class Batch:
    """A batch of a stream that is being reported."""

    progress: StreamingQueryProgress
    counts: TapCounts


def not_in_real_time(why: str, instead: str) -> str:
    """Return why a stream cannot run in real-time mode.

    Spark 4.3 runs windowed counts and ``dropDuplicates`` in it, in update mode, and the JVM's ``transformWithState``;
    4.1 and 4.2 run no stateful operator.
    Rows are processed as they come, but a batch still ends with each interval of the trigger: metrics are observed,
    listeners are notified and the watermark moves once a batch, by the same rule as elsewhere (tried on 4.3.0).
    """
    return (
        f"it cannot run in real-time mode: {why} (Spark 4.3.0); {instead}, or use a processing-time trigger"
    )


def _shown(time_ms: int | None) -> str:
    if time_ms is None:
        return "none"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms since 1970"
    return moment.isoformat(timespec="milliseconds")
