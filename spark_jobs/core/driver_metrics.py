"""What became of a running query's rows, among Spark's own metrics of that query.

With ``spark.sql.streaming.metricsEnabled`` Spark has a registry of gauges for each query, which every sink of the
driver's metrics shows until the query ends. Ours are put beside them. Each holds a value that is set after a report, so
that no scrape waits for Python. The same numbers go to an OpenTelemetry collector, where the environment names one.
Without either nothing is judged here.
"""

from __future__ import annotations

import logging
import math
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Thread
from typing import TYPE_CHECKING, Any

from tidemark.models.base.otlp import NOT_INSTALLED, wants_otlp
from tidemark.models.evidence.ledger import effective_bound_ms, judge
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs.spark.jvm import GAUGE, Py4JJavaError, find
from tidemark.spark_jobs.spark.running_query import RunningQuery

if TYPE_CHECKING:
    from tidemark.spark_jobs.core.otlp import OtlpSender

GAUGES: Mapping[str, str] = {
    "rows": "Rows that reached the tap.",
    "rows_judged": "(Row, key) pairs whose fate is known. A row of sliding windows has a key for each of its windows.",
    "rows_late": "(Row, key) pairs among them that were late.",
    "rows_unknown": "Rows that could not be judged, and pairs that may have been late.",
    "watermark_ms": "Watermark in force in the newest batch, in milliseconds since 1970.",
    "watermark_lag_ms": "How far it trailed the clock at the end of that batch, in milliseconds.",
    "bound_ms": "Bound in the plan, in milliseconds; in Live, the ceiling.",
    "bound_effective_ms": "How far the watermark that judged the newest rows really trailed the maximum event time.",
}
"""By field of ``StreamCounts`` what it and its gauge say."""

_NEITHER = re.compile("[^A-Za-z0-9_]")
_log = logging.getLogger("tidemark.spark")


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamCounts:
    """What is known of a stream since the present run of its query began; see ``GAUGES``. None is unknown."""

    bound_ms: int
    batch_id: int | None = None
    """The newest batch that is counted; None before the first."""
    rows: int = 0
    rows_judged: int = 0
    rows_late: int = 0
    rows_unknown: int = 0
    watermark_ms: int | None = None
    watermark_lag_ms: int | None = None
    bound_effective_ms: int | None = None

    def after(self, report: Report) -> StreamCounts:
        """Return what is known after another batch."""
        found = judge(report)
        total = found.total
        uncertain = total.late_max - total.late_min
        watermark_ms = report.watermark_ms or None
        ended_ms = report.started_us // 1_000 + report.duration_ms
        return StreamCounts(
            bound_ms=report.bound_ms,
            batch_id=report.batch_id,
            rows=self.rows + report.rows,
            rows_judged=self.rows_judged + total.rows - uncertain,
            rows_late=self.rows_late + total.late_min,
            rows_unknown=self.rows_unknown + found.unjudged_rows + uncertain,
            watermark_ms=watermark_ms,
            watermark_lag_ms=None if watermark_ms is None else ended_ms - watermark_ms,
            bound_effective_ms=effective_bound_ms(report.late_base_ms, report.late_watermark_ms or 0),
        )


@dataclass(slots=True)
class _Shown:
    """A stream in one run of a query."""

    counts: StreamCounts
    attributes: Mapping[str, str]
    """What its numbers are of, for OpenTelemetry."""
    registry: Any = None
    """Spark's metrics of the query, in the JVM; None where they cannot be had."""
    gauges: dict[str, Any] = field(default_factory=dict)
    """By field of the counts, in the JVM."""

    def show(self, stream: str, registry: Any, make: Any) -> None:
        """Put gauges into a registry, all or none."""
        self.registry = registry
        try:
            for name in GAUGES:
                gauge = make(_value(self.counts, name))
                registry.register(gauge_name(stream, name), gauge)
                self.gauges[name] = gauge
        except Exception:
            self.hide(stream)
            raise

    def hide(self, stream: str) -> None:
        """Take the gauges away."""
        for name in self.gauges:
            self.registry.remove(gauge_name(stream, name))
        self.gauges.clear()

    def turn_to(self, counts: StreamCounts) -> None:
        """Set what has changed: each call of the JVM takes a tenth of a millisecond."""
        for name, gauge in self.gauges.items():
            value = _value(counts, name)
            if value != _value(self.counts, name):
                gauge.setValue(value)
        self.counts = counts


class DriverMetrics:
    """The streams of the runs that go on, where Spark's metrics or OpenTelemetry's are on. No method raises."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, _Shown]] = {}
        self._otlp = _otlp_sender(self)
        self._sending: Thread | None = None
        """Sends the last counts of a run that has ended."""

    def started(self, run_id: str, query: RunningQuery, streams: Mapping[str, tuple[str, int]]) -> None:
        """Take a run that begins.

        Args:
            run_id: its id.
            query: its query. Spark must not have dropped the query's metrics yet, as it does when the query ends.
            streams: the job and the bound, in milliseconds, of each of its streams.
        """
        try:
            has_metrics = query.has_metrics()
            if not has_metrics and self._otlp is None:
                return
            self._runs[run_id] = shown = {
                stream: _Shown(
                    StreamCounts(bound_ms=bound_ms),
                    {"spark_job": job, "stream": stream, "query": query.query_id},
                )
                for stream, (job, bound_ms) in streams.items()
            }
            if not has_metrics:
                return
            registry = query.metric_registry()
            if registry is None:
                _log.warning("running without %s: they are out of this process's reach", GAUGE.without)
                return
            make = find(GAUGE)
            for stream in shown if make is not None else ():
                shown[stream].show(stream, registry, make)
        except Exception as error:  # noqa: BLE001 - the query must start
            _log.warning("running without %s: %s", GAUGE.without, _why(error))

    def add(self, report: Report) -> None:
        """Count a batch."""
        shown = self._runs.get(report.run_id, {}).get(report.stream)
        if shown is None:
            return
        try:
            shown.turn_to(shown.counts.after(report))
        except Exception as error:  # noqa: BLE001 - the report must go out, and the query goes on
            del self._runs[report.run_id][report.stream]  # counts without a batch would be wrong
            with suppress(Exception):
                shown.hide(report.stream)
            _log.warning("stream %s: running without %s: %s", report.stream, GAUGE.without, _why(error))

    def ended(self, run_id: str) -> None:
        """Forget a run, once its last counts are sent. Spark drops its metrics by itself."""
        if self._otlp is None or (self._sending is not None and self._sending.is_alive()):
            self._runs.pop(run_id, None)
            return
        # A short run may never have been sent; one at a time, because a collector can hang.
        self._sending = Thread(
            target=self._send_last, args=(run_id, self._otlp), name="tidemark-otlp", daemon=True
        )
        self._sending.start()

    def _send_last(self, run_id: str, otlp: OtlpSender) -> None:
        with suppress(Exception):  # the SDK logs what it could not send
            otlp.flush()
        self._runs.pop(run_id, None)

    def read(self, name: str) -> Iterable[tuple[int, Mapping[str, str]]]:
        """Yield the value of a field of the counts in each run, with what it is of; no unknown ones."""
        for streams in list(self._runs.values()):
            for shown in list(streams.values()):
                value = getattr(shown.counts, name)
                if value is not None:
                    yield value, shown.attributes

    def of(self, run_id: str) -> dict[str, StreamCounts]:
        """Return what is known of each stream of a run; nothing of one that is not known."""
        return {stream: shown.counts for stream, shown in dict(self._runs.get(run_id, {})).items()}


def _otlp_sender(metrics: DriverMetrics) -> OtlpSender | None:
    try:
        if not wants_otlp(os.environ):
            return None
        from tidemark.spark_jobs.core.otlp import OtlpSender  # noqa: PLC0415 - an extra

        return OtlpSender(GAUGES, metrics.read)
    except ImportError:
        _log.warning(NOT_INSTALLED)
    except Exception as error:  # noqa: BLE001 - the job must start
        _log.warning("running without metrics by OTLP: %s", error)
    return None


def gauge_name(stream: str, name: str) -> str:
    """Return the name of a stream's gauge among its query's, such as ``tidemark-clicks-rowsLate``.

    It has no dot, as Spark's own have none: systems that group metrics by their dots then keep a query's together.
    """
    first, *more = name.split("_")
    return f"tidemark-{_NEITHER.sub('_', stream)}-{first}{''.join(each.capitalize() for each in more)}"


def _why(error: Exception) -> object:
    return error.java_exception.toString() if isinstance(error, Py4JJavaError) else error


def _value(counts: StreamCounts, name: str) -> float:
    """Return what a gauge shows; not a number where that is not known, which Prometheus can read and null is not."""
    value: int | None = getattr(counts, name)
    return math.nan if value is None else value
