"""The bound that a job asks for."""

from __future__ import annotations

from fastapi import APIRouter, Response, status

from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.etags import IfNoneMatch, etag, is_current
from tidemark.controller.api.names import WhichStream
from tidemark.controller.api.views import bound_answer
from tidemark.controller.store.streams import find_stream
from tidemark.models.wire import BoundAnswer

__all__ = ["router"]

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["jobs"])

UNREPORTED = "unreported"
"""ETag of the answer for a stream that has not reported; generation 0 says something else once it has."""


@router.get(
    "/bound",
    operation_id="getBound",
    summary="Ask for the bound",
    response_model=BoundAnswer,
    responses=answers("BoundAnswer", 304, 422, 503),
)
def get_bound(
    which: WhichStream, service: TheService, response: Response, if_none_match: IfNoneMatch = None
) -> BoundAnswer | Response:
    """Say which bound to use, or why none; a stream that nothing is known of gets an answer too, not an error."""
    with service.database.read() as session:
        row = find_stream(session, which.job, which.stream)
        answer = bound_answer(session, which.job, which.stream, row)
    reported = row is not None and row.registered_us is not None
    current = etag(answer.generation if answer.generation or reported else UNREPORTED)
    if is_current(if_none_match, current):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers={"ETag": current})
    response.headers["ETag"] = current
    return answer
