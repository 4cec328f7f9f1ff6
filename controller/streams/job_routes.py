"""Jobs: the modes and conditions of their streams, taken together."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, get_args

from fastapi import APIRouter, Query
from sqlalchemy.orm import Session

from tidemark.controller.access.authorize import ThePrincipal
from tidemark.controller.api import schemas
from tidemark.controller.api.cursors import Cursor, Paging, decode_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichJob
from tidemark.controller.api.reach import in_reach
from tidemark.controller.pins.store import pin_in_force
from tidemark.controller.pins.views import pin_answer
from tidemark.controller.stream_state.condition_types import place_of, summary_of
from tidemark.controller.stream_state.conditions import conditions_of
from tidemark.controller.stream_state.load import load_horizon, load_states
from tidemark.controller.streams.store import list_jobs, streams_of_job
from tidemark.models.wire import Mode

router = APIRouter(tags=["jobs"])

_MAX_CONDITIONS = 100
"""How many conditions of a job are listed."""

_Limit = Annotated[
    int,
    Query(
        ge=1,
        le=100,
        description="Maximum number of jobs on the page; each costs the conditions of all its streams.",
    ),
]


@router.get("/v1/jobs", operation_id="listJobs", summary="List jobs", responses=answers("JobPage", 422, 503))
def list_all(
    service: TheService, principal: ThePrincipal, limit: _Limit = 20, cursor: Cursor = None
) -> schemas.JobPage:
    """List the known jobs in reach by name, each with the worst condition of its streams."""
    paging, position = Paging(limit, cursor), decode_cursor(cursor, 1)
    now_us = service.clock()
    with service.database.read() as session:
        names = in_reach(
            principal,
            lambda after, limit: list_jobs(session, after, limit),
            job=lambda name: name,
            position=lambda name: name,
            after=None if position is None else position[0],
            limit=paging.rows,
        )
        page, next_cursor = paging.cut(names, lambda name: (name,))
        return schemas.JobPage(
            jobs=[_summary(session, job, now_us)[0] for job in page], next_cursor=next_cursor
        )


@router.get(
    "/v1/jobs/{job}",
    operation_id="getJob",
    summary="Status of a job",
    responses=answers("JobStatus", 404, 422, 503, kinds={404: "job-not-found"}),
)
def read(job: WhichJob, service: TheService) -> schemas.JobStatus:
    """Return the modes and conditions of a job's streams, and the pin on all of it."""
    with service.database.read() as session:
        summary, found = _summary(session, job, service.clock())
        # No stream has an empty name: what is in force then is the job's own pin, or the fleet's.
        pin = pin_in_force(session, job, "")
    return schemas.JobStatus(
        **dict(summary),
        pin=pin_answer(pin),
        conditions=found[:_MAX_CONDITIONS],
        more_conditions=max(len(found) - _MAX_CONDITIONS, 0),
    )


def _summary(
    session: Session, job: str, now_us: int
) -> tuple[schemas.JobSummary, list[schemas.JobCondition]]:
    """Return a job as it is listed, and all conditions of its streams, the worst first."""
    states = load_states(session, [row.id for row in streams_of_job(session, job)])
    modes = Counter(state.mode for state in states)
    found = [
        schemas.JobCondition(stream=state.row.stream, **dict(one))
        for state in states
        for one in conditions_of(state, load_horizon(session, state, now_us))
    ]
    found.sort(key=lambda one: (place_of(one), one.stream))
    summary = schemas.JobSummary(
        job=job,
        streams=len(states),
        modes=[schemas.ModeCount(mode=mode, streams=modes[mode]) for mode in get_args(Mode) if mode in modes],
        worst=schemas.JobWorst(stream=found[0].stream, **dict(summary_of(found[0].type))) if found else None,
    )
    return summary, found
