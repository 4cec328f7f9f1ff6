"""The OpenAPI document: FastAPI's, with the schemas of bodies that handlers parse themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi
from fastapi.responses import FileResponse
from pydantic import TypeAdapter

from tidemark.controller.api import schemas
from tidemark.controller.api.bodies import PinBody, ReasonBody, RotationBody, TokenBody
from tidemark.controller.api.examples import EXAMPLES
from tidemark.controller.api.field_docs import DescribedFields
from tidemark.controller.api.security import document_access
from tidemark.controller.intake.report_body import ReportBody
from tidemark.controller.reports.body_page import ReportBodyPage
from tidemark.models.evidence.late_counts import LateCounts
from tidemark.models.protocol.messages import Acknowledgement, BoundAnswer
from tidemark.models.specs.shadow_slo import ShadowSlo
from tidemark.models.specs.slo import JoinSlo, Policy, Slo

API_VERSION = "1"
"""Version of the interface, not of the release: it grows when callers have to change."""

COMMITTED = Path(__file__).parents[1] / "openapi.json"
"""Where ``tidemark openapi`` has written the document."""

_DESCRIPTION = """\
Jobs report, per partition, how late their rows are; Tidemark recommends the lateness bound that meets a completeness
SLO at the lowest latency.

Times are integer microseconds (`_us`) or milliseconds (`_ms`), shares are integers in parts per million (`_ppm`); there
are no floats. `null` is unknown, never 0. Every error is a problem document (RFC 9457). Bodies
may be sent with `Content-Encoding: gzip`."""

_OF_THE_PAGE = frozenset({"getPreview", "getHistory", "getHeatmap", "getBudget"})
"""Operations whose answers have the shape of a part of the page."""

_SCHEMAS: tuple[tuple[Any, Literal["validation", "serialization"]], ...] = (
    (ReportBody, "validation"),
    (Slo, "validation"),
    (PinBody, "validation"),
    (Policy, "validation"),
    (Acknowledgement, "validation"),
    (LateCounts, "validation"),
    (BoundAnswer, "serialization"),
    (schemas.Problem, "serialization"),
    (schemas.SloAnswer, "serialization"),
    (schemas.PolicyAnswer, "serialization"),
    (schemas.SloSet, "serialization"),
    (schemas.PolicySet, "serialization"),
    (schemas.Receipt, "serialization"),
    (schemas.StreamStatus, "serialization"),
    (schemas.GateList, "serialization"),
    (schemas.StreamDeleted, "serialization"),
    (schemas.JobPage, "serialization"),
    (schemas.JobStatus, "serialization"),
    (schemas.ReportPage, "serialization"),
    (ReportBodyPage, "validation"),
    (schemas.MissingBatches, "serialization"),
    (schemas.ReportDetail, "serialization"),
    (schemas.AcknowledgementPage, "serialization"),
    (schemas.BoundPage, "serialization"),
    (schemas.FleetPage, "serialization"),
    (schemas.CurveAnswer, "serialization"),
    (schemas.PartitionCurve, "serialization"),
    (schemas.Preview, "serialization"),
    (JoinSlo, "validation"),
    (schemas.JoinAnswer, "serialization"),
    (schemas.JoinPage, "serialization"),
    (ShadowSlo, "validation"),
    (schemas.ShadowAnswer, "serialization"),
    (schemas.LostAnswer, "serialization"),
    (schemas.History, "serialization"),
    (schemas.Heatmap, "serialization"),
    (schemas.BudgetHistory, "serialization"),
    (schemas.PartitionPage, "serialization"),
    (schemas.PredictionPage, "serialization"),
    (schemas.PinAnswer, "serialization"),
    (schemas.PinPage, "serialization"),
    (schemas.Caller, "serialization"),
    (TokenBody, "validation"),
    (RotationBody, "validation"),
    (schemas.TokenAnswer, "serialization"),
    (schemas.TokenMade, "serialization"),
    (schemas.TokenPage, "serialization"),
    (ReasonBody, "validation"),
    (schemas.RolloutAnswer, "serialization"),
    (schemas.RolloutDetail, "serialization"),
    (schemas.RolloutPage, "serialization"),
    (schemas.EventPage, "serialization"),
    (schemas.Health, "serialization"),
)


def install(app: FastAPI) -> None:
    """Have ``app`` serve the document as it is committed, since to make it takes a second; at FastAPI's own path."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    def served(_: Request) -> Response:
        return FileResponse(COMMITTED, media_type="application/json")

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way
    app.add_route("/openapi.json", served, include_in_schema=False)


def as_text(app: FastAPI) -> str:
    """Return the document as it is committed."""
    return json.dumps(app.openapi(), indent=2, ensure_ascii=False) + "\n"


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(
        title="Tidemark controller",
        version=API_VERSION,
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        routes=app.routes,
    )
    inputs: list[tuple[str, Literal["validation", "serialization"], TypeAdapter[Any]]] = [
        (kind.__name__, mode, TypeAdapter(kind)) for kind, mode in _SCHEMAS
    ]
    _, defined = TypeAdapter.json_schemas(
        inputs, ref_template="#/components/schemas/{model}", schema_generator=DescribedFields
    )
    found = defined["$defs"]
    document["components"] = {"schemas": dict(sorted(found.items()))}
    document_access(document)
    _mark_unstable(document)
    _restore_examples(document)
    return document


def _mark_unstable(document: dict[str, Any]) -> None:
    for operations in document["paths"].values():
        for operation in operations.values():
            if operation["operationId"] in _OF_THE_PAGE:
                operation["x-unstable"] = True
                operation["description"] += (
                    "\n\nUnstable: it is made for the page and may change in any release."
                )


def _restore_examples(part: Any) -> None:
    """Put the examples back as they are: FastAPI leaves the nulls out of them."""
    if isinstance(part, dict):
        name = part.get("schema", {}).get("$ref", "").rpartition("/")[2] if "example" in part else ""
        if name in EXAMPLES:
            part["example"] = EXAMPLES[name]
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _restore_examples(inner)
