"""The metrics of a scrape, sent to an OpenTelemetry collector at intervals.

They are those that ``/metrics`` answers, under Prometheus' names, without ``_total``, which a collector puts there
again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from itertools import groupby, pairwise
from uuid import uuid4

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    MetricExportResult,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
)
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import Counter
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample
from requests import Session

from tidemark.controller.base.background import TickingThread
from tidemark.controller.base.clock import Clock
from tidemark.controller.view.metrics.scrape import Scrape

_DEFAULT_INTERVAL_MS = 60_000
_STOP_SECONDS = 1.0
"""How long a shutdown waits for what is being sent: a collector that hangs must not hold it up."""

_UNKNOWN_START = 0
"""When a sum began: the store's counters are older than this process."""

_log = logging.getLogger(__name__)


class OtlpExport(TickingThread):
    """Sends all metrics at intervals, by the standard environment variables; what fails is logged, and left out.

    Args:
        scrape: what is sent.
        clock: the wall time in microseconds.
        failures: counts what could not be sent.
    """

    def __init__(self, scrape: Scrape, clock: Clock, failures: Counter) -> None:
        super().__init__("otlp", self.send, _interval_seconds(), stop_seconds=_STOP_SECONDS)
        self._scrape = scrape
        self._clock = clock
        session = Session()
        # The body of an answer says nothing that is needed, and may have no end: it is not read.
        session.stream = True
        self._exporter = OTLPMetricExporter(session=session)
        self._failures = failures
        own = {"service.name": "tidemark-controller", "service.instance.id": str(uuid4())}
        # What the environment says goes before.
        self._resource = Resource.create().merge(Resource(own)).merge(OTELResourceDetector().detect())

    def send(self) -> None:
        """Send all metrics as they are now."""
        now_ns = self._clock() * 1_000
        metrics = [
            Metric(family.name, family.documentation, "", _data(family, now_ns))
            for family in self._scrape.families()
        ]
        scope = ScopeMetrics(InstrumentationScope("tidemark"), metrics, "")
        sent = self._exporter.export(MetricsData([ResourceMetrics(self._resource, [scope], "")]))
        if sent is not MetricExportResult.SUCCESS:
            self._failures.inc()

    def stop(self) -> None:
        """End what is being sent, and send no more."""
        self.stopping.set()
        self._exporter.shutdown()
        super().stop()


def _interval_seconds() -> float:
    given = os.environ.get("OTEL_METRIC_EXPORT_INTERVAL") or str(_DEFAULT_INTERVAL_MS)
    if given.isdecimal() and int(given) > 0:
        return int(given) / 1_000
    _log.warning(
        "OTEL_METRIC_EXPORT_INTERVAL %r is not a number of milliseconds; %d are taken",
        given,
        _DEFAULT_INTERVAL_MS,
    )
    return _DEFAULT_INTERVAL_MS / 1_000


def _data(family: Family, now_ns: int) -> Gauge | Histogram | Sum:
    if family.type == "histogram":
        return Histogram(list(_histograms(family, now_ns)), AggregationTemporality.CUMULATIVE)
    points = [
        NumberDataPoint(sample.labels, _UNKNOWN_START, now_ns, float(sample.value))
        for sample in family.samples
        if not sample.name.endswith("_created")
    ]
    if family.type == "counter":
        return Sum(points, AggregationTemporality.CUMULATIVE, is_monotonic=True)
    # Quantiles too: OpenTelemetry's SDK has no summaries.
    return Gauge(points)


def _histograms(family: Family, now_ns: int) -> Iterator[HistogramDataPoint]:
    def labels_of(sample: Sample) -> dict[str, str]:
        return {name: value for name, value in sample.labels.items() if name != "le"}

    # All samples of one set of labels stand together.
    for labels, group in groupby(family.samples, labels_of):
        samples = list(group)
        buckets = [sample for sample in samples if sample.name.endswith("_bucket")]
        (total,) = (sample.value for sample in samples if sample.name.endswith("_sum"))
        counts = [int(sample.value) for sample in buckets]
        yield HistogramDataPoint(
            labels,
            _UNKNOWN_START,
            now_ns,
            count=counts[-1],
            sum=total,
            bucket_counts=[counts[0], *(after - before for before, after in pairwise(counts))],
            explicit_bounds=[float(sample.labels["le"]) for sample in buckets[:-1]],
            min=None,  # type: ignore[arg-type] # Prometheus has neither, and OTLP needs neither
            max=None,  # type: ignore[arg-type]
        )
