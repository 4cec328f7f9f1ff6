"""The list of streams."""

from __future__ import annotations

from fastapi import APIRouter

from tidemark.controller.access.authorize import ThePrincipal
from tidemark.controller.api.cursors import Cursor, Limit, decode_cursor, encode_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import OfJob
from tidemark.controller.api.reach import in_reach
from tidemark.controller.api.schemas import StreamPage
from tidemark.controller.stream_state.views import stream_summary
from tidemark.controller.streams.store import list_streams

__all__ = ["router"]

router = APIRouter(tags=["streams"])


@router.get(
    "/v1/streams",
    operation_id="listStreams",
    summary="List streams",
    responses=answers("StreamPage", 422, 503),
)
def list_all(
    service: TheService,
    principal: ThePrincipal,
    job: OfJob = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> StreamPage:
    """List the streams in reach that anything is known of, by job and stream."""
    position = decode_cursor(cursor, 2)
    after = None if position is None else (position[0], position[1])
    with service.database.read() as session:
        rows = in_reach(
            principal,
            lambda position, most: list_streams(session, position, most, job),
            job=lambda row: row.job,
            position=lambda row: (row.job, row.stream),
            after=after,
            limit=limit + 1,
        )
        page = rows[:limit]
        more = len(rows) > limit
        return StreamPage(
            streams=[stream_summary(session, row) for row in page],
            next_cursor=encode_cursor(page[-1].job, page[-1].stream) if more else None,
        )
