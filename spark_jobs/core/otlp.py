"""What became of the rows of a driver's streams, sent to an OpenTelemetry collector at intervals.

The interval, the endpoint and the rest are those of OpenTelemetry's standard environment variables. It is sent in a
thread of OpenTelemetry's SDK, which logs what fails: no batch waits for the collector.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any
from uuid import uuid4

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from requests import Session

Read = Callable[[str], Iterable[tuple[int, Mapping[str, str]]]]
"""Returns for a field of the counts its value in each run, with the attributes of the run; no unknown ones."""

_EXIT_MS = 2_000
"""How long the end of the driver waits for what is sent last: a collector that hangs must not hold it up."""


class OtlpSender:
    """Sends the counts of all runs.

    Args:
        fields: by field of the counts what it says; those of rows only grow during a run.
        read: reads the counts.
    """

    def __init__(self, fields: Mapping[str, str], read: Read) -> None:
        own = {"service.name": "tidemark-driver", "service.instance.id": str(uuid4())}
        # What the environment says goes before.
        resource = Resource.create().merge(Resource(own)).merge(OTELResourceDetector().detect())
        session = Session()
        # The body of an answer says nothing that is needed, and may have no end: it is not read.
        session.stream = True
        exporter = _Exporter(session=session)
        reader = PeriodicExportingMetricReader(exporter)
        self._provider = MeterProvider([reader], resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("tidemark")
        for field, text in fields.items():
            make = (
                meter.create_observable_counter if field.startswith("rows") else meter.create_observable_gauge
            )
            make(f"tidemark_driver_{field}", [partial(_observe, read, field)], description=text)
        name, text = "tidemark_driver_exports_failed", "Exports of these metrics that failed."
        meter.create_observable_counter(name, [lambda _: [Observation(exporter.failed)]], description=text)
        atexit.register(self._provider.shutdown, _EXIT_MS)

    def flush(self) -> None:
        """Send the present counts, and wait until that is done or has failed."""
        self._provider.force_flush()


class _Exporter(OTLPMetricExporter):
    failed = 0

    def export(self, *given: Any, **more: Any) -> MetricExportResult:
        """Send metrics, and count what fails."""
        self.failed += 1
        result = super().export(*given, **more)
        self.failed -= result is MetricExportResult.SUCCESS
        return result


def _observe(read: Read, field: str, _: CallbackOptions) -> Iterable[Observation]:
    return [Observation(value, attributes) for value, attributes in read(field)]
