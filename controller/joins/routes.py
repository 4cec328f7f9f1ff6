"""Routes of the SLO on the output of a join."""

from __future__ import annotations

from collections.abc import Sequence

from fastapi import APIRouter, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from tidemark.controller.api.etags import IfMatch, IfNoneMatch, answered, check_match, etag
from tidemark.controller.api.openapi import answers, takes
from tidemark.controller.api.parameters import DryRun, Reason, TheService, WhichJoin
from tidemark.controller.api.request_body import JsonBody
from tidemark.controller.api.schemas.joins import JoinAnswer
from tidemark.controller.errors import ErrorItem, InvalidBodyError
from tidemark.controller.joins.store import (
    Precondition,
    StoredJoin,
    delete_join,
    get_join,
    put_join,
)
from tidemark.controller.joins.views import join_answer
from tidemark.controller.runtime.parse_body import parse_body
from tidemark.controller.service import Service
from tidemark.controller.specs.consequences import decide_now
from tidemark.controller.streams.names import name_problem
from tidemark.models.specs.slo import JoinSlo

router = APIRouter(prefix="/v1/jobs/{job}/joins/{join}", tags=["specifications"])

_SLO = TypeAdapter(JoinSlo)


@router.get(
    "",
    operation_id="getJoin",
    summary="Read a join",
    response_model=JoinAnswer,
    responses=answers("JoinAnswer", 304, 404, 422, 503, kinds={404: "join-not-found"}),
)
def read(which: WhichJoin, service: TheService, if_none_match: IfNoneMatch = None) -> Response:
    """Return the SLO on the output of a join, what it needs of each stream, and what is left of its budget.

    The ETag is the SLO's: how the join is doing changes without it.
    """
    with service.database.read() as session:
        join = get_join(session, which.job, which.join)
        return answered(join_answer(session, join, service.kept.joins), if_none_match, join.version(session))


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
) -> JoinAnswer:
    """Set the SLO on the joined output of streams of one query, whole. It decides about their bounds from then on.

    Each stream needs an SLO of its own, whose caps, objective and budget go on to hold, and can be a side of one join.
    Mode Live is rejected.
    """
    slo = parse_body(_SLO, body)
    _check_names(slo)
    with service.database.write(keep=not dry_run) as session:
        new = StoredJoin(which.job, which.join, slo, service.clock())
        join, changed = put_join(session, new, _replaces(session, if_match), reason=reason)
        response.headers["ETag"] = etag(join.version(session))
    _decide(service, () if dry_run else changed)
    with service.database.read() as session:
        # The decisions have stored the bounds that they rest on.
        join = join if dry_run else get_join(session, which.job, which.join)
        return join_answer(session, join, service.kept.joins, dry_run=dry_run)


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
) -> JoinAnswer:
    """Delete the SLO on a join's output and return it as it was. Its streams go by their own SLOs from then on."""
    with service.database.write(keep=not dry_run) as session:
        join, changed = delete_join(
            session, which.job, which.join, _replaces(session, if_match), service.clock(), reason=reason
        )
    _decide(service, () if dry_run else changed)
    with service.database.read() as session:
        return join_answer(session, join, service.kept.joins, dry_run=dry_run)


def _check_names(slo: JoinSlo) -> None:
    problems = ((number, name_problem(name)) for number, name in enumerate(slo.streams))
    errors = tuple(
        ErrorItem(f"/streams/{number}", problem) for number, problem in problems if problem is not None
    )
    if errors:
        raise InvalidBodyError(f"{errors[0].pointer}: {errors[0].detail}", errors=errors)


def _replaces(session: Session, if_match: str | None) -> Precondition:
    def check(before: StoredJoin | None) -> None:
        current = None if before is None else etag(before.version(session))
        held = "no such join yet" if before is None else f"a join of {', '.join(before.slo.streams)}"
        check_match(if_match, current, held, required=before is not None)

    return check


def _decide(service: Service, changed: Sequence[int]) -> None:
    """Decide anew about the streams that a write changed."""
    if changed:
        service.database.answers_changed()
    for stream_id in changed:
        decide_now(service, stream_id)
