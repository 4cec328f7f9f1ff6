"""The status of one stream."""

from __future__ import annotations

from fastapi import APIRouter, Response

from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.etags import IfNoneMatch, answered
from tidemark.controller.api.parameters import WhichStream
from tidemark.controller.api.schemas.streams import StreamStatus
from tidemark.controller.api.views import stream_status
from tidemark.controller.streams.store import get_stream

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])


@router.get(
    "",
    operation_id="getStream",
    summary="Status of a stream",
    response_model=StreamStatus,
    responses=answers("StreamStatus", 304, 404, 422, 503),
)
def get_status(which: WhichStream, service: TheService, if_none_match: IfNoneMatch = None) -> Response:
    """Say all that is known of a stream: what is recommended, applied and effective, on what evidence and why."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        found = stream_status(session, stream_id, service.clock(), service.kept, service.destinations)
    return answered(found, if_none_match)
