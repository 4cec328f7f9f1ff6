"""The curve of one partition: what share of its rows each bound admits."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tidemark.controller.api import schemas
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.controller.evidence.needs import partition_needs
from tidemark.controller.specs.store import DEFAULT_HORIZON_MS, get_slo
from tidemark.controller.streams.store import get_stream
from tidemark.models.base.ranges import MAX_TIME_MS
from tidemark.models.base.target import PPM
from tidemark.models.evidence.curve import Curve

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_Partition = Annotated[str, Query(max_length=200, description="Name of the partition.")]
_Bounds = Annotated[
    list[Annotated[int, Query(ge=0, le=MAX_TIME_MS)]],
    Query(min_length=1, max_length=1_000, description="Bounds in milliseconds."),
]


@router.get(
    "/partition-curve",
    operation_id="getPartitionCurve",
    summary="Completeness of a partition by bound",
    responses=answers("PartitionCurve", 404, 422, 503),
)
def get_partition_curve(
    which: WhichStream, service: TheService, partition: _Partition, bound_ms: _Bounds
) -> schemas.PartitionCurve:
    """Return what share of a partition's rows over the SLO's horizon each bound admits; no points without any row."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        spec = get_slo(session, stream_id)
        horizon = horizon_of(
            session, stream_id, DEFAULT_HORIZON_MS if spec is None else spec.value.horizon_ms
        )
        needs = None if horizon is None else partition_needs(session, stream_id, horizon.from_us)
    found = [] if needs is None else _points(Curve(needs.sketch(partition), None), sorted(set(bound_ms)))
    return schemas.PartitionCurve(job=which.job, stream=which.stream, partition=partition, points=found)


def _points(curve: Curve, bounds: list[int]) -> list[schemas.PartitionPoint]:
    points = [curve.at(bound * 1_000) for bound in bounds]
    return [
        schemas.PartitionPoint(
            bound_ms=bound,
            rows=point.rows,
            late=point.late,
            completeness_ppm=(point.rows - point.late) * PPM // point.rows,
        )
        for bound, point in zip(bounds, points, strict=True)
        if point.rows
    ]
