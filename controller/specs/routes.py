"""Routes of a stream's SLO and policy."""

from __future__ import annotations

from fastapi import APIRouter, Response
from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from tidemark.controller.api.etags import IfMatch, IfNoneMatch, answered, etag, precondition
from tidemark.controller.api.openapi import answers, takes
from tidemark.controller.api.parameters import DryRun, Reason, TheService, WhichStream
from tidemark.controller.api.request_body import JsonBody
from tidemark.controller.api.schemas.specs import Consequences, PolicyAnswer, PolicySet, SloAnswer, SloSet
from tidemark.controller.bounds.acknowledgements import read_downstream
from tidemark.controller.errors import ErrorItem, InvalidBodyError, LiveRefusedError, SloNotSetError
from tidemark.controller.rollout.actions import republish
from tidemark.controller.rollout.store import end_rollout, open_rollout
from tidemark.controller.runtime.parse_body import parse_body
from tidemark.controller.service import Service
from tidemark.controller.specs.consequences import consequences, decide_now
from tidemark.controller.specs.store import (
    delete_policy,
    delete_slo,
    fields_of,
    get_policy,
    get_slo,
    policy_version,
    put_policy,
    put_slo,
    slo_version,
)
from tidemark.controller.specs.views import policy_answer, slo_answer
from tidemark.controller.stream_state.load import load_room, load_state
from tidemark.controller.stream_state.state import NO_CEILING
from tidemark.controller.streams.store import get_stream, lock_known_stream, lock_stream
from tidemark.models.base.duration import format_duration
from tidemark.models.protocol.downstream import UNSAFE
from tidemark.models.specs.findings import CONFIRMED_KEY
from tidemark.models.specs.slo import Policy, Slo

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["specifications"])

_SLO = TypeAdapter(Slo)
_POLICY = TypeAdapter(Policy)


@router.get(
    "/slo",
    operation_id="getSlo",
    summary="Read the SLO",
    response_model=SloAnswer,
    responses=answers("SloAnswer", 304, 404, 422, 503),
)
def read_slo(which: WhichStream, service: TheService, if_none_match: IfNoneMatch = None) -> Response:
    """Return the stream's SLO."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        slo = get_slo(session, stream_id)
        if slo is None:
            raise SloNotSetError(f"stream {which.stream!r} of job {which.job!r} has no SLO; PUT one here")
        version = slo_version(session, stream_id, slo)
    return answered(slo_answer(slo), if_none_match, version)


@router.put(
    "/slo",
    operation_id="putSlo",
    summary="Set the SLO",
    responses=answers("SloSet", 400, 408, 412, 413, 415, 422, 428, 503),
    openapi_extra=takes("Slo"),
)
def write_slo(
    which: WhichStream,
    body: JsonBody,
    service: TheService,
    response: Response,
    *,
    dry_run: DryRun,
    reason: Reason,
    if_match: IfMatch = None,
) -> SloSet:
    """Set the stream's SLO, whole; before its first report too. The recommendation follows at once.

    The answer says which bound is published from now on, and what that will do.
    """
    slo = parse_body(_SLO, body)
    now_us = service.clock()
    with service.database.write(keep=not dry_run) as session:
        stream_id = lock_stream(session, which.job, which.stream, service.database.limits).id
        stored = put_slo(session, stream_id, slo, precondition(if_match), now_us, reason=reason)
        session.flush()
        # In Live the published envelope holds the SLO, whether or not there is evidence.
        republish(session, stream_id, get_policy(session, stream_id).value, now_us)
        response.headers["ETag"] = etag(slo_version(session, stream_id, stored))
        follows = _tried(service, session, stream_id, now_us) if dry_run else None
    follows = follows or _done(service, stream_id)
    return SloSet(**fields_of(slo_answer(stored)), **vars(follows))


@router.delete(
    "/slo",
    operation_id="deleteSlo",
    summary="Delete the SLO",
    responses=answers(
        "SloSet", 404, 409, 412, 422, 428, 503, kinds={404: "slo-not-set", 409: "stream-joined"}
    ),
)
def remove_slo(
    which: WhichStream,
    service: TheService,
    *,
    dry_run: DryRun,
    reason: Reason,
    if_match: IfMatch = None,
) -> SloSet:
    """Delete the stream's SLO and return it as it was. Nothing is recommended from then on.

    An open rollout is superseded. The published bound stays until mode Off or a pin withdraws it.
    """
    now_us = service.clock()
    with service.database.write(keep=not dry_run) as session:
        stream_id = lock_known_stream(session, which.job, which.stream).id
        removed = delete_slo(session, stream_id, precondition(if_match), now_us, reason=reason)
        session.flush()
        row = open_rollout(session, stream_id)
        if row is not None:
            end_rollout(session, row, "Superseded", "the SLO was deleted", now_us)
        republish(session, stream_id, get_policy(session, stream_id).value, now_us)
        follows = _tried(service, session, stream_id, now_us) if dry_run else None
    follows = follows or _done(service, stream_id)
    return SloSet(**fields_of(slo_answer(removed)), **vars(follows))


@router.get(
    "/policy",
    operation_id="getPolicy",
    summary="Read the policy",
    response_model=PolicyAnswer,
    responses=answers("PolicyAnswer", 304, 404, 422, 503),
)
def read_policy(which: WhichStream, service: TheService, if_none_match: IfNoneMatch = None) -> Response:
    """Return the stream's policy, the default one when none was set."""
    with service.database.read() as session:
        stream_id = get_stream(session, which.job, which.stream).id
        policy = get_policy(session, stream_id)
        version = policy_version(session, stream_id, policy)
    return answered(policy_answer(policy), if_none_match, version)


@router.put(
    "/policy",
    operation_id="putPolicy",
    summary="Set the policy",
    responses=answers("PolicySet", 400, 408, 409, 412, 413, 415, 422, 428, 503, kinds={409: "live-refused"}),
    openapi_extra=takes("Policy"),
)
def write_policy(
    which: WhichStream,
    body: JsonBody,
    service: TheService,
    response: Response,
    *,
    dry_run: DryRun,
    reason: Reason,
    if_match: IfMatch = None,
) -> PolicySet:
    """Set the stream's policy, whole; before its first report too. The published bound follows at once.

    Live is rejected when the job has acknowledged that Live may end its query, or that its call has no ceiling, or one
    below the bound in use and the distance of its slowest partition. An outside gate is rejected that the controller
    does not have, unless the policy before named it too. Before the job's first acknowledgement the policy
    is accepted unchecked, and the status shows any conflict with the ceiling.
    """
    policy = parse_body(_POLICY, body)
    now_us = service.clock()
    with service.database.write(keep=not dry_run) as session:
        stream_id = lock_stream(session, which.job, which.stream, service.database.limits).id
        _check_gates(service, policy, get_policy(session, stream_id).value)
        stored = put_policy(session, stream_id, policy, precondition(if_match), now_us, reason=reason)
        session.flush()
        if policy.mode == "Live":
            _check_join(session, stream_id)
            _check_chain(session, stream_id)
            _check_ceiling(service, session, stream_id, now_us)
        republish(session, stream_id, policy, now_us)
        response.headers["ETag"] = etag(policy_version(session, stream_id, stored))
        follows = _tried(service, session, stream_id, now_us) if dry_run else None
    follows = follows or _done(service, stream_id)
    return PolicySet(**fields_of(policy_answer(stored)), **vars(follows))


@router.delete(
    "/policy",
    operation_id="deletePolicy",
    summary="Delete the policy",
    responses=answers("PolicySet", 404, 412, 422, 428, 503, kinds={404: "policy-not-set"}),
)
def remove_policy(
    which: WhichStream,
    service: TheService,
    *,
    dry_run: DryRun,
    reason: Reason,
    if_match: IfMatch = None,
) -> PolicySet:
    """Delete the stream's policy and return it as it was. The default policy holds from then on, whose mode is Off."""
    now_us = service.clock()
    with service.database.write(keep=not dry_run) as session:
        stream_id = lock_known_stream(session, which.job, which.stream).id
        removed = delete_policy(session, stream_id, precondition(if_match), now_us, reason=reason)
        session.flush()
        republish(session, stream_id, get_policy(session, stream_id).value, now_us)
        follows = _tried(service, session, stream_id, now_us) if dry_run else None
    follows = follows or _done(service, stream_id)
    return PolicySet(**fields_of(policy_answer(removed)), **vars(follows))


def _tried(service: Service, session: Session, stream_id: int, now_us: int) -> Consequences:
    """Return what would follow from a write that ``session`` rolls back."""
    session.flush()
    service.decider.decide_within(session, stream_id, now_us)
    return consequences(session, stream_id, dry_run=True)


def _done(service: Service, stream_id: int) -> Consequences:
    """Decide anew and return what follows from what was written."""
    service.database.answers_changed()
    decide_now(service, stream_id)
    with service.database.read() as session:
        return consequences(session, stream_id, dry_run=False)


def _check_gates(service: Service, policy: Policy, before: Policy) -> None:
    """Reject gates that are not set up; one that was removed since must not keep anybody from changing the rest."""
    known = (
        ", ".join(service.gates.gates) or "none; its operators add them to the file in TIDEMARK_GATES_FILE"
    )
    wrong = [
        ErrorItem(f"/gates/{index}", f"this controller has no outside gate {gate!r}; it has {known}")
        for index, gate in enumerate(policy.gates)
        if gate not in service.gates.gates and gate not in before.gates
    ]
    if wrong:
        raise InvalidBodyError(
            "; ".join(f"{one.pointer}: {one.detail}" for one in wrong), errors=tuple(wrong)
        )


def _check_ceiling(service: Service, session: Session, stream_id: int, now_us: int) -> None:
    room = load_room(session, load_state(session, stream_id), now_us, service.kept)
    if room is None:
        return
    if room.ceiling_ms is None:
        reason = f"{NO_CEILING}: give it one (on a new checkpoint), start the job and set mode Live then"
        raise _refused(reason)
    if room.too_low:
        ceiling = format_duration(room.ceiling_ms * 1_000)
        raise _refused(
            f"the job's ceiling, {ceiling}, is below {room.needed}; give its call a ceiling of at least "
            f"{format_duration(room.needed_ms * 1_000)}, start the job again and set mode Live then"
        )


def _check_chain(session: Session, stream_id: int) -> None:
    chain = read_downstream(session, stream_id)
    if chain is not None and chain.unsafe:
        raise _refused(
            f"{UNSAFE}; if its rows stay ahead of any watermark, set {CONFIRMED_KEY}=true for the job"
        )


def _check_join(session: Session, stream_id: int) -> None:
    slo = get_slo(session, stream_id)
    if slo is not None and slo.join_id is not None:
        raise _refused("the stream is a side of a join, whose SLO does not steer Live; delete the join first")


def _refused(message: str) -> LiveRefusedError:
    return LiveRefusedError(f"/mode: {message}", errors=(ErrorItem("/mode", message),))
