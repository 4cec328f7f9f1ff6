"""Jobs: the modes and conditions of their streams, taken together."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import get_args

from fastapi import APIRouter
from sqlalchemy.orm import Session

from tidemark.controller.access.authorize import ThePrincipal
from tidemark.controller.api import schemas
from tidemark.controller.api.cursors import ThePaging, decode_cursor
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers
from tidemark.controller.api.names import WhichJob
from tidemark.controller.api.reach import in_reach
from tidemark.controller.api.schemas import Condition, ConditionSummary
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.specs.pins import pin_in_force
from tidemark.controller.stream_state.condition_types import place_of, summary_of
from tidemark.controller.stream_state.conditions import conditions_of
from tidemark.controller.stream_state.load import load_horizon, load_states
from tidemark.controller.stream_state.overview_store import list_worst
from tidemark.controller.stream_state.state import StreamState
from tidemark.controller.streams.store import list_jobs, streams_of_job
from tidemark.models.protocol.messages import Mode

router = APIRouter(tags=["jobs"])

_MAX_CONDITIONS = 100
"""How many conditions of a job are listed."""


@router.get("/v1/jobs", operation_id="listJobs", summary="List jobs", responses=answers("JobPage", 422, 503))
def list_all(service: TheService, principal: ThePrincipal, paging: ThePaging) -> schemas.JobPage:
    """List the known jobs in reach by name, each with the worst condition of its streams' newest snapshots.

    A stream gets a snapshot every 15 seconds while something happens, and every minute otherwise; `GET /v1/jobs/{job}`
    says what holds now.
    """
    position = decode_cursor(paging.cursor, 1)
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
        return schemas.JobPage(jobs=listed_jobs(session, page, now_us, service.kept), next_cursor=next_cursor)


@router.get(
    "/v1/jobs/{job}",
    operation_id="getJob",
    summary="Status of a job",
    responses=answers("JobStatus", 404, 422, 503, kinds={404: "job-not-found"}),
)
def read(job: WhichJob, service: TheService) -> schemas.JobStatus:
    """Return the modes and conditions of a job's streams, and the pin on all of it."""
    with service.database.read() as session:
        summary, found = _status(session, job, service.clock(), service.kept)
        # No stream has an empty name: what is in force then is the job's own pin, or the fleet's.
        pin = pin_in_force(session, job, "")
    return schemas.JobStatus(
        **dict(summary),
        pin=schemas.PinInForce.of_pin(pin),
        conditions=found[:_MAX_CONDITIONS],
        more_conditions=max(len(found) - _MAX_CONDITIONS, 0),
    )


def listed_jobs(
    session: Session, jobs: Sequence[str], now_us: int, kept: EvidenceCache
) -> list[schemas.JobSummary]:
    """Return known jobs as they are listed.

    Args:
        session: the session.
        jobs: their names.
        now_us: the wall time, in microseconds.
        kept: the evidence on streams: the conditions of one without a snapshot are computed.
    """
    streams = list_worst(session, jobs)
    unseen = load_states(session, [row.stream_id for row in streams if not row.seen])
    computed = {state.id: _conditions(session, state, now_us, kept) for state in unseen}
    found: defaultdict[str, list[tuple[str, Mode, ConditionSummary | None]]] = defaultdict(list)
    for row in streams:
        if row.seen:
            worst = None if row.worst is None else summary_of(row.worst)
        else:
            worst = next(iter(computed[row.stream_id]), None)
        found[row.job].append((row.stream, row.mode, worst))
    return [
        _summary(
            job,
            Counter(mode for _, mode, _ in found[job]),
            min(
                ((stream, worst) for stream, _, worst in found[job] if worst is not None),
                key=lambda one: (place_of(one[1]), one[0]),
                default=None,
            ),
        )
        for job in jobs
    ]


def _status(
    session: Session, job: str, now_us: int, kept: EvidenceCache
) -> tuple[schemas.JobSummary, list[schemas.JobCondition]]:
    """Return a job as of now, and all conditions of its streams, the worst first."""
    states = load_states(session, [row.id for row in streams_of_job(session, job)])
    modes = Counter(state.mode for state in states)
    found = [
        schemas.JobCondition(stream=state.row.stream, **dict(one))
        for state in states
        for one in _conditions(session, state, now_us, kept)
    ]
    found.sort(key=lambda one: (place_of(one), one.stream))
    return _summary(job, modes, (found[0].stream, found[0]) if found else None), found


def _conditions(session: Session, state: StreamState, now_us: int, kept: EvidenceCache) -> list[Condition]:
    """Return the conditions of a stream as of now, the worst first."""
    return conditions_of(state, load_horizon(session, state, now_us, kept), now_us)


def _summary(
    job: str, modes: Counter[Mode], worst: tuple[str, ConditionSummary] | None
) -> schemas.JobSummary:
    return schemas.JobSummary(
        job=job,
        streams=modes.total(),
        modes=[schemas.ModeCount(mode=mode, streams=modes[mode]) for mode in get_args(Mode) if mode in modes],
        worst=None if worst is None else schemas.JobWorst(stream=worst[0], **dict(summary_of(worst[1].type))),
    )
