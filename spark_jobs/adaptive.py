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
import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache

from pyspark.sql import DataFrame, SparkSession

from tidemark.models.base.operators import Operator
from tidemark.models.protocol.messages import Mode, Pin
from tidemark.spark_jobs.core.arguments import Treatment, WrongValueError, checked, instance
from tidemark.spark_jobs.core.binding import Binding, Extension, NoSink, ReportSink
from tidemark.spark_jobs.core.bound import OwnBounds
from tidemark.spark_jobs.core.connections import (
    LateOption,
    announce,
    conf_of,
    listen,
    listener_of,
    start_of,
)
from tidemark.spark_jobs.core.counting import classes_for, with_tap
from tidemark.spark_jobs.core.key_counts import key_counter
from tidemark.spark_jobs.core.listener import TidemarkListener
from tidemark.spark_jobs.core.settings import (
    SETTINGS,
    UNSET,
    JobSettings,
    TapKind,
    check_ceiling,
    delay_ms_of,
    granule_of,
    key_of,
)
from tidemark.spark_jobs.core.tap import Tap
from tidemark.spark_jobs.core.wishes import Wishes
from tidemark.spark_jobs.spark.event_time import column_named, column_of, quoted, read_event_time
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
    **{setting.name: setting.rule.or_none() for setting in SETTINGS.values()},
)
def adaptive_watermark(
    event_time: str,
    bound: str | None = None,
    operator: Operator | None = None,
    *,
    # What is counted.
    stream: str | None = None,
    partition: str | None = UNSET,
    arrival_time: str | None = UNSET,
    granule: str | None = None,
    max_keys: int | None = None,
    tap: TapKind | None = None,
    # How the watermark is steered.
    mode: Mode | None = None,
    ceiling: str | None = None,
    idle_timeout: str | None = None,
    close_at_end: bool | str | None = None,
    pin: Pin | None = None,
    own_event_time_confirmed: bool | None = None,
    # What becomes of rows that are too late, or of the future.
    late: LateOption | None = None,
    future_rows: Treatment | None = None,
    future_allowance: str | None = None,
    # Whose stream it is, and where its reports go.
    enabled: bool | None = None,
    job: str | None = None,
    controller_url: str | None = None,
    token_file: str | os.PathLike[str] | None = None,
    cache_dir: str | os.PathLike[str] | None = None,
    timeout_ms: int | None = None,
    queue_reports: int | None = None,
    watch_seconds: int | None = None,
    sink: ReportSink | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """Return the transformation that replaces ``withWatermark(event_time, bound)``.

    Every argument but the four below is a setting of the job (``core.settings.JobSettings``, in docs/reference a table)
    and has a key of the conf: ``idle_timeout`` is ``spark.tidemark.idle.timeout`` there. The call wins. What is wrong
    in the conf is left out, with a line in the log and a condition of the stream.

    Args:
        event_time: the event-time column, of type timestamp, by a name as ``withWatermark`` takes it.
        operator: the stateful operator the watermark is for: ``tumbling``, ``sliding``, ``session`` or ``row_level``;
            read from the query's plan unless given. A query whose plan contradicts the call ends before its first
            batch: ``awaitTermination`` raises what to write.
        late: what becomes of late rows: ``side(...)`` keeps those that Spark drops; ``revise(...)`` puts windows out in
            versions, so that the bound moves in each batch and rows that come later still count. Unless given they are
            dropped and counted.
        sink: takes the reports instead of the controller, for tests and demonstrations.

    Raises:
        ValueError: when an argument is wrong, there is no bound, a column is missing, the granule would make counts
            inexact, the ceiling is below the bound, or ``revise(...)`` is given with a ceiling, mode Live,
            ``close_at_end`` or no windows.
        NotImplementedError: over Spark Connect with ``late``, or before PySpark 4.0.
    """
    of_call = {
        name: value
        for name, value in locals().items()
        if name in SETTINGS and value is not UNSET and (value is not None or SETTINGS[name].rule.fits(None))
    }
    no_conf: dict[str, str] = {}
    Wishes(no_conf.get).first_that_fits(lambda settings: _check(settings, operator, late), of_call)

    def transform(df: DataFrame) -> DataFrame:
        conf = conf_of(df.sparkSession)
        name = of_call.get("stream") or Wishes(conf).get("stream") or SETTINGS["stream"].default
        return Wishes(conf, str(name)).first_that_fits(
            lambda settings: watched(df, event_time, settings, operator, late=late, sink=sink), of_call
        )

    return transform


def _check(settings: JobSettings, operator: Operator | None, late: LateOption | None) -> int:
    """Return the width of the granules in microseconds.

    Raises:
        WrongValueError: when settings do not go together.
    """
    if late is not None:
        late.check(operator, settings)
    bound_ms, ceiling_ms = delay_ms_of(settings.bound), delay_ms_of(settings.ceiling)
    if bound_ms is not None and ceiling_ms is not None:
        check_ceiling(ceiling_ms, bound_ms)
    return granule_of(settings.granule, operator)


def watched(
    df: DataFrame,
    event_time: str,
    settings: JobSettings,
    operator: Operator | None = None,
    *,
    late: LateOption | None = None,
    sink: ReportSink | None = None,
) -> DataFrame:
    """Return a stream's rows with tap and watermark.

    Args:
        event_time: the event-time column.
        operator: as ``adaptive_watermark`` has it, and so ``late`` and ``sink``.
        late: what becomes of late rows; None for what the settings say.
        sink: takes the reports; None for the controller.

    Raises:
        WrongValueError: when a setting does not fit the stream.
    """
    spark = df.sparkSession
    if settings.bound is None:
        raise ValueError(f"there is no bound: give it to the call, or by {key_of('bound')}")
    if settings.enabled is False:
        return df.withWatermark(event_time, settings.bound)
    listen, no_live = _session(spark, late)
    granule_us = _check(settings, operator, late)
    event = read_event_time(df, event_time, settings.bound)
    if event is None:  # Spark leaves a watermark out, too
        return df
    late = late or _late_of(df, settings, no_live)
    late, revises = None if late is None else late.read_in(df, settings), late is not None and late.revises
    ceiling_ms = _ceiling_ms(df, event_time, event.delay_ms, settings.ceiling)
    compiled = settings.tap == "compiled"
    moves = settings.ceiling is not None or settings.mode == "Live" or settings.close_at_end is not None
    classes = classes_for(spark) if no_live is None and (compiled or moves) else None
    tap = _tap_of(df, event.column, settings, granule_us, operator)
    if classes is None or not compiled or (late is not None and not revises):  # rows read again are observed
        tap = _observable(tap, df, settings.stream)
    no_live = no_live or (_NO_CLASSES if classes is None else None)
    can_live = no_live is None and not revises
    own = OwnBounds(event.delay_ms, ceiling_ms if can_live else None)
    start = start_of(settings, own, restarts=not revises)
    announce(settings, start, own.ceiling_ms)
    if no_live is not None and settings.close_at_end is not None:
        _log.warning("stream %s: the last windows stay open: %s", settings.stream, no_live)
        settings = replace(settings, close_at_end=None)
    binding = Binding(
        settings=settings,
        tap=tap,
        operator=operator,
        chosen=start.chosen,
        own_bound_ms=own.bound_ms,
        sink=sink or (NoSink() if start.connection is None else start.connection.sender),
        ceiling_ms=own.ceiling_ms,
        moves=revises,
        extensions=(_plan_check(),),
    )
    metric, listener = f"{TAP_PREFIX}{settings.stream}:{next(_numbers)}", listener_of(spark, listen)
    if late is not None:
        extension = late.extension(df, metric, binding, start)
        binding = replace(binding, extensions=(*binding.extensions, extension))
    if start.chosen.mode == "Live" and can_live and classes is not None:
        from tidemark.spark_jobs.live.live_plan import steered  # noqa: PLC0415 - no other mode loads Live

        if settings.ceiling is None:
            what = "the call has no ceiling=" if settings.called else f"{key_of('ceiling')} is not set"
            _log.info("stream %s: %s, so Live may only narrow the job's own bound", settings.stream, what)
        return steered(df, metric, listener, binding, start, classes=classes)
    delay_ms = start.chosen.bound_ms if late is None else late.delay_ms(start)
    if start.chosen.mode == "Live" and not revises:
        what = "stream %s: mode is Live, but %s: the bound stays %d ms until the next start"
        _log.warning(what, settings.stream, no_live, delay_ms)
    tapped, counts = with_tap(df, tap, metric, classes if compiled else None)
    if settings.close_at_end is not None:
        from tidemark.spark_jobs.live.live_plan import live_of  # noqa: PLC0415 - as above

        binding = replace(binding, extensions=(*binding.extensions, live_of(listener, classes)))
    listener.bind(metric, replace(binding, stage_counts=counts))
    return tapped.withWatermark(quoted(tap.event_time), f"{delay_ms} milliseconds")


@cache
def _plan_check() -> Extension:
    """Return what checks the plans of a driver's queries as they start."""
    from tidemark.spark_jobs.plans.start_check import PlanCheck  # noqa: PLC0415 - loaded with the first stream

    return PlanCheck()


def _late_of(df: DataFrame, settings: JobSettings, no_live: str | None) -> LateOption | None:
    """Return what becomes of late rows by the settings; None to drop and count them."""
    if settings.late_folder is None:
        if settings.late_dimension is not None:
            raise WrongValueError("late_dimension", f"it needs {key_of('late_folder')}, which is not set")
        return None
    if not hasattr(df, "_jdf"):
        raise WrongValueError("late_folder", f"late rows are kept by a session in the driver: {no_live}")
    from tidemark.spark_jobs.late.kept import kept_in  # noqa: PLC0415 - no other job loads late rows

    return kept_in(settings.late_folder, settings.stream, df)


def _ceiling_ms(df: DataFrame, event_time: str, own_bound_ms: int, ceiling: str | None) -> int:
    """Return a ceiling as Spark reads it; without one the job's own bound."""
    if ceiling is None or (fallback := read_event_time(df, event_time, ceiling)) is None:
        return own_bound_ms
    check_ceiling(fallback.delay_ms, own_bound_ms)
    return fallback.delay_ms


def _tap_of(
    df: DataFrame, event_time: str, settings: JobSettings, granule_us: int, operator: Operator | None
) -> Tap:
    arrival, arrival_type = _arrival(df, event_time, settings.arrival_time)
    if settings.future_rows == "aside" and arrival is None:
        why = "rows can be set aside only by the time of their arrival, which no column has"
        raise WrongValueError("future_rows", why, ": name arrival_time=")
    # Kafka's source has the column by default; another name was meant, and must be there.
    find = column_named if settings.partition == _KAFKAS else column_of
    return Tap(
        event_time,
        None if settings.partition is None else _column(df, "partition", settings.partition, find),
        granule_us,
        None if operator is None else operator.closed,
        settings.max_keys,
        arrival_time=arrival,
        arrival_type=arrival_type,
        counter=key_counter(),
    )


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
    return _column(df, "arrival_time", arrival_time, column_of), kind


def _column(
    df: DataFrame, setting: str, name: str, find: Callable[[DataFrame, str], str | None]
) -> str | None:
    try:
        return find(df, name)
    except ValueError as error:
        raise WrongValueError(setting, str(error)) from None


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
