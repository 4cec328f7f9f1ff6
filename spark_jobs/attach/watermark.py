"""A watermark of a query that starts, as the JVM has it, becomes one with tap and bound."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tidemark.models.base.granules import default_granule_us
from tidemark.models.base.operators import Operator
from tidemark.models.base.stateful import CONFIRMED_KEY
from tidemark.spark_jobs.adaptive import watched
from tidemark.spark_jobs.attach.names import KeptNames, job_name, place_of, sources_of, stream_name
from tidemark.spark_jobs.core.arguments import WrongValueError
from tidemark.spark_jobs.core.settings import GRANULE_US, Conf, JobSettings, granule_of, key_of
from tidemark.spark_jobs.core.wishes import Wishes
from tidemark.spark_jobs.spark.event_time import quoted
from tidemark.spark_jobs.spark.jvm import DATASET, WATERMARK, find
from tidemark.spark_jobs.spark.query_plan import read_above

_Above = tuple[list[Operator], str | None]
_OWN_TIME = "UpdateEventTimeWatermarkColumn"
_OWN_TIMES = (
    "the query's transformWithState gives rows an event time of their own, and Spark ends the query when one is "
    f"behind the watermark; {CONFIRMED_KEY}=true says that none is"
)


def adapted(spark: SparkSession, context: Conf, write: Any, node: Any, taken: Any) -> Any:
    """Return the analysed plan that takes a watermark's place, in the JVM; None to leave the watermark.

    What of the conf does not fit is left out.

    Args:
        spark: the session of the query.
        context: reads the conf of the context.
        write: the query, as ``WriteToStream``.
        node: the watermark, as ``EventTimeWatermark``.
        taken: names of the query's streams so far, as a list of Java; the stream's are added.

    Raises:
        ValueError: when the stream cannot be watched, whatever its conf is.
    """
    checkpoint = None if write.deleteCheckpointOnStop() else str(write.resolvedCheckpointLocation())
    place = place_of(write.name(), checkpoint)
    column = str(node.eventTime().name())
    before = list(taken)
    derived = stream_name(place, sources_of(node.child()), column, before)
    taken.add(derived)
    names, reads = KeptNames(spark, checkpoint), derived.removeprefix(f"{place}.")
    job, kept = names.of(reads)
    name = kept or derived
    own_bound = f"{find(WATERMARK).getDelayMs(node.delay())} milliseconds"
    above, wishes = read_above(write.child(), node), Wishes(spark.conf.get, name, context)
    child = DataFrame(find(DATASET).ofRows(spark._jsparkSession, node.child()), spark)  # noqa: SLF001 - Spark's own session
    if child.columns.count(column) > 1:
        raise ValueError(
            f"several columns are called {column!r}, and rows are counted by the name: rename the others"
        )

    def plan_of(settings: JobSettings) -> tuple[JobSettings, Any] | None:
        if settings.enabled is False:
            return None
        settings = replace(
            of_stream(settings, wishes, name, own_bound, taken=before),
            job=wishes.get("job") or job or job_name(spark.conf.get("spark.app.name", None), place),
            reads=reads,
        )
        return settings, _with_tap(settings, above, child, quoted(column), write.child())

    made = wishes.first_that_fits(plan_of)
    if made is None:
        return None
    settings, plan = made
    taken.add(settings.stream)
    names.keep(reads, settings.job, name)
    return plan


def of_stream(
    settings: JobSettings, wishes: Wishes, name: str, own_bound: str, *, taken: Collection[str] = ()
) -> JobSettings:
    """Return the settings of a stream that has no call.

    Args:
        settings: what the conf says.
        wishes: the conf.
        name: the stream's name before it is renamed.
        own_bound: the bound that the query has.
        taken: names of the query's streams before this one.

    Raises:
        WrongValueError: when one does not fit.
    """
    if settings.name in taken:
        raise WrongValueError("name", f"{settings.name!r} is another stream of the query")
    if settings.mode == "Restart":
        raise WrongValueError(
            "mode", "mode Restart needs a call, and a runner; Off, OnRestart and Live need none"
        )
    # A request has to fit into the time that the start of a query may wait.
    limit_ms = settings.start_timeout // 2_000
    if settings.timeout_ms > limit_ms and wishes.get("timeout_ms") is not None:
        raise WrongValueError("timeout_ms", f"it must be at most half of {key_of('start_timeout')}")
    return replace(
        settings,
        stream=settings.name or name,
        bound=settings.bound or own_bound,
        timeout_ms=min(settings.timeout_ms, limit_ms),
    )


def _with_tap(settings: JobSettings, above: _Above, child: DataFrame, event_time: str, query: Any) -> Any:
    """Return the plan of a stream with what its conf says.

    Raises:
        WrongValueError: when that does not fit the stream.
    """
    operators, changed = above
    if settings.late_folder is not None and changed is not None:
        why = f"{changed} behind the watermark changes the rows, which are read again as they were before"
        raise WrongValueError("late_folder", why)
    if _OWN_TIME in query.toString() and not settings.own_event_time_confirmed and settings.pin is None:
        if settings.mode != "Off":
            raise WrongValueError("mode", _OWN_TIMES)
        settings = replace(settings, pin="Off", pinned_by="Tidemark, since " + _OWN_TIMES)
    settings = replace(settings, granule=_granule(settings.granule, operators))
    return watched(child, event_time, settings)._jdf.queryExecution().analyzed()  # noqa: SLF001 - the one way to the plan


def _granule(wanted_us: int | None, operators: list[Operator]) -> int | None:
    """Return the granule that fits what is above a stream, in microseconds; None for the usual one.

    Raises:
        WrongValueError: when the one that is wanted does not.
    """
    for operator in operators:
        if wanted_us is not None:
            granule_of(wanted_us, operator)
        elif not operator.granule_fits(GRANULE_US):
            return default_granule_us(operator)
    return wanted_us
