"""Routes of what is tried beside the SLO in force."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from tidemark.controller.api.etags import IfMatch, IfNoneMatch, answered, check_match, etag
from tidemark.controller.api.openapi import answers, takes
from tidemark.controller.api.parameters import DryRun, Reason, TheService, WhichStream
from tidemark.controller.api.request_body import JsonBody
from tidemark.controller.api.schemas.shadow import ShadowAnswer
from tidemark.controller.api.schemas.specs import SloAnswer, SloSet
from tidemark.controller.errors import SloNotSetError
from tidemark.controller.rollout.republish import republish
from tidemark.controller.runtime.parse_body import parse_body
from tidemark.controller.shadow.store import (
    StoredShadow,
    check_tried,
    end_shadow,
    find_shadow,
    get_shadow,
    put_shadow,
)
from tidemark.controller.shadow.views import shadow_answer
from tidemark.controller.spec_api.consequences import consequences, decide_now
from tidemark.controller.specs.kinds import ChangeRequest
from tidemark.controller.specs.store import SLO, Spec, get_policy, get_slo, put_spec
from tidemark.controller.streams.store import get_stream, lock_known_stream
from tidemark.models.base.target import format_target
from tidemark.models.spec_fields import values_of
from tidemark.models.specs.shadow_slo import ShadowSlo
from tidemark.models.specs.slo import Slo

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["specifications"])

_TRIED = TypeAdapter(ShadowSlo)
_ABSENT = {404: "shadow-not-set"}


@router.get(
    "/shadow",
    operation_id="getShadow",
    summary="Read the shadow",
    response_model=ShadowAnswer,
    responses=answers("ShadowAnswer", 304, 404, 422, 503, kinds=_ABSENT),
)
def read_shadow(which: WhichStream, service: TheService, if_none_match: IfNoneMatch = None) -> Response:
    """Return what is tried beside the stream's SLO, and what it would have done beside what the bounds in use did.

    The ETag is that of what is tried and of the SLO: what is counted changes without it.
    """
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        shadow, slo = get_shadow(session, stream_id), get_slo(session, stream_id)
        return answered(shadow_answer(session, shadow, slo), if_none_match, shadow.version(session, slo))


@router.put(
    "/shadow",
    operation_id="putShadow",
    summary="Set the shadow",
    responses=answers(
        "ShadowAnswer",
        *(400, 404, 408, 409, 412, 413, 415, 422, 428, 503),
        kinds={404: "slo-not-set", 409: "shadow-refused"},
    ),
    openapi_extra=takes("ShadowSlo"),
)
def write_shadow(
    which: WhichStream,
    body: JsonBody,
    service: TheService,
    response: Response,
    *,
    dry_run: DryRun,
    reason: Reason,
    if_match: IfMatch = None,
) -> ShadowAnswer:
    """Try another target and other caps beside the stream's SLO: decided and counted at each decision, never published.

    A stream has one shadow at most: another one takes its place, and what was counted begins anew.
    """
    tried = parse_body(_TRIED, body)
    now_us = service.clock()
    with service.database.write(keep=not dry_run) as session:
        stream_id = lock_known_stream(session, which.job, which.stream).id
        slo = _slo_of(session, stream_id)
        shadow = find_shadow(session, stream_id)
        if shadow is None or shadow.tried != tried:
            _check(session, if_match, shadow, slo)
            check_tried(tried, slo)
            shadow = put_shadow(session, stream_id, tried, shadow, now_us, reason=reason)
        if dry_run:
            service.decider.try_shadow(session, shadow, now_us)
        version = shadow.version(session, slo)
        answer = shadow_answer(session, shadow, slo, dry_run=dry_run)
    response.headers["ETag"] = etag(version)
    if dry_run:
        return answer
    service.decider.decide_shadow(stream_id, now_us)
    with service.database.read() as session:
        # It may be gone again.
        now = find_shadow(session, stream_id)
        return answer if now is None else shadow_answer(session, now, slo)


@router.delete(
    "/shadow",
    operation_id="deleteShadow",
    summary="Remove the shadow",
    responses=answers("ShadowAnswer", 404, 412, 422, 428, 503, kinds=_ABSENT),
)
def remove_shadow(
    which: WhichStream,
    service: TheService,
    *,
    dry_run: DryRun,
    reason: Reason,
    if_match: IfMatch = None,
) -> ShadowAnswer:
    """Remove the shadow and return it as it was. What was counted of it is in the event, and deleted otherwise."""
    now_us = service.clock()
    with service.database.write(keep=not dry_run) as session:
        stream_id = lock_known_stream(session, which.job, which.stream).id
        shadow, slo = get_shadow(session, stream_id), get_slo(session, stream_id)
        _check(session, if_match, shadow, slo)
        answer = shadow_answer(session, shadow, slo, dry_run=dry_run)
        end_shadow(session, stream_id, now_us, kind="ShadowRemoved", reason=reason)
    return answer


@router.post(
    "/shadow:promote",
    operation_id="promoteShadow",
    summary="Promote the shadow",
    responses=answers("SloSet", 404, 412, 422, 428, 503, kinds=_ABSENT),
)
def promote(
    which: WhichStream,
    service: TheService,
    response: Response,
    *,
    dry_run: DryRun,
    reason: Reason,
    if_match: IfMatch = None,
) -> SloSet:
    """Make the target and caps of the shadow those of the SLO in force, and remove the shadow.

    The other fields of the SLO stay. The bound that follows is rolled out as the policy allows, approval included.
    """
    now_us = service.clock()
    with service.database.write(keep=not dry_run) as session:
        stream = lock_known_stream(session, which.job, which.stream)
        stream_id = stream.id
        shadow, slo = get_shadow(session, stream_id), _slo_of(session, stream_id)
        _check(session, if_match, shadow, slo)
        end_shadow(session, stream_id, now_us, kind="ShadowPromoted", reason=reason)
        change = ChangeRequest(session, now_us, lambda *_: None, reason)
        written = put_spec(change, SLO, stream, shadow.tried.beside(slo.value))
        session.flush()
        republish(session, stream_id, get_policy(session, stream_id).value, now_us)
        response.headers["ETag"] = etag(written.version)
        follows = None
        if dry_run:
            session.flush()
            service.decider.decide_within(session, stream_id, now_us)
            follows = consequences(session, stream_id, dry_run=True)
    if follows is None:
        service.database.answers_changed()
        decide_now(service, stream_id)
        with service.database.read() as session:
            follows = consequences(session, stream_id, dry_run=False)
    return SloSet(**values_of(SloAnswer.of(written.stored)), **vars(follows))


def _slo_of(session: Session, stream_id: int) -> Spec[Slo]:
    slo = get_slo(session, stream_id)
    if slo is None:
        raise SloNotSetError("the stream has no SLO that anything could be tried beside; set one first")
    return slo


def _check(
    session: Session, if_match: str | None, shadow: StoredShadow | None, slo: Spec[Slo] | None
) -> None:
    """Check the If-Match header against the shadow and the SLO that it is beside."""
    current = None if shadow is None else etag(shadow.version(session, slo))
    held = "no shadow"
    if shadow is not None:
        beside = 0 if slo is None else slo.generation
        held = f"a shadow with target {format_target(shadow.tried.target_ppm)} beside generation {beside} of the SLO"
    check_match(if_match, current, held, required=shadow is not None)
