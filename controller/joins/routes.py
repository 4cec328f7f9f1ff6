"""Routes of the SLO on the output of a join."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from tidemark.controller.api import schemas
from tidemark.controller.api.bodies import parse_body
from tidemark.controller.api.dependencies import TheService
from tidemark.controller.api.documented import answers, takes
from tidemark.controller.api.etags import IfMatch, IfNoneMatch, answered, check_match, etag
from tidemark.controller.api.names import WhichJoin, name_problem
from tidemark.controller.api.request_body import JsonBody
from tidemark.controller.api.writes import DryRun, Reason
from tidemark.controller.errors import ErrorItem, InvalidBodyError
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.evidence.series import series_sums
from tidemark.controller.joins.sides import state_of
from tidemark.controller.joins.store import (
    Precondition,
    StoredJoin,
    delete_join,
    get_join,
    put_join,
)
from tidemark.controller.service import Service
from tidemark.controller.specs.consequences import decide_now
from tidemark.controller.specs.store import fields_of
from tidemark.models.join_side import lost_ppm
from tidemark.models.slo import JoinSlo
from tidemark.models.target import PPM

router = APIRouter(prefix="/v1/jobs/{job}/joins/{join}", tags=["specifications"])

_SLO = TypeAdapter(JoinSlo)


@router.get(
    "",
    operation_id="getJoin",
    summary="Read a join",
    response_model=schemas.JoinAnswer,
    responses=answers("JoinAnswer", 304, 404, 422, 503, kinds={404: "join-not-found"}),
)
def read(which: WhichJoin, service: TheService, if_none_match: IfNoneMatch = None) -> Response:
    """Return the SLO on the output of a join, what it needs of each stream, and what is left of its budget.

    The ETag is the SLO's: how the join is doing changes without it.
    """
    with service.database.read() as session:
        join = get_join(session, which.job, which.join)
        return answered(_answer(service, session, join), if_none_match, join.version)


@router.put(
    "",
    operation_id="putJoin",
    summary="Set a join",
    responses=answers(
        "JoinAnswer", 400, 404, 408, 409, 412, 413, 415, 422, 428, 503, kinds={409: "join-refused"}
    ),
    openapi_extra=takes("JoinSlo"),
)
def write(
    which: WhichJoin,
    body: JsonBody,
    service: TheService,
    response: Response,
    *,
    dry_run: DryRun,
    reason: Reason,
    if_match: IfMatch = None,
) -> schemas.JoinAnswer:
    """Set the SLO on the joined output of streams of one query, whole. It decides about their bounds from then on.

    Each stream needs an SLO of its own, whose caps, objective and budget go on to hold, and can be a side of one join.
    Mode Live is rejected.
    """
    slo = parse_body(_SLO, body)
    _check_names(slo)
    with service.database.write(keep=not dry_run) as session:
        new = StoredJoin(which.job, which.join, slo, service.clock())
        join, changed = put_join(session, new, _replaces(if_match), reason=reason)
    response.headers["ETag"] = etag(join.version)
    _decide(service, () if dry_run else changed)
    with service.database.read() as session:
        # The decisions have stored the bounds that they rest on.
        join = join if dry_run else get_join(session, which.job, which.join)
        return _answer(service, session, join, dry_run=dry_run)


@router.delete(
    "",
    operation_id="deleteJoin",
    summary="Delete a join",
    responses=answers("JoinAnswer", 404, 412, 422, 428, 503, kinds={404: "join-not-found"}),
)
def remove(
    which: WhichJoin,
    service: TheService,
    *,
    dry_run: DryRun,
    reason: Reason,
    if_match: IfMatch = None,
) -> schemas.JoinAnswer:
    """Delete the SLO on a join's output and return it as it was. Its streams go by their own SLOs from then on."""
    with service.database.write(keep=not dry_run) as session:
        join, changed = delete_join(
            session, which.job, which.join, _replaces(if_match), service.clock(), reason=reason
        )
    _decide(service, () if dry_run else changed)
    with service.database.read() as session:
        return _answer(service, session, join, dry_run=dry_run)


def _check_names(slo: JoinSlo) -> None:
    problems = ((number, name_problem(name)) for number, name in enumerate(slo.streams))
    errors = tuple(
        ErrorItem(f"/streams/{number}", problem) for number, problem in problems if problem is not None
    )
    if errors:
        raise InvalidBodyError(f"{errors[0].pointer}: {errors[0].detail}", errors=errors)


def _replaces(if_match: str | None) -> Precondition:
    def check(before: StoredJoin | None) -> None:
        current = None if before is None else etag(before.version)
        held = "no such join yet" if before is None else f"a join of {', '.join(before.slo.streams)}"
        check_match(if_match, current, held, required=before is not None)

    return check


def _decide(service: Service, changed: Sequence[int]) -> None:
    """Decide anew about the streams that a write changed."""
    if changed:
        service.database.answers_changed()
    for stream_id in changed:
        decide_now(service, stream_id)


def _answer(
    service: Service, session: Session, join: StoredJoin, *, dry_run: bool = False
) -> schemas.JoinAnswer:
    state = state_of(session, join, service.kept.joins)
    bounds = state.sides[0].bounds
    judged = []
    for newest in state.newest:
        window = None if newest is None else Horizon(newest.stream_id, join.slo.window_ms, newest)
        sums = None if window is None else series_sums(session, window.span)
        judged.append(
            (0, 0, 0) if sums is None else (sums.counted, sums.late_min, sums.late_max + sums.unjudged)
        )
    lost, budget = lost_ppm(judged), PPM - join.slo.target_ppm
    query_ids = {None if row is None else row.query_id for row in state.newest}
    return schemas.JoinAnswer(
        **fields_of(join.slo),
        updated_us=join.updated_us,
        dry_run=dry_run,
        state=schemas.JoinStateAnswer.of(
            state.evidence,
            query_id=query_ids.pop() if len(query_ids) == 1 else None,
            common_bound_ms=None if bounds is None else bounds.common_ms,
            lost_min_ppm=None if lost is None else lost[0],
            lost_max_ppm=None if lost is None else lost[1],
            remaining_ppm=None if lost is None else (budget - lost[1]) * PPM // budget,
            sides=[
                schemas.JoinSideAnswer(
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
