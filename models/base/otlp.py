"""Whether metrics are to be sent by OTLP, by the standard environment variables of OpenTelemetry."""

from __future__ import annotations

from collections.abc import Mapping

SPOKEN = "http/protobuf"
"""The one protocol that is spoken, OpenTelemetry's default."""


def wants_otlp(environ: Mapping[str, str]) -> bool:
    """Return whether an environment names an endpoint for metrics, and does not turn them off.

    Raises:
        ValueError: when it asks for another protocol, with what to set.
    """

    def found(name: str) -> str:
        return environ.get(f"OTEL_EXPORTER_OTLP_METRICS_{name}") or environ.get(
            f"OTEL_EXPORTER_OTLP_{name}", ""
        )

    exporters = environ.get("OTEL_METRICS_EXPORTER") or "otlp"
    is_off = environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or "otlp" not in exporters.split(",")
    if is_off or not found("ENDPOINT"):
        return False
    protocol = found("PROTOCOL") or SPOKEN
    if protocol != SPOKEN:
        raise ValueError(
            f"{protocol} is not spoken; set OTEL_EXPORTER_OTLP_METRICS_PROTOCOL to "
            f"{SPOKEN}, and the endpoint to the collector's port for it, by default 4318"
        )
    return True


NOT_INSTALLED = (
    "no metrics are sent by OTLP, although OTEL_EXPORTER_OTLP_ENDPOINT is set: pip install 'tidemark[otel]'"
)
"""What is said where the extra is missing."""
