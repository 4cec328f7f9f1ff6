"""The one line on the user's side: ``.transform(adaptive_watermark(...))`` in place of ``.withWatermark(...)``.

    clicks.withWatermark("ts", "10 minutes")
    clicks.transform(adaptive_watermark("ts", "10 minutes", tumbling("1 minute"), stream="clicks"))

It puts the tap before the watermark, asks for the bound, and applies it. Without a controller it is
``withWatermark`` with the job's own bound, plus the tap.
"""

from __future__ import annotations

import itertools
import logging
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from tidemark.models.duration import format_duration, parse_duration
from tidemark.models.granules import default_granule_us
from tidemark.models.operators import Operator
from tidemark.models.wire import Acknowledgement, Report
from tidemark.spark_jobs.bound import BoundCache, choose_bound_at_start
from tidemark.spark_jobs.client import ControllerClient
from tidemark.spark_jobs.listener import Binding, ReportSink, TidemarkListener
from tidemark.spark_jobs.sender import Sender
from tidemark.spark_jobs.settings import JobSettings
from tidemark.spark_jobs.tap import DEFAULT_MAX_KEYS, MOST_KEYS, Tap

__all__ = ["adaptive_watermark", "flush"]

_KAFKAS = "partition"
_ALLOW_MULTIPLE = "spark.sql.streaming.statefulOperator.allowMultiple"
_log = logging.getLogger("tidemark.spark")
_lock = threading.Lock()
_listeners: dict[SparkSession, TidemarkListener] = {}
_senders: dict[tuple[str, Path | None], tuple[ControllerClient, Sender]] = {}
_numbers = itertools.count()


class _Nowhere:
    """The sink of a job that has no controller."""

    given_up = 0

    def report(self, report: Report) -> None:
        """Drop the report."""

    def acknowledge(self, job: str, stream: str, acknowledgement: Acknowledgement) -> None:
        """Drop the acknowledgement."""


def adaptive_watermark(
    event_time: str,
    bound: str,
    operator: Operator,
    *,
    stream: str | None = None,
    partition: str | None = _KAFKAS,
    granule: str | None = None,
    max_keys: int = DEFAULT_MAX_KEYS,
    job: str | None = None,
    controller_url: str | None = None,
    token_file: str | None = None,
    sink: ReportSink | None = None,
) -> Callable[[DataFrame], DataFrame]:
    """Return the transformation that replaces ``withWatermark(event_time, bound)``.

    Args:
        event_time: the event-time column, of type timestamp.
        bound: the job's own bound, used when the controller gives none; a Spark interval such as ``"10 minutes"``.
        operator: the stateful operator the watermark is for: ``tumbling``, ``sliding``, ``session`` or ``row_level``.
        stream: name of the stream within the job; conf ``spark.tidemark.stream`` unless given.
        partition: column that names the partition of a row, as Kafka's source has it; without such a column, or with
            None, the whole stream is one partition.
        granule: width of the event-time grid on which rows are counted; an exact one for the operator unless given.
        max_keys: distinct (partition, granule) pairs a batch may hold and still be counted exactly.
        job: name of the job; conf ``spark.tidemark.job``, else the application's name, unless given.
        controller_url: address of the controller; conf ``spark.tidemark.controller.url`` unless given.
        token_file: file with the bearer token; conf ``spark.tidemark.token.file`` unless given.
        sink: takes the reports instead of the controller, for tests and demonstrations.

    Raises:
        ValueError: when an argument or conf is wrong, a column is missing, or the granule would make counts inexact.
        NotImplementedError: under Spark Connect, which has no listener in the driver's process.
    """
    own_bound_ms = _bound_ms(bound)
    granule_us = parse_duration(granule) if granule is not None else default_granule_us(operator)
    _refuse_granule(granule_us, operator)
    if not 1 <= max_keys <= MOST_KEYS:
        raise ValueError(f"max_keys must be at least 1 and at most {MOST_KEYS}, not {max_keys}")

    def transform(df: DataFrame) -> DataFrame:
        spark = df.sparkSession
        _refuse_session(spark)
        # Kafka's source has the column by default; another name was meant, and must be there.
        absent = partition == _KAFKAS and partition not in df.columns
        tap = Tap(event_time, None if absent else partition, granule_us, operator.closed, max_keys)
        tap.refuse(df)
        settings = JobSettings.read(
            spark.conf.get,
            job=job,
            stream=stream,
            controller_url=controller_url,
            token_file=token_file,
        )
        client, sender = _connect(settings)
        chosen = choose_bound_at_start(
            settings.job,
            settings.stream,
            own_bound_ms,
            client,
            BoundCache(settings.cache_dir, settings.controller_url or ""),
            settings.timeout_s,
        )
        metric = f"tidemark:{settings.stream}:{next(_numbers)}"
        _listener(spark).bind(
            metric,
            Binding(
                job=settings.job,
                stream=settings.stream,
                tap=tap,
                operator=operator,
                bound_ms=chosen.bound_ms,
                source=chosen.source,
                mode=chosen.mode,
                generation=chosen.generation,
                sink=sink or sender or _Nowhere(),
            ),
        )
        _say(
            f"tidemark: job={settings.job} stream={settings.stream} bound={format_duration(chosen.bound_ms * 1_000)} "
            f"source={chosen.source} generation={chosen.generation} mode={chosen.mode} "
            f"controller={settings.controller_url} ({chosen.reason})"
        )
        return tap.observe(df, metric).withWatermark(event_time, f"{chosen.bound_ms} milliseconds")

    return transform


def flush(timeout_s: float = 10.0) -> bool:
    """Wait until the batches of ended queries are reported and the reports have left the driver.

    Call it before a short job (``trigger(availableNow=True)``) ends: Spark tells of batches asynchronously. Returns
    whether all went out in time.
    """
    deadline = time.monotonic() + timeout_s
    with _lock:
        listeners = list(_listeners.values())
        senders = [sender for _, sender in _senders.values()]
    told = [listener.wait_for_ended_runs(deadline - time.monotonic()) for listener in listeners]
    sent = [sender.flush(max(deadline - time.monotonic(), 0)) for sender in senders]
    return all(told) and all(sent)


def _bound_ms(bound: str) -> int:
    bound_us = parse_duration(bound)
    if bound_us < 0 or bound_us % 1_000:
        raise ValueError(f"bound {bound!r} must be at least 0 and in whole milliseconds, as Spark's delay is")
    return bound_us // 1_000


def _refuse_granule(granule_us: int, operator: Operator) -> None:
    if granule_us <= 0 or granule_us % 1_000:
        raise ValueError(
            f"granule {format_duration(granule_us)} must be a positive number of whole milliseconds"
        )
    if not operator.granule_fits(granule_us):
        raise ValueError(
            f"granule {format_duration(granule_us)} must divide size, slide and start of the {operator}, "
            "else rows of one granule would belong to different windows"
        )


def _refuse_session(spark: SparkSession) -> None:
    if not hasattr(spark, "_jsparkSession"):
        raise NotImplementedError(
            "Spark Connect is not supported: the listener must run in the driver's process"
        )
    if (spark.conf.get(_ALLOW_MULTIPLE, "true") or "").strip().lower() == "false":
        raise ValueError(
            f"{_ALLOW_MULTIPLE}=false changes Spark's late rule; unset it, the ledger would be wrong"
        )


def _listener(spark: SparkSession) -> TidemarkListener:
    with _lock:
        listener = _listeners.get(spark)
        if listener is None:
            listener = _listeners[spark] = TidemarkListener(spark)
            spark.streams.addListener(listener)
        return listener


def _connect(settings: JobSettings) -> tuple[ControllerClient | None, Sender | None]:
    if settings.controller_url is None:
        return None, None
    with _lock:
        where = settings.controller_url, settings.token_file
        if where not in _senders:
            try:
                client = ControllerClient(settings.controller_url, settings.token_file, settings.timeout_s)
            except Exception:  # noqa: BLE001 - proxies and certificates of the environment; the job must start
                _log.exception(
                    "no connection to %s can be made; nothing is reported", settings.controller_url
                )
                return None, None
            _senders[where] = client, Sender(client, settings.queue_reports)
        return _senders[where]


def _say(line: str) -> None:
    """Log one line so that it is in the driver's log even if nobody configured Python's logging."""
    if _log.isEnabledFor(logging.INFO) and _log.hasHandlers():
        _log.info(line)
    else:
        print(line, file=sys.stderr, flush=True)  # noqa: T201
