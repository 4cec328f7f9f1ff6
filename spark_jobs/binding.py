"""What a call of ``adaptive_watermark`` binds to its tap, and what the plan of a query makes of it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from pyspark.sql.streaming.listener import StreamingQueryProgress

from tidemark.models.base.duration import format_duration
from tidemark.models.base.granules import SPARK_TICK_US, Granules, default_granule_us
from tidemark.models.base.operators import Operator, call_for, row_level
from tidemark.models.protocol.late_policy import DROPPED, REVISED, LateTreatment
from tidemark.models.protocol.messages import Acknowledgement, BoundSource, Mode, Report
from tidemark.spark_jobs.late.revise import RevisedStream
from tidemark.spark_jobs.late.switch import LateSwitch
from tidemark.spark_jobs.live.orders import Orders
from tidemark.spark_jobs.progress_times import newest_ms_of
from tidemark.spark_jobs.query_plan import Found, NoOperator
from tidemark.spark_jobs.running_query import RunningQuery
from tidemark.spark_jobs.stage_functions.counting import StageCounts
from tidemark.spark_jobs.tap import Tap

_log = logging.getLogger("tidemark.spark")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """One stream as one plan has it: what to count, and which bound was applied."""

    job: str
    stream: str
    tap: Tap
    operator: Operator | None
    """The operator that the call declares; None when it is to be read from the plan."""
    bound_ms: int
    own_bound_ms: int
    """The job's own bound, in milliseconds."""
    source: BoundSource
    mode: Mode
    generation: int | None
    sink: ReportSink
    ceiling_ms: int | None = None
    orders: Orders | None = None
    """Of a live or revised stream what it has to do: it is watched while a run has this tap."""
    revised: RevisedStream | None = None
    """How its windows come out in versions; None when they come out once."""
    late: LateSwitch | None = None
    """Whether its late rows are kept; None where the call names nothing to keep them with."""
    names_granule: bool = False
    """Whether the call names the granule, which reports have then too."""
    stage_counts: StageCounts | None = None
    """What the row counter counted; None where the tap observes."""
    own_time_confirmed: bool = False
    """Whether the job confirms event times of its own, which a watermark nearer to the newest rows may overtake."""

    @property
    def late_treatment(self) -> LateTreatment:
        """What becomes of its late rows."""
        if self.revised is not None:
            return REVISED
        return DROPPED if self.late is None else self.late.treatment

    def started(self, query: RunningQuery) -> None:
        """Take a new run of a query that has this tap."""
        if self.orders is not None:
            self.orders.started()
        if self.revised is not None:
            self.revised.started(query)

    def ended(self, query: RunningQuery) -> None:
        """Forget a run."""
        if self.orders is not None:
            self.orders.ended()
        if self.revised is not None:
            self.revised.ended(query)

    def in_batch(self, query: RunningQuery, batch: int) -> Binding:
        """Return the binding with the bound that was in force in a batch: with versions it need not be the plan's."""
        mark = None if self.revised is None else self.revised.mark(query, batch)
        if mark is None:
            return self
        bound = mark.bound
        return replace(
            self,
            bound_ms=bound.bound_ms,
            source=bound.source,
            mode=bound.mode,
            generation=bound.generation,
        )


class PlanRejectedError(Exception):
    """A query must not run with this call; the message says why, and what to write."""


@dataclass(frozen=True, slots=True)
class Judging:
    """How the rows of a stream are judged in one run of a query."""

    operator: Operator
    granules: Granules
    """The granules of its reports."""
    contradiction: str | None = None
    """Why no row is judged; None when they are."""
    compared: bool = False
    """Whether Spark says of each batch what the maximum event time is that the tap should have."""
    doubt: str | None = None
    """Why the plan cannot say whether the declared operator is right; None when it could."""

    def contradiction_in(self, progress: StreamingQueryProgress, newest_us: int | None) -> str | None:
        """Return why no row of a batch is judged; None when they are.

        Args:
            progress: the batch's progress.
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


def judging_of(binding: Binding, found: Found) -> Judging:
    """Return how the rows of a stream are judged, given its operator in the plan.

    Raises:
        PlanRejectedError: when the ledger would be wrong, or nobody knows the operator.
    """
    declared = binding.operator
    if not isinstance(found, NoOperator):
        if declared is not None and declared != found:
            raise PlanRejectedError(
                f"the call declares a {declared}, but the query has a {found}; write {call_for(found)}"
            )
        return Judging(found, granules_of(binding, found))
    if found.kind == "Unsupported":
        raise PlanRejectedError(f"{found.why}; give it a fixed gap, or write withWatermark")
    if found.kind == "Uncounted":
        return not_judged(binding, found.why)
    if found.kind == "NothingLate":
        return not_judged(binding, f"Spark drops no row by this stream's event time: {found.why}")
    if declared is not None:
        return Judging(declared, granules_of(binding, declared), doubt=found.why)
    if found.kind == "Unreadable":
        return not_judged(binding, f"the call declares no operator, and {found.why}")
    raise PlanRejectedError(
        f"the operator cannot be read from the plan: {found.why}; declare it after the bound, with tumbling(size), "
        "sliding(size, slide), session(gap) or row_level()"
    )


def check_versions(binding: Binding, judging: Judging, query: RunningQuery, watermarks: int | None) -> None:
    """Raise if a stream's windows are to come out in versions and its query cannot have them.

    Raises:
        PlanRejectedError: when it cannot.
    """
    if binding.revised is not None:
        why = binding.revised.revise.why_not(
            judging.operator, judging.contradiction, query.output_mode(), watermarks
        )
        if why is not None:
            raise PlanRejectedError(why)


def check_side(binding: Binding, changed: str | None) -> None:
    """Raise if late rows are to be kept, and not all rows of the stream reach the operator.

    Args:
        binding: the stream.
        changed: what drops or multiplies rows on the way, in words; None where nothing does.

    Raises:
        PlanRejectedError: when rows would be kept that Spark did not drop as late.
    """
    if binding.late is not None and changed is not None:
        raise PlanRejectedError(
            f"late=side(...) keeps rows as parse makes them, and {changed} behind adaptive_watermark drops or "
            "multiplies some before Spark judges them; put it into parse"
        )


def not_judged(binding: Binding, why: str) -> Judging:
    """Return that no row of a stream is judged. A report names an operator all the same."""
    operator = binding.operator or row_level()
    closed = binding.tap.closed or operator.closed
    return Judging(operator, Granules(binding.tap.granule_us, closed), contradiction=why)


def log_judging(binding: Binding, judging: Judging) -> None:
    """Log how the rows of a stream are judged."""
    if judging.contradiction is not None:
        _log.error(
            "stream %s: %s; its rows are not judged and it is not steered",
            binding.stream,
            judging.contradiction,
        )
    elif judging.doubt is not None:
        why = "stream %s: the declared %s is believed, since the plan does not show it: %s"
        _log.warning(why, binding.stream, judging.operator, judging.doubt)
    elif binding.operator is None:
        _log.info("stream %s: the query has a %s", binding.stream, judging.operator)


def granules_of(binding: Binding, operator: Operator) -> Granules:
    """Return the granules of reports: the tap's, or without a declaration the operator's default made of them.

    Raises:
        PlanRejectedError: when the tap's granules do not fit the operator.
    """
    tap = binding.tap
    if tap.closed is not None:
        return Granules(tap.granule_us, tap.closed)
    if not operator.granule_fits(tap.granule_us):
        counted = format_duration(tap.granule_us)
        raise PlanRejectedError(
            f"without an operator in the call rows are counted by {counted}, which does not divide the query's "
            f"{operator}; {_fitting(operator)}"
        )
    granule_us = tap.granule_us if binding.names_granule else default_granule_us(operator, tap.granule_us)
    return Granules(granule_us, operator.closed)


def _fitting(operator: Operator) -> str:
    try:
        granule = format_duration(default_granule_us(operator))
    except ValueError as error:
        return str(error)
    return f'write {call_for(operator)} after the bound, or granule="{granule}"'


def _shown(time_ms: int | None) -> str:
    if time_ms is None:
        return "none"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms since 1970"
    return moment.isoformat(timespec="milliseconds")
