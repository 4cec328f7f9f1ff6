"""Metrics for an OpenTelemetry collector: those of a scrape, and no burden where the collector is away."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from itertools import accumulate

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric
from prometheus_client.parser import text_string_to_metric_families

from support.controller_app import Controller
from support.otlp_receiver import OtlpReceiver, labels_of
from support.patience import PATIENCE_S, until
from support.whole_stream import whole_controller

pytestmark = pytest.mark.slow

CHANGING = (
    "tidemark_scrape_duration_seconds",
    "tidemark_loop_idle_seconds",
    "tidemark_tick_duration_seconds",
)
"""What differs from one scrape to the next."""

Environment = Callable[[str], None]
Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Environment:
    """Set the endpoint, and send often."""

    def named(url: str) -> None:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")

    return named


def _key(name: str, labels: dict[str, str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    return name, tuple(sorted(labels.items()))


def _sent(metrics: dict[str, Metric]) -> Samples:
    """Return what was sent as samples of Prometheus."""
    found: Samples = {}
    for name, metric in metrics.items():
        for point in (*metric.gauge.data_points, *metric.sum.data_points):
            suffix = "_total" if metric.HasField("sum") else ""
            found[_key(name + suffix, labels_of(point.attributes))] = point.as_double
        for each in metric.histogram.data_points:
            labels = labels_of(each.attributes)
            found[_key(f"{name}_sum", labels)] = each.sum
            found[_key(f"{name}_count", labels)] = each.count
            bounds = [*map(str, each.explicit_bounds), "+Inf"]
            for bound, count in zip(bounds, accumulate(each.bucket_counts), strict=True):
                found[_key(f"{name}_bucket", {**labels, "le": bound})] = count
    return found


def _scraped(controller: Controller) -> Samples:
    text = controller.http.get("/metrics").text
    return {
        _key(sample.name, sample.labels): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def _steady(samples: Samples) -> Samples:
    return {key: value for key, value in samples.items() if not key[0].startswith(CHANGING)}


def test_every_sample_of_a_scrape_arrives_at_the_collector(
    database_url: str, endpoint: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    with OtlpReceiver() as receiver:
        endpoint(receiver.url)
        with whole_controller(database_url) as controller:
            until(receiver.requests.__len__, "a first request")
            scraped = _scraped(controller)
            # The loop goes on meanwhile.
            until(
                lambda: _steady(_sent(receiver.newest())) == _steady(_scraped(controller)), "the same samples"
            )
            assert _sent(receiver.newest()).keys() == scraped.keys()
            assert len(scraped) > 100
    resource = receiver.resource()
    assert resource["service.name"] == "tidemark-controller"
    assert resource["service.instance.id"]
    assert resource["deployment.environment.name"] == "test"
    judged = receiver.newest()["tidemark_rows_judged"].sum
    assert judged.is_monotonic
    assert judged.data_points[0].time_unix_nano == controller.clock() * 1_000


@pytest.mark.parametrize("hangs", [True, False], ids=["hangs", "is away"])
def test_a_controller_works_and_stops_as_ever_while_its_collector(
    database_url: str, endpoint: Environment, monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    """Sending may take an hour here, far longer than the test may."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600" if hangs else "1")
    with OtlpReceiver(hangs=True) as receiver:
        endpoint(receiver.url if hangs else "http://127.0.0.1:1")
        with Controller(database_url) as controller:
            if hangs:
                assert receiver.asked.wait(PATIENCE_S)
            controller.put("/slo", {"target_ppm": 990_000})
            assert controller.tick().failed == 0
            if not hangs:
                failed = ("tidemark_otlp_failures_total", ())
                until(lambda: _scraped(controller)[failed], "an export that failed")


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("OTEL_SDK_DISABLED", "true", None),
        ("OTEL_METRICS_EXPORTER", "none", None),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "", None),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "running without metrics by OTLP: grpc is not spoken; set "),
    ],
)
def test_nothing_is_sent_where_the_environment_does_not_ask_for_it(
    database_url: str,
    endpoint: Environment,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    name: str,
    value: str,
    said: str | None,
) -> None:
    endpoint("http://127.0.0.1:1")
    monkeypatch.setenv(name, value)
    with caplog.at_level(logging.WARNING), Controller(database_url) as controller:
        assert controller.service.otlp is None
    assert ("OTLP" in caplog.text) == (said is not None)
    assert said is None or said in caplog.text


def test_a_missing_extra_is_named_and_stops_nothing(
    database_url: str,
    endpoint: Environment,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint("http://127.0.0.1:1")
    monkeypatch.setitem(sys.modules, "tidemark.controller.view.metrics.otlp", None)
    with Controller(database_url) as controller:
        assert controller.service.otlp is None
    assert "pip install 'tidemark[otel]'" in caplog.text
