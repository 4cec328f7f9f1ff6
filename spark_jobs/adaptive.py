"""The one line on the user's side: ``.transform(adaptive_watermark(...))`` in place of ``.withWatermark(...)``.

    clicks.withWatermark("ts", "10 minutes")
    clicks.transform(adaptive_watermark("ts", "10 minutes", stream="clicks"))

It puts the tap before the watermark, asks for the bound, and applies it. Without a controller it is
``withWatermark`` with the job's own bound, plus the tap. In mode Live the watermark also moves while the query runs. A
checkpoint goes on in every mode, whether the plan before had this line or ``withWatermark``.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache

from pyspark.sql import DataFrame, SparkSession

from tidemark.models.base.operators import Operator
from tidemark.models.protocol.messages import Mode
from tidemark.spark_jobs.core.arguments import (
    Durations,
    Treatment,
    WrongValueError,
    check_ceiling,
    checked,
    durations_of,
    instance,
)
from tidemark.spark_jobs.core.binding import Binding, Closing, Extension, NoSink, ReportSink
from tidemark.spark_jobs.core.connections import (
    LateOption,
    Start,
    announce,
    conf_of,
    listen,
    listener_of,
    start_of,
)
from tidemark.spark_jobs.core.counting import classes_for, with_tap
from tidemark.spark_jobs.core.key_counts import key_counter
from tidemark.spark_jobs.core.listener import TidemarkListener
from tidemark.spark_jobs.core.settings import JobSettings
from tidemark.spark_jobs.core.tap import DEFAULT_MAX_KEYS, Tap
from tidemark.spark_jobs.spark.event_time import column_named, column_of, quoted, read_event_time
from tidemark.spark_jobs.spark.java_classes import JavaClasses
from tidemark.spark_jobs.spark.query_plan import TAP_PREFIX

_KAFKAS = "partition"
_KAFKAS_TIME, _KAFKAS_TIME_TYPE = "timestamp", "timestampType"
_ALLOW_MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"
_NO_CLASSES = "what moves the watermark is a class in Java that Spark compiles, and that does not work here"
_log = logging.getLogger("tidemark.spark")
_Listen = Callable[[SparkSession], TidemarkListener]
_numbers = itertools.count()


@checked(
    late=instance(
        LateOption, 'what side("folder", parse=...) or revise(grace="1 hour") returns, or None'
    ).or_none(),
    job_settings=instance(JobSettings, "what JobSettings.read() returns, or None").or_none(),
)
def adaptive_watermark(
    event_time: str,
    bound: str,
    operator: Operator | None = None,
    *,
    # What is counted.
    stream: str | None = None,
    partition: str | None = _KAFKAS,
    arrival_time: str | None = _KAFKAS_TIME,
    granule: str | None = None,
    max_keys: int = DEFAULT_MAX_KEYS,
    # How the watermark is steered.
    mode: Mode = "Off",
    ceiling: str | None = None,
    idle_timeout: str | None = None,
    close_at_end: bool | str | None = None,
    # What becomes of rows that are too late, or of the future.
    late: LateOption | None = None,
    future_rows: Treatment = "clamp",
    future_allowance: str = "1 minute",
    # Whose stream it is, and where its reports go.
    job: str | None = None,
    controller_url: str | None = None,
    token_file: str | None = None,
    sink: ReportSink | None = None,
    job_settings: JobSettings | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """Return the transformation that replaces ``withWatermark(event_time, bound)``.

    Args:
        event_time: the event-time column, of type timestamp, by a name as ``withWatermark`` takes it.
        bound: the job's own bound, used when the controller gives none; a Spark interval such as ``"10 minutes"``, in
            any form that ``withWatermark`` takes, or a short one such as ``"10m"``.
        operator: the stateful operator the watermark is for: ``tumbling``, ``sliding``, ``session`` or ``row_level``;
            read from the query's plan unless given. A query whose plan contradicts the call ends before its first
            batch: ``awaitTermination`` raises what to write.
        stream: name of the stream within the job; conf ``spark.tidemark.stream`` unless given.
        partition: column that names the partition of a row, as Kafka's source has it; without such a column, or with
            None, the whole stream is one partition.
        arrival_time: column with the source's own timestamp, as Kafka's source has it; it is used where the column is
            there, and with ``aside`` it must be.
        granule: width of the event-time grid on which rows are counted. Unless given, an exact one for the operator, or
            a second where that is read from the plan: exact for windows of whole seconds, and an interval of the rows
            of a second for other keys.
        max_keys: distinct (partition, granule) pairs a batch may hold and still be counted exactly.
        mode: the job's own mode, until the controller has one for the stream.
        ceiling: the bound to fall back to in Live when nothing steers, and the longest that state and deduplication are
            retained; the job's own bound unless given, and then Live may only narrow it.
        idle_timeout: in Live, silence after which a partition no longer holds the watermark back; learned from the
            partition's own gaps unless given. A source that does not report its backlog needs it, else its partitions
            are never idle.
        close_at_end: True lets a run with ``availableNow`` end with a closing step, which moves the watermark as far as
            the bound allows, also where an input had no rows; an interval says how late rows come at most by the clock,
            so that windows older than that come out too; conf ``spark.tidemark.close.at.end`` unless given.
        late: what becomes of late rows: ``side(...)`` keeps those that Spark drops; ``revise(...)`` puts windows out in
            versions, so that the bound moves in each batch and rows that come later still count. Unless given they are
            dropped and counted.
        future_rows: in Live, what becomes of future-dated rows: ``clamp`` sets their event time back to it,
            ``aside`` takes them out (``live.future_rows.future_rows`` returns them to a query of their own).
        future_allowance: how far ahead a row may be dated and still be taken as it is; by the batch's clock up to a
            granule more.
        job: name of the job; conf ``spark.tidemark.job``, else the application's name, unless given.
        controller_url: address of the controller; conf ``spark.tidemark.controller.url`` unless given.
        token_file: file with the bearer token; conf ``spark.tidemark.token.file`` unless given.
        sink: takes the reports instead of the controller, for tests and demonstrations.
        job_settings: the job's settings, instead of the four names above and the session's conf.

    What is wrong in the conf is left out, with a line in the log and a condition of the stream.

    Raises:
        ValueError: when an argument is wrong, a column is missing, the granule would make counts inexact, the
            ceiling is below the bound, or ``revise(...)`` is given with a ceiling, mode Live, ``close_at_end`` or no
            windows.
        NotImplementedError: over Spark Connect with ``late``, or before PySpark 4.0.
    """
    revises = late is not None and late.revises
    if late is not None:
        late.check(operator, ceiling, mode)
    durations = durations_of(
        bound=bound,
        ceiling=ceiling,
        operator=operator,
        granule=granule,
        future_allowance=future_allowance,
        idle_timeout=idle_timeout,
    )

    def transform(df: DataFrame) -> DataFrame:
        spark = df.sparkSession
        listen, no_live = _session(spark, late)
        event = _event_of(df, event_time, durations)
        if event is None:  # Spark leaves a watermark out, too
            return df
        settings = job_settings or JobSettings.read(
            conf_of(spark),
            job=job,
            stream=stream,
            controller_url=controller_url,
            token_file=token_file,
            close_at_end=close_at_end,
        )
        closing = _closing_of(settings, late, asked=close_at_end is not None)
        compiled = settings.tap_kind == "compiled"
        classes = None
        moves = durations.ceiling is not None or mode == "Live" or closing is not None
        if no_live is None and (compiled or moves):
            classes = classes_for(spark)
        tap = _tap_of(df, event, durations, operator, partition, arrival_time, max_keys, future_rows)
        its_late = None if late is None else late.read_in(df)
        rereads = late is not None and not revises
        if classes is None or not compiled or rereads:  # rows that are read again are observed
            tap = _observable(tap, df, settings.stream)
        no_live = no_live or (_NO_CLASSES if classes is None else None)
        ceiling_ms = None if no_live or revises else event.ceiling_ms
        start = start_of(settings, event.own_bound_ms, ceiling_ms, mode, restarts=not revises)
        announce(settings, start, ceiling_ms)
        if closing is not None and no_live is not None:
            _log.warning("stream %s: the last windows stay open: %s", settings.stream, no_live)
        plan = _Plan(
            df=df,
            metric=f"{TAP_PREFIX}{settings.stream}:{next(_numbers)}",
            start=start,
            binding=Binding(
                job=settings.job,
                stream=settings.stream,
                tap=tap,
                operator=operator,
                bound_ms=start.chosen.bound_ms,
                own_bound_ms=event.own_bound_ms,
                source=start.chosen.source,
                mode=start.mode,
                generation=start.chosen.generation,
                sink=sink or (NoSink() if start.connection is None else start.connection.sender),
                ceiling_ms=ceiling_ms,
                closing=None if no_live is not None else closing,
                names_granule=granule is not None,
                own_times_confirmed=settings.own_times_confirmed,
                called=settings.called,
                reads=settings.reads,
                left_out=settings.left_out,
                extensions=(_plan_check(),),
            ),
            listener=listener_of(spark, listen),
            classes=classes,
            tap_classes=classes if compiled else None,
            future=(durations.allowance_us, future_rows),
            idle_timeout_us=durations.idle_timeout_us,
            delay_ms=start.chosen.bound_ms,
        )
        if its_late is not None:
            plan = plan.with_late(its_late)
        if revises or start.mode != "Live":
            return plan.with_watermark()
        if no_live is not None:
            what = "stream %s: mode is Live, but %s: the bound stays %d ms until the next start"
            _log.warning(what, settings.stream, no_live, start.chosen.bound_ms)
            return plan.with_watermark()
        if durations.ceiling is None:
            what = "the call has no ceiling=" if settings.called else "spark.tidemark.ceiling is not set"
            _log.info("stream %s: %s, so Live may only narrow the job's own bound", settings.stream, what)
        return plan.steered()

    return transform


@cache
def _plan_check() -> Extension:
    """Return what checks the plans of a driver's queries as they start."""
    from tidemark.spark_jobs.plans.start_check import PlanCheck  # noqa: PLC0415 - loaded with the first stream

    return PlanCheck()


@dataclass(frozen=True, slots=True)
class _Event:
    """The event time of a frame, and the delays that the call names, as Spark reads them."""

    column: str
    own_bound_ms: int
    ceiling_ms: int


def _event_of(df: DataFrame, event_time: str, durations: Durations) -> _Event | None:
    """Return what the call's event time and durations are in a frame; None of one that does not stream."""
    event = read_event_time(df, event_time, durations.bound)
    if event is None:
        return None
    ceiling_ms = event.delay_ms
    if durations.ceiling is not None and (fallback := read_event_time(df, event_time, durations.ceiling)):
        ceiling_ms = fallback.delay_ms
        check_ceiling(ceiling_ms, event.delay_ms)
    return _Event(event.column, event.delay_ms, ceiling_ms)


def _closing_of(settings: JobSettings, late: LateOption | None, *, asked: bool) -> Closing | None:
    """Return the closing step that is asked for; with windows that come out in versions the conf's is left out.

    Raises:
        ValueError: where the call asks for both: none of those windows is ever closed.
    """
    if late is not None and late.revises and settings.closing is not None:
        if asked:
            raise ValueError(
                "late=revise(...) closes no window, as close_at_end would: leave out one of them"
            )
        return None
    return settings.closing


def _tap_of(  # noqa: PLR0917 - what is counted
    df: DataFrame,
    event: _Event,
    durations: Durations,
    operator: Operator | None,
    partition: str | None,
    arrival_time: str | None,
    max_keys: int,
    future_rows: Treatment,
) -> Tap:
    arrival, arrival_type = _arrival(df, event.column, arrival_time)
    if future_rows == "aside" and arrival is None:
        why = "rows can be set aside only by the time of their arrival, which no column has"
        raise WrongValueError("future_rows", why, ": name arrival_time=")
    # Kafka's source has the column by default; another name was meant, and must be there.
    find = column_named if partition == _KAFKAS else column_of
    try:
        column = None if partition is None else find(df, partition)
    except ValueError as error:
        raise WrongValueError("partition", str(error)) from None
    return Tap(
        event.column,
        column,
        durations.granule_us,
        None if operator is None else operator.closed,
        max_keys,
        arrival_time=arrival,
        arrival_type=arrival_type,
        counter=key_counter(),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """A stream whose plan is being made."""

    df: DataFrame
    metric: str
    """Name of its tap."""
    start: Start
    binding: Binding
    listener: TidemarkListener
    classes: JavaClasses | None
    """Those in Java, where the session can have them."""
    tap_classes: JavaClasses | None
    """The same; None where rows are observed."""
    future: tuple[int, Treatment]
    """How far ahead a row may be dated, in microseconds, and in Live what becomes of the others."""
    idle_timeout_us: int | None
    delay_ms: int

    def with_watermark(self) -> DataFrame:
        """Return the rows with tap and Spark's own watermark."""
        tapped, counts = with_tap(self.df, self.binding.tap, self.metric, self.tap_classes)
        binding = replace(self.binding, stage_counts=counts)
        if binding.closing is not None:
            from tidemark.spark_jobs.live.live_plan import live_of  # noqa: PLC0415 - as below

            extensions = (*binding.extensions, live_of(self.listener, self.classes))
            binding = replace(binding, extensions=extensions)
        self.listener.bind(self.metric, binding)
        return tapped.withWatermark(quoted(self.binding.tap.event_time), f"{self.delay_ms} milliseconds")

    def with_late(self, late: LateOption) -> _Plan:
        """Let something else become of late rows than to be dropped."""
        binding = self.binding
        treats = binding.mode == "Live" and binding.ceiling_ms is not None
        extension = late.extension(self.df, self.metric, binding, self.start, self.future if treats else None)
        binding = replace(binding, moves=late.revises, extensions=(*binding.extensions, extension))
        return replace(self, binding=binding, delay_ms=late.delay_ms(self.start))

    def steered(self) -> DataFrame:
        """Return the rows with a watermark that is moved while the query runs."""
        from tidemark.spark_jobs.live.live_plan import LivePlan  # noqa: PLC0415 - no other mode loads Live

        assert self.classes is not None
        live = LivePlan(self.idle_timeout_us, *self.future, self.start, self.classes, self.tap_classes)
        return live.plan(self.df, self.metric, self.listener, self.binding)


def _observable(tap: Tap, df: DataFrame, stream: str) -> Tap:
    """Return ``tap``, without partitions where this Spark cannot observe counts by their names."""
    if tap.can_name_partitions(df):
        return tap
    _log.warning(
        "stream %s: running without partitions, because Spark %s observes counts by numbers alone and column %r is "
        "none: all rows are counted as one partition; give a column of integers, or use Spark 4.1",
        stream,
        df.sparkSession.version,
        tap.partition,
    )
    return replace(tap, partition=None)


def _arrival(df: DataFrame, event_time: str, arrival_time: str | None) -> tuple[str | None, str | None]:
    """Return the columns with a row's arrival and with whose clock that is, None for what is not there."""
    if arrival_time is None or column_named(df, arrival_time) == event_time:
        return None, None
    kafkas = arrival_time == _KAFKAS_TIME
    kind = column_named(df, _KAFKAS_TIME_TYPE) if kafkas else None
    if kafkas and kind is None:
        return None, None  # a column that happens to have the name
    return column_of(df, arrival_time), kind


def _session(spark: SparkSession, late: LateOption | None) -> tuple[_Listen, str | None]:
    """Return what adds a listener to a session, and why no watermark can be moved in it; None where one can.

    A session is asked whether it has its Java side, and not of which version or platform it is.
    """
    kind: tuple[_Listen, str | None] = listen, None
    if not hasattr(spark, "_jsparkSession"):
        from tidemark.spark_jobs.connect import listening  # noqa: PLC0415 - it needs gRPC

        listening.check_client(None if late is None else type(late).__name__.lower())
        kind = listening.listener_over_connect, listening.NO_LIVE
    if (spark.conf.get(_ALLOW_MULTIPLE, "true") or "").strip().lower() == "false":
        raise ValueError(
            f"{_ALLOW_MULTIPLE}=false changes Spark's late rule; unset it, the ledger would be wrong"
        )
    return kind
