"""What became of a running query's rows, among Spark's own metrics of that query.

With ``spark.sql.streaming.metricsEnabled`` Spark has a registry of gauges for each query, which every sink of the
driver's metrics shows until the query ends. Ours are put beside them. Each holds a value that is set after a report, so
that no scrape waits for Python.
Without it nothing is judged here.
"""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tidemark.models.evidence.ledger import effective_bound_ms, judge
from tidemark.models.protocol.messages import Report
from tidemark.spark_jobs.spark.jvm import GAUGE, Py4JJavaError, find
from tidemark.spark_jobs.spark.running_query import RunningQuery

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
        ledger = judge(report)
        total = ledger.total
        uncertain = total.late_max - total.late_min
        watermark_ms = report.watermark_ms or None
        ended_ms = report.started_us // 1_000 + report.duration_ms
        return StreamCounts(
            bound_ms=report.bound_ms,
            batch_id=report.batch_id,
            rows=self.rows + report.rows,
            rows_judged=self.rows_judged + total.rows - uncertain,
            rows_late=self.rows_late + total.late_min,
            rows_unknown=self.rows_unknown + ledger.unjudged_rows + uncertain,
            watermark_ms=watermark_ms,
            watermark_lag_ms=None if watermark_ms is None else ended_ms - watermark_ms,
            bound_effective_ms=effective_bound_ms(report.late_base_ms, report.late_watermark_ms or 0),
        )


@dataclass(slots=True)
class _Shown:
    """A stream in one run of a query."""

    counts: StreamCounts
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
    """The streams of the runs that go on, where Spark's metrics are on. No method raises."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[str, _Shown]] = {}

    def started(self, run_id: str, query: RunningQuery, bounds: Mapping[str, int]) -> None:
        """Take a run that begins.

        Args:
            run_id: its id.
            query: its query. Spark must not have dropped the query's metrics yet, as it does when the query ends.
            bounds: of each of its streams, in milliseconds.
        """
        try:
            if not query.has_metrics():
                return
            self._runs[run_id] = shown = {
                stream: _Shown(StreamCounts(bound_ms=bound_ms)) for stream, bound_ms in bounds.items()
            }
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
        """Forget a run. Spark drops its metrics by itself."""
        self._runs.pop(run_id, None)

    def of(self, run_id: str) -> dict[str, StreamCounts]:
        """Return what is known of each stream of a run; nothing of one that is not known."""
        return {stream: shown.counts for stream, shown in dict(self._runs.get(run_id, {})).items()}


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
