"""The one line on the user's side: ``.transform(adaptive_watermark(...))`` in place of ``.withWatermark(...)``.

    clicks.withWatermark("ts", "10 minutes")
    clicks.transform(adaptive_watermark("ts", "10 minutes", stream="clicks"))

It puts the tap before the watermark, asks for the bound, and applies it. Without a controller it is
``withWatermark`` with the job's own bound, plus the tap. With a ceiling the plan also holds a control stream, which
moves the watermark while the query runs (mode Live) and is silent in every other mode, so that modes change without a
new checkpoint:

    clicks.transform(adaptive_watermark("ts", "10 minutes", stream="clicks", ceiling="2 hours"))
"""

from __future__ import annotations

import itertools
import logging
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from shlex import quote
from textwrap import shorten

from pyspark.sql import DataFrame, SparkSession

from tidemark.models.base.duration import format_duration
from tidemark.models.base.operators import Operator
from tidemark.models.protocol.messages import Mode
from tidemark.spark_jobs.arguments import (
    check_ceiling,
    checked,
    durations_of,
    instance,
    one_of,
)
from tidemark.spark_jobs.binding import Binding, ReportSink
from tidemark.spark_jobs.bound import ChosenBound, choose_bound_at_start
from tidemark.spark_jobs.bound_cache import BoundCache
from tidemark.spark_jobs.client import ControllerClient
from tidemark.spark_jobs.connections import NoSink, connection_to, listener_of
from tidemark.spark_jobs.event_time import column_named, column_of, read_event_time
from tidemark.spark_jobs.java_classes import JavaClasses
from tidemark.spark_jobs.key_counts import key_counter
from tidemark.spark_jobs.late.missing_reports import RemoteLedger
from tidemark.spark_jobs.late.revise import Revise, RevisedStream
from tidemark.spark_jobs.late.side import Side
from tidemark.spark_jobs.listener import TidemarkListener
from tidemark.spark_jobs.live.future_rows import FutureRowRule, Treatment
from tidemark.spark_jobs.live.history import StreamHistory
from tidemark.spark_jobs.live.live_plan import LivePlan
from tidemark.spark_jobs.live.orders import Orders, mode_of
from tidemark.spark_jobs.query_plan import TAP_PREFIX
from tidemark.spark_jobs.session_kinds import SessionKind, kind_of
from tidemark.spark_jobs.settings import JobSettings
from tidemark.spark_jobs.stage_functions.counting import classes_for, with_tap
from tidemark.spark_jobs.tap import DEFAULT_MAX_KEYS, Tap, quoted
from tidemark.spark_jobs.watch import BoundWatch

_KAFKAS = "partition"
_KAFKAS_TIME, _KAFKAS_TIME_TYPE = "timestamp", "timestampType"
_ALLOW_MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"
_REASON_LENGTH = 200
"""Characters of the reason in the line that a job logs at its start; the status has all of it."""
_NO_CONTROL = "its control stream is a source in Java that Spark compiles, and that does not work here"
_log = logging.getLogger("tidemark.spark")
_numbers = itertools.count()


@checked(
    late=instance(
        (Side, Revise), 'what side("folder", parse=...) or revise(grace="1 hour") returns, or None'
    ).or_none(),
    future_rows=one_of(Treatment),
)
def adaptive_watermark(
    event_time: str,
    bound: str,
    operator: Operator | None = None,
    *,
    stream: str | None = None,
    partition: str | None = _KAFKAS,
    ceiling: str | None = None,
    mode: Mode = "Off",
    idle_timeout: str | None = None,
    future_rows: Treatment = "clamp",
    future_allowance: str = "1 minute",
    arrival_time: str | None = _KAFKAS_TIME,
    granule: str | None = None,
    max_keys: int = DEFAULT_MAX_KEYS,
    job: str | None = None,
    controller_url: str | None = None,
    token_file: str | None = None,
    sink: ReportSink | None = None,
    late: Side | Revise | None = None,
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
        ceiling: the bound to fall back to in Live when nothing steers, and the longest that state and deduplication are
            retained; without it the stream cannot run in Live. It is part of the plan: giving it to a job, or taking it
            away, needs a new checkpoint.
        mode: the job's own mode, until the controller has one for the stream.
        idle_timeout: in Live, silence after which a partition no longer holds the watermark back; learned from the
            partition's own gaps unless given. A source that does not report its backlog needs it, else its partitions
            are never idle.
        future_rows: in Live, what becomes of future-dated rows: ``clamp`` sets their event time back to it,
            ``aside`` takes them out (``live.future_rows.future_rows`` returns them to a query of their own).
        future_allowance: how far ahead a row may be dated and still be taken as it is; by the batch's clock up to a
            granule more.
        arrival_time: column with the source's own timestamp, as Kafka's source has it; it is used where the column is
            there, and with ``aside`` it must be.
        granule: width of the event-time grid on which rows are counted. Unless given, an exact one for the operator, or
            a second where that is read from the plan: exact for windows of whole seconds, and an interval of the rows
            of a second for other keys.
        max_keys: distinct (partition, granule) pairs a batch may hold and still be counted exactly.
        job: name of the job; conf ``spark.tidemark.job``, else the application's name, unless given.
        controller_url: address of the controller; conf ``spark.tidemark.controller.url`` unless given.
        token_file: file with the bearer token; conf ``spark.tidemark.token.file`` unless given.
        sink: takes the reports instead of the controller, for tests and demonstrations.
        late: what becomes of late rows: ``side(...)`` keeps those that Spark drops; ``revise(...)`` puts windows out in
            versions, so that the bound moves in each batch and rows that come later still count. Unless given they are
            dropped and counted.

    Raises:
        ValueError: when an argument or conf is wrong, a column is missing, the granule would make counts inexact, the
            ceiling is below the bound, or ``revise(...)`` is given with a ceiling, mode Live, or no windows.
        NotImplementedError: over Spark Connect with ``late``, or before PySpark 4.0.
    """
    revised = late if isinstance(late, Revise) else None
    if revised is not None:
        revised.check(operator, ceiling, mode)
    durations = durations_of(
        bound=bound,
        ceiling=ceiling,
        mode=mode,
        operator=operator,
        granule=granule,
        future_allowance=future_allowance,
        idle_timeout=idle_timeout,
    )

    def transform(df: DataFrame) -> DataFrame:
        spark = df.sparkSession
        kind = _kind_of(spark, late)
        event = read_event_time(df, event_time, durations.bound)
        if event is None:  # Spark leaves a watermark out, too
            return df
        time, own_bound_ms = event
        named_ceiling_ms = None
        if durations.ceiling is not None and (fallback := read_event_time(df, event_time, durations.ceiling)):
            named_ceiling_ms = fallback.delay_ms
            check_ceiling(named_ceiling_ms, own_bound_ms)
        arrival, arrival_type = _arrival(df, time, arrival_time)
        # Kafka's source has the column by default; another name was meant, and must be there.
        find = column_named if partition == _KAFKAS else column_of
        tap = Tap(
            time,
            None if partition is None else find(df, partition),
            durations.granule_us,
            None if operator is None else operator.closed,
            max_keys,
            arrival_time=arrival,
            arrival_type=arrival_type,
            counter=key_counter(),
        )
        settings = JobSettings.read(
            spark.conf.get,
            job=job,
            stream=stream,
            controller_url=controller_url,
            token_file=token_file,
        )
        compiled = settings.tap_kind == "compiled"
        classes = _classes(spark, kind, wanted=compiled or named_ceiling_ms is not None)
        tap_classes = classes if compiled else None
        if tap_classes is None or isinstance(late, Side):  # rows that are read again are observed
            tap = _observable(tap, df, settings.stream)
        no_live = kind.no_live or (_NO_CONTROL if named_ceiling_ms is not None and classes is None else None)
        ceiling_ms = None if no_live else named_ceiling_ms
        client, sender = connection_to(settings)
        cache = BoundCache(settings.cache_dir, settings.controller_url or "")
        chosen = choose_bound_at_start(
            settings.job,
            settings.stream,
            own_bound_ms,
            client,
            cache,
            settings.timeout_s,
            pin=settings.pin,
            ceiling_ms=ceiling_ms,
            restarts=revised is None,
        )
        make_watch = None if client is None else partial(_watch, client, settings, cache)
        orders = Orders(chosen.answer, own_bound_ms, mode, settings.pin, make_watch)
        mode_now = mode_of(chosen.answer, mode)
        metric = f"{TAP_PREFIX}{settings.stream}:{next(_numbers)}"
        listener = listener_of(spark)
        binding = Binding(
            job=settings.job,
            stream=settings.stream,
            tap=tap,
            operator=operator,
            bound_ms=chosen.bound_ms,
            own_bound_ms=own_bound_ms,
            source=chosen.source,
            mode=mode_now,
            generation=chosen.generation,
            sink=sink or sender or NoSink(),
            ceiling_ms=ceiling_ms,
            names_granule=granule is not None,
            own_time_confirmed=settings.own_time_confirmed,
        )
        _announce(settings, chosen, mode_now, None if no_live else ceiling)
        if revised is not None:
            versions = RevisedStream(revised, chosen, orders)
            binding = replace(binding, orders=orders, revised=versions)
            return _bound(df, metric, listener, binding, versions.delay_ms, classes=tap_classes)
        future = FutureRowRule(time, durations.allowance_us, future_rows, arrival, arrival_type)
        if isinstance(late, Side):
            switch = late.follow(
                df,
                metric,
                binding,
                future=future if mode_now == "Live" and ceiling_ms is not None else None,
                ledger=None
                if client is None or sender is None
                else RemoteLedger(client, sender, settings.job, settings.stream),
            )
            binding = replace(binding, late=switch)
        if ceiling_ms is None or classes is None:
            if mode_now == "Live":
                _log.error(
                    "stream %s: mode is Live, but %s: the bound stays %d ms until the next start",
                    settings.stream,
                    no_live or "the call has no ceiling=",
                    chosen.bound_ms,
                )
            return _bound(df, metric, listener, binding, chosen.bound_ms, classes=tap_classes)
        live = LivePlan(
            ceiling_ms,
            durations.idle_timeout_us,
            future,
            orders,
            classes,
            tap_classes,
            None if client is None else StreamHistory(client, settings.job, settings.stream),
        )
        return live.plan(df, metric, listener, binding)

    return transform


def _watch(client: ControllerClient, settings: JobSettings, cache: BoundCache) -> BoundWatch:
    return BoundWatch(client, settings.job, settings.stream, cache, wait_s=settings.watch_s)


def _classes(spark: SparkSession, kind: SessionKind, *, wanted: bool) -> JavaClasses | None:
    """Return the Java classes of a session, where it can have them and they are wanted."""
    return classes_for(spark) if wanted and kind.has_java_classes else None


def _bound(
    df: DataFrame,
    metric: str,
    listener: TidemarkListener,
    binding: Binding,
    delay_ms: int,
    *,
    classes: JavaClasses | None,
) -> DataFrame:
    """Return ``df`` with tap and Spark's own watermark."""
    tapped, counts = with_tap(df, binding.tap, metric, classes)
    listener.bind(metric, replace(binding, stage_counts=counts))
    return tapped.withWatermark(quoted(binding.tap.event_time), f"{delay_ms} milliseconds")


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


def _kind_of(spark: SparkSession, late: Side | Revise | None) -> SessionKind:
    """Return the kind of a session, if it can do what the call wants."""
    kind = kind_of(spark)
    if late is not None and kind.no_late is not None:
        raise NotImplementedError(f"late={type(late).__name__.lower()}(...) is not possible: {kind.no_late}")
    if (spark.conf.get(_ALLOW_MULTIPLE, "true") or "").strip().lower() == "false":
        raise ValueError(
            f"{_ALLOW_MULTIPLE}=false changes Spark's late rule; unset it, the ledger would be wrong"
        )
    return kind


def _announce(settings: JobSettings, chosen: ChosenBound, mode: Mode, ceiling: str | None) -> None:
    """Say with which bound a stream runs and, with a controller, which command shows what the job still needs."""
    _print_or_log(
        f"tidemark: job={settings.job} stream={settings.stream} bound={format_duration(chosen.bound_ms * 1_000)} "
        f"source={chosen.source} generation={chosen.generation} mode={mode} ceiling={ceiling} "
        f"controller={settings.controller_url} ({shorten(chosen.reason, _REASON_LENGTH, placeholder=' ...')})"
    )
    if settings.controller_url is not None:
        _say_next(settings.job, settings.controller_url)


@cache
def _say_next(job: str, url: str) -> None:
    """Say it once in a process: a job has several streams, and may start its query again."""
    _print_or_log(f"tidemark: next: tidemark doctor {quote(job)} --url {quote(url)}")


def _print_or_log(line: str) -> None:
    """Log one line so that it is in the driver's log even if nobody configured Python's logging."""
    if _log.isEnabledFor(logging.INFO) and _log.hasHandlers():
        _log.info(line)
    else:
        print(line, file=sys.stderr, flush=True)  # noqa: T201
