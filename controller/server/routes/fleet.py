"""Routes of the fleet and of jobs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, get_args

from fastapi import APIRouter, Response
from sqlalchemy import Row
from sqlalchemy.orm import Session

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.tables import OverviewRow
from tidemark.controller.control.rollout.store import read_fleet_share
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.server.http.authorize import ThePrincipal
from tidemark.controller.server.http.cursors import ThePaging, decode_cursor, decode_stream_cursor, in_reach
from tidemark.controller.server.http.etags import IfNoneMatch, answered
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import OfJob, TheService, WhichJob
from tidemark.controller.server.schemas.fleet import (
    FleetPage,
    FleetStream,
    FleetTotals,
    JobCondition,
    JobPage,
    JobStatus,
    JobSummary,
    JobWorst,
    ModeCount,
    Narrowing,
    WorstCount,
)
from tidemark.controller.specs.pins import pin_in_force
from tidemark.controller.specs.streams import list_jobs, streams_of_job
from tidemark.controller.view.state.answers import Condition, ConditionSummary, place_of, summary_of
from tidemark.controller.view.state.budget import BudgetCourse
from tidemark.controller.view.state.condition_types import CONDITION_TYPES, ConditionType
from tidemark.controller.view.state.conditions import conditions_of
from tidemark.controller.view.state.fleet import Verdict, load_fleet, read_verdicts
from tidemark.controller.view.state.load import load_horizon, load_states
from tidemark.controller.view.state.state import StreamState
from tidemark.models.evidence.partition_counts import PartitionsInState
from tidemark.models.protocol.messages import Mode
from tidemark.models.rollout.states import RolloutBounds
from tidemark.models.specs.pin import StoredPin

_fleet = APIRouter(tags=["streams"])

_UNSEEN = OverviewRow(
    conditions="[]",
    provisional=True,
    partitions=PartitionsInState(total=0, idle=0, behind=0, skewed=0, future=0),
)
"""Of a stream without a snapshot of now; all else is unknown."""


@_fleet.get("/v1/fleet", response_model=FleetPage, **says("listFleet", "List the fleet", "FleetPage", 304))
def all_streams(
    service: TheService,
    principal: ThePrincipal,
    paging: ThePaging,
    job: OfJob = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List the streams in reach with what matters most about each.

    Those that are silent, or were not looked at of late, come first, then those with the smallest budget left.
    """
    position = decode_stream_cursor(paging.cursor, 4)
    # Every page has the now of the first: with a later one, what falls silent meanwhile would stand on a page before.
    at_us = service.clock() if position is None else position[0][0]
    after = None if position is None else (*position[0][1:], *position[1:])
    with service.database.read() as session:
        verdicts = [
            each
            for each in read_verdicts(session, at_us, None if job is None else [job])
            if principal.sees_all or principal.sees(each.job)
        ]
        left = [each for each in verdicts if after is None or each.place > after]
        page, next_cursor = paging.cut(left[: paging.rows], lambda each: (at_us, *each.place))
        narrowing, max_narrowing = read_fleet_share(session, service.decider.fleet.narrowing_ppm)
        states = load_fleet(session, [each.id for each in page])
    found = FleetPage(
        streams=[_stream(*state, each.conditions) for state, each in zip(states, page, strict=True)],
        totals=_totals(verdicts),
        narrowing=Narrowing(streams=narrowing, max_streams=max_narrowing),
        next_cursor=next_cursor,
    )
    return answered(found, if_none_match)


def _totals(verdicts: Sequence[Verdict]) -> FleetTotals:
    counted = Counter(next(iter(each.conditions), None) for each in verdicts)
    rows = [
        WorstCount(**dict(summary_of(kind)), streams=counted[kind])
        for kind in CONDITION_TYPES
        if kind in counted
    ]
    if None in counted:
        rows.append(WorstCount(type=None, severity="ok", title="No condition", streams=counted[None]))
    return FleetTotals(streams=counted.total(), worst=rows)


def _stream(state: Row[Any], pin: StoredPin | None, kinds: Sequence[ConditionType]) -> FleetStream:
    seen: OverviewRow = state.OverviewRow or _UNSEEN
    rollout = state.RolloutRow
    # Shares and a budget of minutes ago would stand there as if they were of now.
    verdict = _UNSEEN if "VerdictOld" in kinds else seen
    return FleetStream.of(
        verdict,
        job=state.job,
        stream=state.stream,
        mode=state.mode,
        registered_us=state.registered_us,
        paused=bool(state.paused),
        pin=pin,
        target_ppm=state.target_ppm,
        completeness_min_ppm=verdict.now_min_ppm,
        completeness_max_ppm=verdict.now_max_ppm,
        budget_remaining_ppm=verdict.remaining_ppm,
        budget_course_ppm=_course(seen, state.slo_generation),
        recommended_bound_ms=state.recommended_bound_ms,
        # What an SLO needs says nothing once it is deleted.
        provisional_bound=None if state.target_ppm is None else seen.provisional_bound,
        published_bound_ms=state.published_bound_ms,
        applied_bound_ms=state.applied_bound_ms,
        in_use_bound_ms=state.in_use_bound_ms,
        last_batch_us=state.last_batch_us,
        rollout=None if rollout is None else made_of(RolloutBounds, rollout),
        worst=summary_of(kinds[0]) if kinds else None,
        alerts=[kind for kind in kinds if CONDITION_TYPES[kind].problem],
        partitions=seen.partitions,
        skewed=seen.most_skewed,
        updated_us=seen.seen_us,
    )


def _course(seen: OverviewRow, slo_generation: int | None) -> list[int | None]:
    course = None if seen.budget_course is None else BudgetCourse.from_json(seen.budget_course)
    # A course of an SLO that was replaced since the snapshot says nothing of this one.
    return [] if course is None or course.generation != slo_generation else [*course.left_ppm]


_jobs = APIRouter(tags=["jobs"])

_MAX_CONDITIONS = 100
"""How many conditions of a job are listed."""


@_jobs.get("/v1/jobs", **says("listJobs", "List jobs", "JobPage"))
def all_jobs(service: TheService, principal: ThePrincipal, paging: ThePaging) -> JobPage:
    """List the known jobs in reach by name, each with the worst condition of its streams.

    What time alone ends or brings, such as silence, is as of now. The rest is as of each stream's newest snapshot, one
    every 15 seconds while something happens and every minute otherwise; `GET /v1/jobs/{job}` says all as of now.
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
        return JobPage(jobs=listed_jobs(session, page, now_us), next_cursor=next_cursor)


@_jobs.get(
    "/v1/jobs/{job}", **says("getJob", "Status of a job", "JobStatus", 404, kinds={404: "job-not-found"})
)
def read(job: WhichJob, service: TheService) -> JobStatus:
    """Return the modes and conditions of a job's streams, and the pin on all of it."""
    with service.database.read() as session:
        summary, found = _status(session, job, service.clock(), service.cache)
        # No stream has an empty name: what is in force then is the job's own pin, or the fleet's.
        pin = pin_in_force(session, job, "")
    return JobStatus(
        **dict(summary),
        pin=pin,
        conditions=found[:_MAX_CONDITIONS],
        more_conditions=max(len(found) - _MAX_CONDITIONS, 0),
    )


def listed_jobs(session: Session, jobs: Sequence[str], now_us: int) -> list[JobSummary]:
    """Return known jobs as they are listed."""
    found: defaultdict[str, list[Verdict]] = defaultdict(list)
    for verdict in read_verdicts(session, now_us, jobs):
        found[verdict.job].append(verdict)
    return [
        _summary(
            job,
            Counter(each.mode for each in found[job]),
            min(
                ((each.stream, each.worst) for each in found[job] if each.worst is not None),
                key=lambda one: (place_of(one[1]), one[0]),
                default=None,
            ),
        )
        for job in jobs
    ]


def _status(
    session: Session, job: str, now_us: int, cache: EvidenceCache
) -> tuple[JobSummary, list[JobCondition]]:
    """Return a job as of now, and all conditions of its streams, the worst first."""
    states = load_states(session, [row.id for row in streams_of_job(session, job)])
    modes = Counter(state.mode for state in states)
    found = [
        JobCondition(stream=state.row.stream, **dict(one))
        for state in states
        for one in _conditions(session, state, now_us, cache)
    ]
    found.sort(key=lambda one: (place_of(one), one.stream))
    return _summary(job, modes, (found[0].stream, found[0]) if found else None), found


def _conditions(session: Session, state: StreamState, now_us: int, cache: EvidenceCache) -> list[Condition]:
    """Return the conditions of a stream as of now, the worst first."""
    return conditions_of(state, load_horizon(session, state, now_us, cache), now_us)


def _summary(job: str, modes: Counter[Mode], worst: tuple[str, ConditionSummary] | None) -> JobSummary:
    return JobSummary(
        job=job,
        streams=modes.total(),
        modes=[ModeCount(mode=mode, streams=modes[mode]) for mode in get_args(Mode) if mode in modes],
        worst=None if worst is None else JobWorst(stream=worst[0], **dict(summary_of(worst[1].type))),
    )


router = APIRouter()
for _part in (_fleet, _jobs):
    router.include_router(_part)
