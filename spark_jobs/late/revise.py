"""``late=revise(...)``: windows come out early, again when rows come after that, and at last as final.

The plan holds windows open for bound + grace, in update mode. Which of them come out is decided in the driver, batch by
batch, by the bound in force (``late.mark``): so the bound may move both ways while the query runs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame

from tidemark.models.base.duration import format_duration, parse_duration
from tidemark.models.base.operators import Operator, SessionWindow, TimeWindow
from tidemark.models.protocol.late_policy import REVISED
from tidemark.models.protocol.messages import Acknowledgement, OutputMode, Report
from tidemark.spark_jobs.core.arguments import WrongValueError, checked
from tidemark.spark_jobs.core.binding import Batch, Binding, Extension, Judging, QueryRun
from tidemark.spark_jobs.core.bound import ChosenBound, OwnBounds
from tidemark.spark_jobs.core.connections import LateOption, Start
from tidemark.spark_jobs.core.settings import JobSettings
from tidemark.spark_jobs.core.watch import Orders, mode_of
from tidemark.spark_jobs.late.late_rows import LATE_IN_REAL_TIME
from tidemark.spark_jobs.late.mark import Mark
from tidemark.spark_jobs.spark.running_query import RunningQuery

if TYPE_CHECKING:
    from tidemark.spark_jobs.late.revision import RevisedRun


Upsert = Callable[[DataFrame, int], object]
"""Writes the versions of a batch, each over an older one of its window and keys; gets the batch's number, too."""

_QUERY_ID = "sql.streaming.queryId"
"""Spark's local property of the thread that runs a query."""


class Revise(LateOption):
    """How windows come out in versions; see ``revise``."""

    revises = True

    def __init__(self, end: str, keys: tuple[str, ...], grace_ms: int) -> None:
        self.grace_ms = grace_ms
        """How long a window stays open after the bound, in milliseconds of event time."""
        self._end = end
        self._keys = keys
        self._has_writer = False
        self._runs: dict[RunningQuery, RevisedRun] = {}
        """The last one of a query is the one that runs; one before it may not be reported to its end."""

    @checked()
    def into(self, upsert: Upsert) -> Callable[[DataFrame, int], None]:
        """Return the function for ``foreachBatch``.

        Args:
            upsert: writes the versions of a batch: a DataFrame with the columns of the aggregate, ``version`` and
                ``is_final``, of which there is one row for a window and its keys. It is not called when there are
                none. A batch that Spark runs again has the same versions again.
        """
        self._has_writer = True

        def write(df: DataFrame, batch: int) -> None:
            versions = self._run_of(df).step(df, batch)
            if versions is not None:
                upsert(versions, batch)

        return write

    def check(self, operator: Operator | None, settings: JobSettings) -> None:
        """Raise unless a stream with these settings can have versions."""
        if settings.close_at_end is not None:
            closes_none = "late=revise(...) closes no window, as close_at_end would: leave out one of them"
            raise WrongValueError("close_at_end", closes_none)
        if settings.ceiling is not None or settings.mode == "Live":
            raise WrongValueError(
                "mode" if settings.ceiling is None else "ceiling",
                "late=revise follows the bound in each batch by itself, in the modes OnRestart and "
                "Restart: leave out ceiling= and mode Live, and give revise(grace=) what rows may exceed the bound by",
            )
        if operator is not None and (why := _unsupported(operator)):
            raise ValueError(why)

    def extension(self, df: DataFrame, metric: str, binding: Binding, start: Start) -> RevisedStream:  # noqa: ARG002
        """Return what gives the queries that have a tap the bound in force."""
        return RevisedStream(self, start.chosen, start.orders)

    def delay_ms(self, start: Start) -> int:
        """Return the plan's delay in milliseconds. It does not depend on the controller: it stays what it is."""
        return start.orders.own_bound_ms + self.grace_ms

    def why_not(
        self, operator: Operator, contradiction: str | None, mode: OutputMode | None, watermarks: int | None
    ) -> str | None:
        """Return why a query cannot have versions, and what to do; None when it can.

        Args:
            operator: the operator by which rows are judged.
            contradiction: why none are; None when they are.
            watermarks: how many watermarks its plan has; None when that is not known.
        """
        if contradiction is not None:
            return f"late=revise needs an aggregate by a window of the event time: {contradiction}"
        if why := _unsupported(operator):
            return why
        if watermarks not in {None, 1}:
            return (
                f"late=revise needs the query's only watermark, and it has {watermarks}; write the joined rows to a "
                "table or topic and aggregate them in a query of their own"
            )
        if mode != "update":
            return f'late=revise needs the output mode update, not {mode}; write .outputMode("update")'
        if not self._has_writer:
            return "late=revise has no sink: write .foreachBatch(revised.into(upsert)) with revised = revise(...)"
        return None

    def started(self, query: RunningQuery, delay_ms: int, bound: Callable[[], ChosenBound]) -> None:
        """Take a new run of a query, before its first batch."""
        # Only here, because it needs pyarrow, and other jobs do not.
        from tidemark.spark_jobs.late.revision import RevisedRun  # noqa: PLC0415

        self._runs[query] = RevisedRun(query, self._end, self._keys, delay_ms, bound)

    def ended(self, query: RunningQuery) -> None:
        """Forget a run."""
        self._runs.pop(query, None)

    def mark(self, query: RunningQuery, batch: int) -> Mark | None:
        """Return the mark of a batch; None when the run does not know it."""
        run = self._runs.get(query)
        return None if run is None else run.marks.get(batch)

    def _run_of(self, df: DataFrame) -> RevisedRun:
        query_id = df.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
        runs = [run for query, run in list(self._runs.items()) if query.query_id == query_id]
        if not runs:
            raise RuntimeError(
                f"query {query_id} was not announced to late=revise: its plan has no adaptive_watermark(..., late=) "
                "with this object, or it could not be read"
            )
        return runs[-1]


@dataclass(frozen=True, slots=True, eq=False)
class RevisedStream(Extension):
    """A stream whose windows come out in versions, as one plan has it."""

    revise: Revise
    chosen: ChosenBound
    orders: Orders
    """The controller's newest answer, and what is the job's own."""

    @property
    def delay_ms(self) -> int:
        """The plan's delay in milliseconds. It does not depend on the controller, so that it stays what it is."""
        return self.orders.own_bound_ms + self.revise.grace_ms

    def bound(self) -> ChosenBound:
        """Return the bound in force now, at most the delay."""
        answer, chosen = self.orders.newest, self.chosen
        if self.orders.own_pin is None and answer is not None and answer != chosen.answer:
            chosen = OwnBounds(self.orders.own_bound_ms).by(answer)
        bound_ms, mode = min(chosen.bound_ms, self.delay_ms), mode_of(answer, self.orders.own_mode)
        return ChosenBound(bound_ms, chosen.source, chosen.generation, mode)

    def why_not(self, run: QueryRun, metric: str, judging: Judging) -> str | None:  # noqa: ARG002 - there is one
        """Return why a query cannot have versions, and what to do; None when it can."""
        if run.is_real_time:
            return LATE_IN_REAL_TIME
        watermarks = None if run.plan is None else len(run.plan.watermarks)
        return self.revise.why_not(
            judging.operator, judging.contradiction, run.query.output_mode(), watermarks
        )

    def started(self, run: QueryRun) -> None:
        """Take a new run of a query that has this plan."""
        self.orders.started(run.run_id)
        self.revise.started(run.query, self.delay_ms, self.bound)

    def ended(self, run: QueryRun, error: str) -> None:  # noqa: ARG002 - whatever it is
        """Forget a run."""
        self.orders.ended(run.run_id)
        self.revise.ended(run.query)

    def acknowledged(
        self,
        run: QueryRun,
        metric: str,  # noqa: ARG002 - there is one
        acknowledgement: Acknowledgement,
        batch_id: int,
    ) -> Acknowledgement:
        """Return ``acknowledgement`` with the bound that was in force in a batch, which need not be the plan's."""
        acknowledgement, mark = replace(acknowledgement, late=REVISED), self.revise.mark(run.query, batch_id)
        if mark is None:
            return acknowledgement
        bound = mark.bound
        return replace(
            acknowledgement,
            bound_ms=bound.bound_ms,
            source=bound.source,
            mode=bound.mode,
            generation=bound.generation,
        )

    def reported(self, run: QueryRun, metric: str, report: Report, batch: Batch) -> Report:  # noqa: ARG002 - it says all
        """Return a report with the bound and watermarks of first versions.

        A row below the earlier watermark came too late for the first one; one below the plan's own was dropped, and is
        in no version.
        """
        before, mark = (
            self.revise.mark(run.query, number) for number in (report.batch_id - 1, report.batch_id)
        )
        if mark is None:
            return replace(report, late_watermark_ms=None)
        late_ms = final_ms = None if report.batch_id else 0
        if before is not None:
            late_ms, final_ms = before.early_ms, before.watermark_ms
        return replace(
            report,
            bound_ms=mark.bound.bound_ms,
            generation=mark.bound.generation,
            late_watermark_ms=late_ms,
            watermark_ms=mark.early_ms,
            final_watermark_ms=final_ms,
        )


@checked()
def revise(*keys: str, grace: str, end: str = "window.end") -> Revise:
    """Return what ``adaptive_watermark(late=...)`` and the query's sink need to put windows out in versions.

        revised = revise("page", grace="1 hour")
        counts = (
            clicks.transform(adaptive_watermark("ts", "1 minute", stream="clicks", late=revised))
            .groupBy(F.window("ts", "5 minutes"), "page")
            .count()
        )
        counts.writeStream.outputMode("update").foreachBatch(revised.into(upsert)) ...

    Args:
        keys: the grouping columns beside the window, as the query puts them out.
        grace: how long after the bound a window stays open, in event time: the window is final when the newest event
            time has passed its end by bound + grace, and rows after that are dropped.
        end: the column with the window's end.

    Raises:
        ValueError: when the grace is not above 0, or not in whole milliseconds.
    """
    grace_us = parse_duration(grace)
    if grace_us <= 0 or grace_us % 1_000:
        raise ValueError(f"grace {format_duration(grace_us)} must be above 0 and in whole milliseconds")
    return Revise(end, keys, grace_us // 1_000)


def _unsupported(operator: Operator) -> str | None:
    if isinstance(operator, TimeWindow):
        return None
    if isinstance(operator, SessionWindow):
        return (
            "late=revise versions windows of fixed ends: a late row may merge sessions, a version that is out cannot "
            "be taken back, and Spark has no update mode for them; use late=side(...) and correct sessions afterwards"
        )
    return (
        f"late=revise versions the windows of an aggregate, and the query has a {operator}; use late=side(...) to keep "
        "the rows that come too late"
    )
