"""Routes of the SLO on the output of a join, and the list of the joins of a job."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Response
from sqlalchemy.orm import Session

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.tables import StreamRow
from tidemark.controller.base.errors import ErrorItem, InvalidBodyError
from tidemark.controller.base.read_spec import parse_spec
from tidemark.controller.control.decide.join_sides import judged_in, state_of
from tidemark.controller.evidence.join_cache import JoinCache
from tidemark.controller.server.http.cursors import ThePaging, decode_cursor
from tidemark.controller.server.http.etags import IfNoneMatch, answered
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import Reason, TheService, WhichJob, WhichJoin
from tidemark.controller.server.http.request_body import JsonBody
from tidemark.controller.server.schemas.joins import (
    JoinAnswer,
    JoinPage,
    JoinSideAnswer,
    JoinStateAnswer,
    NamedJoin,
)
from tidemark.controller.server.spec_routes.write import SpecWrite, TheWrite
from tidemark.controller.specs.change import ChangeRequest
from tidemark.controller.specs.joins import StoredJoin, delete_join, get_join, list_joins, put_join
from tidemark.controller.specs.streams import streams_of_job
from tidemark.models.base.names import name_problem
from tidemark.models.base.target import PPM
from tidemark.models.recommend.choice import rounded_up
from tidemark.models.recommend.joint_bounds import estimated_common_ms, lost_ppm
from tidemark.models.specs.slo import JoinSlo

_PATH = "/v1/jobs/{job}/joins"


router = APIRouter(tags=["specifications"])


@router.get(_PATH, **says("listJoins", "List joins", "JoinPage", 404, kinds={404: "job-not-found"}))
def list_all(job: WhichJob, service: TheService, paging: ThePaging) -> JoinPage:
    """List the job's joins by name, each with its SLO, what it needs of each stream, and what is left of its budget."""
    position = decode_cursor(paging.cursor, 1)
    with service.database.read() as session:
        streams_of_job(session, job)  # an unknown job is an error, not one without joins
        joins = list_joins(session, job, None if position is None else position[0], paging.rows)
        page, next_cursor = paging.cut(joins, lambda join: (join.name,))
        return JoinPage(
            joins=[
                made_of(NamedJoin, _answer(session, join, service.cache.joins), join=join.name)
                for join in page
            ],
            next_cursor=next_cursor,
        )


@router.get(
    f"{_PATH}/{{join}}",
    **says("getJoin", "Read a join", "JoinAnswer", 304, 404, kinds={404: "join-not-found"}),
)
def read_join(which: WhichJoin, service: TheService, if_none_match: IfNoneMatch = None) -> Response:
    """Return the SLO on the output of a join, what it needs of each stream, and what is left of its budget.

    The ETag is the SLO's: how the join is doing changes without it.
    """
    with service.database.read() as session:
        join = get_join(session, which.job, which.join)
        return answered(_answer(session, join, service.cache.joins), if_none_match, join.version(session))


@router.put(
    f"{_PATH}/{{join}}",
    **says(
        "putJoin",
        "Set a join",
        "JoinAnswer",
        404,
        409,
        412,
        428,
        body="JoinSlo",
        kinds={409: "join-refused"},
    ),
)
def set_join(which: WhichJoin, body: JsonBody, asked: TheWrite, *, reason: Reason) -> Response:
    """Set the SLO on the joined output of streams of one query, whole. It decides about their bounds from then on.

    Each stream needs an SLO of its own, whose caps, objective and budget go on to hold, and can be a side of one join.
    Mode Live is rejected.
    """
    slo = parse_spec(JoinSlo, body)
    problems = ((number, name_problem(name)) for number, name in enumerate(slo.streams))
    errors = tuple(ErrorItem(f"/streams/{number}", problem) for number, problem in problems if problem)
    if errors:
        raise InvalidBodyError(f"{errors[0].pointer}: {errors[0].detail}", errors=errors)
    with asked.change(reason, which.job, slo.streams) as change:
        _decide(asked, change, put_join(change, which.job, which.join, slo)[1])
        # The decisions have stored the bounds that they rest on.
        join = get_join(change.session, which.job, which.join)
        answer = _answer(change.session, join, asked.service.cache.joins, dry_run=asked.dry_run)
        return answered(answer, None, join.version(change.session))


@router.delete(
    f"{_PATH}/{{join}}",
    **says("deleteJoin", "Delete a join", "JoinAnswer", 404, 412, 428, kinds={404: "join-not-found"}),
)
def remove_join(which: WhichJoin, asked: TheWrite, *, reason: Reason) -> JoinAnswer:
    """Delete the SLO on a join's output and return it as it was. Its streams go by their own SLOs from then on."""
    with asked.change(reason) as change:
        join, streams = delete_join(change, which.job, which.join)
        _decide(asked, change, streams)
        return _answer(change.session, join, asked.service.cache.joins, dry_run=asked.dry_run)


def _decide(asked: SpecWrite, change: ChangeRequest, streams: Sequence[StreamRow]) -> None:
    change.session.flush()
    for stream in streams:
        asked.service.decide(change.session, stream.id, change.now_us)


def _answer(session: Session, join: StoredJoin, cache: JoinCache, *, dry_run: bool = False) -> JoinAnswer:
    """Return a join and how it is doing."""
    state = state_of(session, join, cache)
    bounds = state.sides[0].bounds
    provisional = estimated_common_ms(state.evidence.needs, join.slo.target_ppm) if bounds is None else None
    judged = judged_in(session, join.slo, state.newest)
    lost, budget = lost_ppm(judged), PPM - join.slo.target_ppm
    query_ids = {None if row is None else row.query_id for row in state.newest}
    return made_of(
        JoinAnswer,
        join.slo,
        updated_us=join.updated_us,
        dry_run=dry_run,
        state=JoinStateAnswer.of(
            state.evidence,
            query_id=query_ids.pop() if len(query_ids) == 1 else None,
            common_bound_ms=None if bounds is None else bounds.common_ms,
            provisional_bound_ms=None if provisional is None else rounded_up(provisional),
            lost_min_ppm=None if lost is None else lost[0],
            lost_max_ppm=None if lost is None else lost[1],
            remaining_ppm=None if lost is None else (budget - lost[1]) * PPM // budget,
            sides=[
                JoinSideAnswer(
                    stream=stream.stream,
                    bound_ms=None if bounds is None else bounds.bounds_ms[side.side],
                    in_use_bound_ms=None if newest is None else newest.bound_ms,
                    rows=int(side.needs.rows_by_side[side.side]),
                    late=None if bounds is None else side.late_under(bounds.bounds_ms[side.side]),
                    judged_rows=rows,
                    late_min=late_min,
                    late_max=late_max,
                    reason=side.why_no_bound if bounds is None else bounds.reason(side.side),
                )
                for stream, newest, side, (rows, late_min, late_max) in zip(
                    state.streams, state.newest, state.sides, judged, strict=True
                )
            ],
        ),
    )
