"""A receiver of OpenTelemetry metrics over real HTTP on loopback."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import cast

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from support.bound_server import LoopbackServer

__all__ = ["OtlpReceiver", "labels_of"]


class OtlpReceiver(LoopbackServer):
    """Use it as a context; ``url`` is the endpoint.

    Args:
        hangs: whether it takes connections and answers nothing until it ends.
    """

    def __init__(self, *, hangs: bool = False) -> None:
        self.hangs = hangs
        self.asked = threading.Event()
        """Set once a request has come."""
        self.ended = threading.Event()
        self.requests: list[ExportMetricsServiceRequest] = []
        """What came, in order."""
        super().__init__(_Handler)

    def __exit__(self, *exception: object) -> None:
        self.ended.set()
        super().__exit__(*exception)

    def newest(self) -> dict[str, Metric]:
        """Return the metrics of the newest request by name."""
        (of_resource,) = self.requests[-1].resource_metrics
        (of_scope,) = of_resource.scope_metrics
        return {metric.name: metric for metric in of_scope.metrics}

    def resource(self) -> Mapping[str, str]:
        """Return what the newest request is of."""
        (of_resource,) = self.requests[-1].resource_metrics
        return labels_of(of_resource.resource.attributes)


def labels_of(attributes: list[KeyValue] | object) -> dict[str, str]:
    """Return attributes, all of which are texts."""
    return {each.key: each.value.string_value for each in cast("list[KeyValue]", attributes)}


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        receiver = cast("OtlpReceiver", self.server.said)  # type: ignore[attr-defined]  # see LoopbackServer
        body = self.rfile.read(int(self.headers["Content-Length"]))
        receiver.asked.set()
        if receiver.hangs:
            receiver.ended.wait()
            return
        assert (self.path, self.headers["Content-Type"]) == ("/v1/metrics", "application/x-protobuf")
        receiver.requests.append(ExportMetricsServiceRequest.FromString(body))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass
