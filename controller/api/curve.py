"""The completeness-latency curve of a stream."""

from __future__ import annotations

import math
from typing import Annotated

from fastapi import APIRouter, Query

from tidemark.controller.api import schemas
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.api.views import share_ppm
from tidemark.controller.decision import Basis
from tidemark.controller.report_checks import MAX_DURATION_MS
from tidemark.controller.store.specs import DEFAULT_HORIZON_MS, get_slo
from tidemark.controller.store.streams import get_stream
from tidemark.models.curve import Curve
from tidemark.models.sketch import DEFAULT_RELATIVE_ACCURACY_PPM

__all__ = ["router"]

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

LADDER = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9999, 1.0)
"""Shares of the rows whose needs make the default bounds: denser where targets are set."""

Bounds = Annotated[
    list[Annotated[int, Query(ge=0, le=MAX_DURATION_MS)]],
    Query(
        max_length=1_000,
        description="Bounds to ask about, in milliseconds; a ladder over the needs without any.",
    ),
]


@router.get(
    "/curve",
    operation_id="getCurve",
    summary="Completeness and latency by bound",
    responses=answers("Curve", 404, 422, 503),
)
def get_curve(which: WhichStream, service: TheService, bound_ms: Bounds = []) -> schemas.Curve:  # noqa: B006 - never changed
    """Say what each bound would have cost and kept over the horizon."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        slo = get_slo(session, stream_id)
        horizon_ms = DEFAULT_HORIZON_MS if slo is None else slo.value.horizon_ms
        basis = service.decider.basis(session, stream_id, horizon_ms)
    asked = sorted(set(bound_ms)) or ladder(basis)
    return schemas.Curve(
        job=which.job,
        stream=which.stream,
        basis=schemas.CurveBasis(
            horizon_ms=horizon_ms,
            from_us=basis.facts.from_us if basis else None,
            to_us=basis.facts.to_us if basis else None,
            relative_error_ppm=DEFAULT_RELATIVE_ACCURACY_PPM,
            unknown_rows=basis.facts.unknown_rows if basis else 0,
        ),
        points=[] if basis is None else [_point(basis.curve, bound) for bound in asked],
    )


def ladder(basis: Basis | None) -> list[int]:
    """Return bounds in milliseconds that show the curve where it bends: 0, needs at round shares, the bound in use."""
    if basis is None:
        return []
    needs = basis.curve.needs
    found = (needs.value_at_rank(math.ceil(share * needs.weight)) for share in LADDER)
    return sorted(
        {
            0,
            basis.horizon.newest.bound_ms,
            *(max(math.ceil(need / 1_000), 0) for need in found if need is not None),
        }
    )


def _point(curve: Curve, bound_ms: int) -> schemas.CurvePoint:
    point = curve.at(bound_ms * 1_000)
    return schemas.CurvePoint(
        bound_ms=bound_ms,
        rows=point.rows,
        late=point.late,
        completeness_ppm=share_ppm(point.rows - point.late, point.rows),
        latency_base_ms=_milliseconds(point.latency_base_us),
        latency_wall_ms=_milliseconds(point.latency_wall_us),
        windows_emitted=point.windows_emitted,
    )


def _milliseconds(time_us: float | None) -> int | None:
    return None if time_us is None else round(time_us / 1_000)
