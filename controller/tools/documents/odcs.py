"""The SLO of a stream and how it is kept, as a contract of the Open Data Contract Standard (ODCS), version 3.1.0.

What is agreed stands in ``slaProperties``. The standard has no place for what is measured, so that stands in
``customProperties``; what is not known is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tidemark.controller.base.clock import utc_text
from tidemark.controller.server.schemas.charts import CurvePointAnswer
from tidemark.controller.server.schemas.specs import SloAnswer
from tidemark.controller.server.schemas.streams import StreamStatus
from tidemark.controller.tools.documents.openslo import dashed_name
from tidemark.models.base.duration import format_duration

API_VERSION = "v3.1.0"
"""The version of the standard that is written."""

_PPM_A_PERCENT = 10_000


def odcs_document(
    job: str, stream: str, slo: SloAnswer, status: StreamStatus, now: CurvePointAnswer | None
) -> dict[str, Any]:
    """Return the contract of a stream.

    Args:
        job: name of the job.
        stream: name of the stream.
        slo: what is agreed.
        status: how it is kept.
        now: what the bound of now does; None when that is not known.
    """
    measured = [
        {"property": name, "value": value, "description": text}
        for name, value, text in _measured(status, now)
        if value is not None
    ]
    return {
        "apiVersion": API_VERSION,
        "kind": "DataContract",
        "id": dashed_name(job, stream),
        "name": f"{job}/{stream}",
        "version": str(slo.generation),
        "status": "active",
        "slaProperties": list(_agreed(slo)),
        "customProperties": measured,
    }


def _agreed(slo: SloAnswer) -> Iterator[dict[str, Any]]:
    completeness: dict[str, Any] = {
        "id": "completeness",
        "property": "completeness",
        "value": slo.target_ppm / _PPM_A_PERCENT,
        "unit": "%",
        "driver": "operational",
    }
    over = f"over {format_duration(slo.window_ms * 1_000)}"
    if slo.objective == "occurrences":
        completeness["description"] = (
            f"Share of the rows that are admitted before their window closes, {over}."
        )
    else:
        completeness["valueExt"] = slo.good_windows_ppm / _PPM_A_PERCENT
        completeness["description"] = (
            f"Share of the rows of a window that are admitted before it closes, in valueExt % of the windows, {over}."
        )
    yield completeness
    if slo.latency_cap_ms is not None:
        yield {
            "id": "latency",
            "property": "latency",
            "value": slo.latency_cap_ms / 1_000,
            "unit": "s",
            "driver": "operational",
            "description": "Maximum mean time from the end of a window until it comes out.",
        }


def _measured(status: StreamStatus, now: CurvePointAnswer | None) -> Iterator[tuple[str, Any, str]]:
    found, evidence = status.completeness, status.evidence
    over = f"over the last {format_duration(evidence.horizon_ms * 1_000)} of reports"
    yield (
        "completenessMinimum",
        _percent(found.min_ppm),
        f"Share of the rows admitted for sure, in percent, {over}.",
    )
    yield (
        "completenessMaximum",
        _percent(found.max_ppm),
        f"Share of the rows that may be admitted, in percent, {over}.",
    )
    if found.min_ppm is not None:
        yield (
            "completenessProvisional",
            found.provisional,
            "Whether rows can still be admitted to open windows.",
        )
    wall_ms = None if now is None else now.latency_wall_ms
    yield (
        "latencyMean",
        None if wall_ms is None else wall_ms / 1_000,
        f"Mean time from the end of a window until it comes out, in seconds, {over}.",
    )
    remaining_ppm = None if status.budget is None else status.budget.remaining_ppm
    yield (
        "errorBudgetRemaining",
        _percent(remaining_ppm),
        "Share of the error budget that is left, in percent.",
    )
    if evidence.to_us is not None:
        yield "measuredUntil", utc_text(evidence.to_us), "Trigger time of the newest batch that is counted."


def _percent(ppm: int | None) -> float | None:
    return None if ppm is None else ppm / _PPM_A_PERCENT
