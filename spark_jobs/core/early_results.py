"""How complete the windows of a batch are, for whoever reads the table that ``foreachBatch`` writes.

What is said is the controller's last answer. A thread asks for it when a report has gone out, so a batch waits for
nothing, and has what was so after the batch before it.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import TimeWindow
from tidemark.models.base.target import PPM
from tidemark.models.completeness.outcome import WindowEstimate
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs.core.arguments import checked
from tidemark.spark_jobs.core.connections import Connection, connection_to, run_of

COLUMNS = ("share", "share_low", "rows_expected", "settled")
MOST_LISTED = 100
"""Windows that a commit lists: Iceberg repeats what is said of it in the metadata of each later one."""

_TYPE = "map<bigint, struct<share: double, share_low: double, rows_expected: bigint, settled: boolean>>"
_QUERY_ID = "sql.streaming.queryId"
"""Spark's local property of the thread that runs a query."""
_REST = 9
"""How many times as long as an answer took the next question waits: the controller has other streams."""
_OVER_CONNECT = (
    "over Spark Connect foreachBatch runs in the server, where no stream is reported: ask the controller for the "
    "windows, as `tidemark windows` does"
)
_log = logging.getLogger("tidemark.spark")
_lock = threading.Lock()


@checked()
def with_completeness(df: DataFrame, window: str = "window", *, stream: str | None = None) -> DataFrame:
    """Return the rows of a batch with how complete their windows are. It is for ``foreachBatch``, and never waits.

    ``share`` (double) is the share that had come of the rows that will ever come, ``share_low`` the lower end of its
    interval of 95 %, ``rows_expected`` (bigint) the rows expected in the end, of all keys of the window, and
    ``settled`` (boolean) whether ``share_low`` has reached the SLO's target, or 99.5 %. All are null where that is not
    known: before the first answer, while the controller is away, in a window that has just begun.

    Args:
        df: the batch.
        window: the column with the window, or with its end.
        stream: which stream the windows are of; needed where the query has several.

    Raises:
        ValueError: when the batch has a column of one of the names, ``window`` is none, the query has several streams
            or none of the name, or its operator has no windows of fixed ends.
        NotImplementedError: over Spark Connect.
    """
    if taken := {column.lower() for column in df.columns} & set(COLUMNS):
        raise ValueError(f"the batch has a column {min(taken)!r} of its own: rename it before this call")
    source = _source_of(df, stream)
    end_us, is_window = _end_us(df, window, source)
    newest = source.answers.newest if source and source.answers else {}
    entry = F.try_element_at(F.expr(map_of(newest)), F.when(is_window, end_us))
    return df.withColumns({name: entry[name] for name in COLUMNS})


@checked()
def commit_properties(df: DataFrame, window: str = "window", *, stream: str | None = None) -> dict[str, str]:
    """Return options of a write that say which windows a commit has, and how complete they are.

    They are ``userMetadata``, for Delta Lake, and ``snapshot-property.tidemark``, for Iceberg; each ignores the other.
    There are none of a query without a controller.

    Args:
        df: what ``with_completeness`` returned, persisted: its windows are read by a job of their own.
        window: as there, and so ``stream``.

    Raises:
        ValueError: when it is not persisted, and as there.
        NotImplementedError: as there.
    """
    source = _source_of(df, stream)
    if source is None or source.answers is None:
        return {}
    if not (df.storageLevel.useMemory or df.storageLevel.useDisk):
        raise ValueError("the batch would be computed twice: write with_completeness(df).persist()")
    end_us, _ = _end_us(df, window, source)
    # distinct() would take as many tasks as Spark shuffles by.
    [(rows,)] = df.agg(F.collect_set(F.struct(end_us.alias("end"), *COLUMNS))).collect()
    return properties_of(source.job, source.stream, [row.asDict() for row in rows])


def properties_of(job: str, stream: str, windows: list[dict[str, Any]]) -> dict[str, str]:
    """Return what is said of a commit with these windows, each its ``end`` in microseconds and the four columns."""
    newest = sorted(windows, key=lambda one: one["end"], reverse=True)
    said = {
        "job": job,
        "stream": stream,
        "windows": [{**one, "end": _text(one["end"])} for one in newest[:MOST_LISTED]],
        "left_out": len(newest[MOST_LISTED:]),
    }
    return {"userMetadata": json.dumps({"tidemark": said}), "snapshot-property.tidemark": json.dumps(said)}


def map_of(estimates: Mapping[int, WindowEstimate]) -> str:
    """Return as SQL a map from the ends of windows, in microseconds, to the four columns.

    It is a part of the plan, so that there is no job and no join for it.
    """
    entries = (
        f"{end_us}L, struct({one.came_ppm / PPM:.6f}D, {one.came_min_ppm / PPM:.6f}D, {one.expected}L, {one.settled})"
        for end_us, one in estimates.items()
    )
    return f"cast({'map(' + ', '.join(entries) + ')' if estimates else 'null'} as {_TYPE})"


class WindowAnswers:
    """The last answer about the windows of a stream, which one thread at a time asks for."""

    def __init__(self, connection: Connection, job: str, stream: str) -> None:
        self._connection, self._key = connection, (job, stream)
        self._newest: dict[int, WindowEstimate] = {}
        self._thread = threading.Thread()
        self._rests_until_s = 0.0
        self._has_failed = False
        connection.sender.after_reports(job, stream, self._follow)

    @property
    def newest(self) -> Mapping[int, WindowEstimate]:
        """What is expected of windows by their ends, in microseconds; of none while the controller is away."""
        return {} if self._connection.sender.is_failing else self._newest

    def _follow(self, report: Report) -> None:
        if not self._thread.is_alive() and time.monotonic() >= self._rests_until_s:
            self._thread = threading.Thread(target=self._ask, args=(report,), daemon=True)
            self._thread.start()

    def _ask(self, report: Report) -> None:
        began_s = time.monotonic()
        # A batch has rows of windows only that the watermark before it had not passed.
        final_ms = report.final_watermark_ms
        passed_ms = report.watermark_ms if final_ms is None else final_ms
        try:
            windows = self._connection.client.windows(*self._key, passed_ms * SPARK_TICK_US)
            self._has_failed = False
        except Exception as error:  # noqa: BLE001 - whatever it is, the batches go on
            windows = []
            if not self._has_failed:
                _log.warning("%s/%s: how complete windows are is not known now: %s", *self._key, error)
            self._has_failed = True
        self._newest = {one.end_us: one.estimate for one in windows if one.estimate is not None}
        now_s = time.monotonic()
        self._rests_until_s = now_s + _REST * (now_s - began_s)


class _Source(NamedTuple):
    job: str
    stream: str
    size_us: int
    answers: WindowAnswers | None
    """None for a job without a controller."""


_answers_of = cache(WindowAnswers)


def _source_of(df: DataFrame, stream: str | None) -> _Source | None:
    """Return the stream of the query that runs on this thread; None without one that is watched."""
    if not hasattr(df, "_jdf"):
        raise NotImplementedError(_OVER_CONNECT)
    query_id = df.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    run = None if query_id is None else run_of(query_id)
    if run is None or not (metrics := list(run.streams)):
        return None
    named = {run.bindings[metric].settings.stream: metric for metric in metrics}
    if (len(named) > 1) if stream is None else (stream not in named):
        raise ValueError(
            f"say which stream the windows are of, stream=: the query has {', '.join(sorted(named))}"
        )
    metric = metrics[0] if stream is None else named[stream]
    settings, operator = run.bindings[metric].settings, run.streams[metric].operator
    if not isinstance(operator, TimeWindow):
        what = f"only windows of fixed ends can be complete, and the query has a {operator}"
        raise ValueError(what)  # noqa: TRY004 - no argument is of a wrong type
    connection = connection_to(settings)
    with _lock:
        answers = None if connection is None else _answers_of(connection, settings.job, settings.stream)
    return _Source(settings.job, settings.stream, operator.size_us, answers)


def _end_us(df: DataFrame, window: str, source: _Source | None) -> tuple[Column, Column]:
    """Return the end of a row's window in microseconds, and whether the window is one of the stream's operator."""
    kind = df.select(window).schema[0].dataType
    if isinstance(kind, TimestampType):
        return F.unix_micros(F.col(window)), F.lit(True)
    if not isinstance(kind, StructType) or not {"start", "end"} <= set(kind.names):
        raise ValueError(
            f"{window!r} is no window: name the column that groupBy(window(...)) made, or its end"
        )
    start_us, end_us = (F.unix_micros(F.col(f"{window}.{edge}")) for edge in ("start", "end"))
    # Windows of a second aggregate may end with one of the first.
    return end_us, end_us - start_us == (source.size_us if source else 0)


def _text(end_us: int) -> str:
    """Return a time as ISO 8601 has it."""
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=end_us)
    return moment.isoformat().replace("+00:00", "Z")
