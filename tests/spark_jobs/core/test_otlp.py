"""A driver's metrics for an OpenTelemetry collector: what the reports say, and no burden where it is away."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from tidemark.models.base.operators import tumbling
from tidemark.spark_jobs.core.connections import listener_of
from tidemark.spark_jobs.core.driver_metrics import GAUGES, DriverMetrics

from support.oracles import Ledger
from support.otlp_receiver import OtlpReceiver, labels_of
from support.patience import PATIENCE_S, until
from support.spark_streams import Job, random_batches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.slow


def _values(metrics: Mapping[str, Metric]) -> dict[str, tuple[int, dict[str, str]]]:
    """Return the one point of each metric that has one, with what it is of."""
    found = {}
    for name, metric in metrics.items():
        for point in (*metric.gauge.data_points, *metric.sum.data_points):
            found[name.removeprefix("tidemark_driver_")] = point.as_int, labels_of(point.attributes)
    return found


@pytest.mark.spark
def test_the_last_counts_of_a_short_run_arrive_although_the_next_interval_is_far(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OtlpReceiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", f"{receiver.url}/v1/metrics")
        job = Job(spark, tmp_path, tumbling("5 seconds"), "update")
        metrics = DriverMetrics()
        monkeypatch.setattr(listener_of(spark), "metrics", metrics)
        query = job.start("1 second")
        try:
            job.write(random_batches(7, 4))
            query.processAllAvailable()
            query_id = str(query.id)
        finally:
            query.stop()
        until(lambda: receiver.requests, "the last counts")
        sent = _values(receiver.newest())
        until(lambda: not list(metrics.read("rows")), "the end of the run")
    ledger = Ledger()
    for report in job.recorded.reports:
        ledger.add(report)
    last = job.recorded.reports[-1]
    assert sent.pop("exports_failed") == (0, {})
    assert sent.keys() == GAUGES.keys()
    assert sent["rows_judged"][0] == ledger.completeness().rows > 0
    assert sent["rows_late"][0] == ledger.completeness().late_min > 0
    assert (sent["bound_ms"][0], sent["watermark_ms"][0]) == (1_000, last.watermark_ms)
    assert sent["rows"][1] == {"spark_job": last.job, "stream": last.stream, "query": query_id}
    assert receiver.newest()["tidemark_driver_rows_late"].sum.is_monotonic
    assert receiver.resource()["service.name"] == "tidemark-driver"


def test_a_driver_ends_at_once_while_its_collector_hangs() -> None:
    program = """
import sys
from tidemark.spark_jobs.core.otlp import OtlpSender
OtlpSender({"rows": "Rows."}, lambda field: [(1, {})])
sys.stdin.readline()
"""
    with OtlpReceiver(hangs=True) as receiver:
        environment = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.url,
            "OTEL_EXPORTER_OTLP_TIMEOUT": "3600",
            "OTEL_METRIC_EXPORT_INTERVAL": "50",
        }
        driver = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, env=environment)
        try:
            assert receiver.asked.wait(PATIENCE_S)
            driver.communicate(b"\n", timeout=PATIENCE_S)
        finally:
            driver.kill()
            driver.wait()
    assert driver.returncode == 0


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, ""),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_METRICS_EXPORTER": "none"}, ""),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "grpc is not spoken",
        ),
    ],
)
def test_a_driver_sends_nothing_where_it_is_not_asked_to_in_what_it_speaks(
    environment: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert DriverMetrics()._otlp is None
    assert bool(caplog.text) == bool(said)
    assert said in caplog.text
