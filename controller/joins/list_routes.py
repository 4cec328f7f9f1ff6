"""The list of the joins of a job."""

from __future__ import annotations

from fastapi import APIRouter

from tidemark.controller.api.cursors import ThePaging, decode_cursor
from tidemark.controller.api.openapi import answers
from tidemark.controller.api.parameters import TheService, WhichJob
from tidemark.controller.api.schemas.joins import JoinPage, NamedJoin
from tidemark.controller.joins.store import list_joins
from tidemark.controller.joins.views import join_answer
from tidemark.controller.specs.store import fields_of
from tidemark.controller.streams.store import streams_of_job

router = APIRouter(tags=["specifications"])


@router.get(
    "/v1/jobs/{job}/joins",
    operation_id="listJoins",
    summary="List joins",
    responses=answers("JoinPage", 404, 422, 503, kinds={404: "job-not-found"}),
)
def list_all(job: WhichJob, service: TheService, paging: ThePaging) -> JoinPage:
    """List the job's joins by name, each with its SLO, what it needs of each stream, and what is left of its budget."""
    position = decode_cursor(paging.cursor, 1)
    with service.database.read() as session:
        streams_of_job(session, job)  # an unknown job is an error, not one without joins
        joins = list_joins(session, job, None if position is None else position[0], paging.rows)
        page, next_cursor = paging.cut(joins, lambda join: (join.name,))
        return JoinPage(
            joins=[
                NamedJoin(join=join.name, **fields_of(join_answer(session, join, service.kept.joins)))
                for join in page
            ],
            next_cursor=next_cursor,
        )
