"""The status of one stream."""

from __future__ import annotations

from fastapi import APIRouter

from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichStream
from tidemark.controller.api.schemas import StreamStatus
from tidemark.controller.stream_state.views import stream_status
from tidemark.controller.streams.store import get_stream

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["streams"])


@router.get(
    "",
    operation_id="getStream",
    summary="Status of a stream",
    responses=answers("StreamStatus", 404, 422, 503),
)
def get_status(which: WhichStream, service: TheService) -> StreamStatus:
    """Say all that is known of a stream: what is recommended, applied and effective, on what evidence and why."""
    with service.database.read() as session:
        return stream_status(session, get_stream(session, which.job, which.stream).id, service.clock())
