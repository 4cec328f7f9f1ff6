"""Bounds for all streams of a query together."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from tidemark.controller.api import schemas
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.joint.evidence import JointEvidence, joint_evidence, streams_of_query
from tidemark.controller.reports.store import newest_report
from tidemark.controller.specs.store import DEFAULT_CONFIDENCE_PPM
from tidemark.controller.streams.store import get_stream
from tidemark.models.joint_bounds import JointBounds, choose_joint_bounds, rows_needed
from tidemark.models.recommend.rounding import rounded_up
from tidemark.models.target import PPM, format_share

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])

_TargetPpm = Annotated[
    int,
    Query(gt=0, lt=PPM, description="Share of the joined pairs to come out, in parts per million."),
]
_ConfidencePpm = Annotated[
    int,
    Query(gt=0, lt=PPM, description="Confidence with which it must be certified, in parts per million."),
]
_HorizonMs = Annotated[
    int,
    Query(gt=0, le=86_400_000, description="How far back to count from the newest batch, in milliseconds."),
]


@router.get(
    "/joint-bounds",
    operation_id="getJointBounds",
    summary="Bounds for all streams of the query together",
    responses=answers("JointBoundsAnswer", 404, 422, 503),
)
def get_joint_bounds(
    which: WhichStream,
    service: TheService,
    target_ppm: _TargetPpm,
    confidence_ppm: _ConfidencePpm = DEFAULT_CONFIDENCE_PPM,
    horizon_ms: _HorizonMs = 3_600_000,
) -> schemas.JointBoundsAnswer:
    """Return a bound for each stream of the stream's query, by one SLO on its joined output.

    Batches count that every stream reported, at most the newest 1,000. Nothing is published: a bound takes effect when
    it is written into the job, or given to the stream as minimum and maximum of its policy.
    """
    with service.database.read() as session:
        stream = get_stream(session, which.job, which.stream)
        newest = newest_report(session, stream.id)
        streams = [stream] if newest is None else streams_of_query(session, which.job, newest.query_id)
        query_id = None if newest is None else newest.query_id
        found = joint_evidence(session, streams, query_id or "", horizon_ms)
    chosen = _chosen(found, target_ppm, confidence_ppm)
    rows = found.needs.rows_by_side.tolist()
    admitted = None if chosen is None else found.needs.admitted(chosen.bounds_ms).tolist()
    return schemas.JointBoundsAnswer(
        job=which.job,
        query_id=query_id,
        target_ppm=target_ppm,
        confidence_ppm=confidence_ppm,
        batches=found.batches,
        from_us=found.from_us,
        to_us=found.to_us,
        unknown_rows=found.unknown_rows,
        common_bound_ms=None if chosen is None else chosen.common_ms,
        sides=[
            schemas.JointSide(
                stream=side,
                bound_ms=None if chosen is None else chosen.bounds_ms[number],
                rows=rows[number],
                late=None if admitted is None else rows[number] - admitted[number],
                reason=_no_bound(found, number, target_ppm, confidence_ppm)
                if chosen is None
                else chosen.reason(number),
            )
            for number, side in enumerate(found.sides)
        ],
    )


def _chosen(found: JointEvidence, target_ppm: int, confidence_ppm: int) -> JointBounds | None:
    """Return the bounds, rounded up as a recommendation is; none for a stream that is alone."""
    if len(found.sides) == 1:
        return None
    chosen = choose_joint_bounds(found.needs, target_ppm, confidence_ppm)
    if chosen is None:
        return None
    return JointBounds(
        tuple(rounded_up(bound_ms) for bound_ms in chosen.bounds_ms), rounded_up(chosen.common_ms)
    )


def _no_bound(found: JointEvidence, side: int, target_ppm: int, confidence_ppm: int) -> str:
    sides, rows = len(found.sides), int(found.needs.rows_by_side[side])
    if sides == 1:
        return "no other stream of the job is of its query, so its own recommendation is the right one"
    needed = rows_needed(sides, target_ppm, confidence_ppm)
    return (
        f"not enough evidence: {rows:,} of at least {needed:,} rows of each stream that it takes to certify "
        f"{format_share(target_ppm)}"
    )
