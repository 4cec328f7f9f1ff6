"""Routes of a stream's SLO and policy: each is read with an ETag, and set and deleted with If-Match."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, TypeVar

from fastapi import APIRouter, Response
from sqlalchemy import delete

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.tables import RecommendationRow, StreamRow
from tidemark.controller.base.errors import ErrorItem, InvalidBodyError, LiveRefusedError, SloNotSetError
from tidemark.controller.base.read_spec import parse_spec
from tidemark.controller.control.bounds.acknowledgements import read_downstream
from tidemark.controller.control.bounds.publication import SteeredStream, last_published
from tidemark.controller.control.rollout.actions import begins, republish
from tidemark.controller.control.rollout.failed_bounds import carry_failures
from tidemark.controller.control.rollout.store import end_rollout, open_rollout
from tidemark.controller.server.http.etags import IfNoneMatch, answered
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import Reason, TheService, WhichStream
from tidemark.controller.server.http.request_body import JsonBody
from tidemark.controller.server.process.service import Service
from tidemark.controller.server.schemas.specs import PolicyAnswer, PolicySet, SloAnswer, SloSet
from tidemark.controller.server.schemas.views import published_answer, recommended_answer
from tidemark.controller.server.spec_routes.write import SpecWrite, TheWrite
from tidemark.controller.specs.change import ChangeRequest
from tidemark.controller.specs.pins import pin_in_force
from tidemark.controller.specs.store import (
    POLICY,
    SLO,
    Spec,
    delete_spec,
    get_policy,
    get_slo,
    put_spec,
    version_of,
)
from tidemark.controller.specs.streams import get_stream, lock_known_stream, lock_stream
from tidemark.controller.view.state.load import load_room, load_state
from tidemark.controller.view.state.state import NO_CEILING
from tidemark.models.base.duration import format_duration
from tidemark.models.base.stateful import CONFIRMED_KEY
from tidemark.models.protocol.downstream import UNSAFE
from tidemark.models.rollout.states import CANDIDATE
from tidemark.models.specs.slo import Policy, Slo

T = TypeVar("T", SloSet, PolicySet)

router = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["specifications"])


@router.get("/slo", **says("getSlo", "Read the SLO", "SloAnswer", 304, 404))
def read_slo(which: WhichStream, service: TheService, if_none_match: IfNoneMatch = None) -> Response:
    """Return the stream's SLO."""
    with service.database.read() as session:
        stream = get_stream(session, which.job, which.stream)
        slo = get_slo(session, stream.id)
        if slo is None:
            raise SloNotSetError(f"stream {which.stream!r} of job {which.job!r} has no SLO; set one first")
        return answered(SloAnswer.of(slo), if_none_match, version_of(session, SLO, stream, slo))


@router.put("/slo", **says("putSlo", "Set the SLO", "SloSet", 412, 428, body="Slo"))
def set_slo(which: WhichStream, body: JsonBody, asked: TheWrite, *, reason: Reason) -> Response:
    """Set the stream's SLO, whole; before its first report too. The recommendation follows at once.

    The answer says which bound is published from now on, and what that will do. A field without the unit in its name
    has the unit in its value: "target": "99.5%", "latency_cap": "15 min".
    """
    slo = parse_spec(Slo, body)
    with asked.change(reason, which.job, [which.stream], slo) as change:
        stream = lock_stream(change.session, which.job, which.stream, asked.service.database.limits)
        stored = put_spec(change, SLO, stream, slo)
        answer = _followed(SloSet, stored, asked, change, stream)
        return answered(answer, None, version_of(change.session, SLO, stream, stored))


@router.delete(
    "/slo",
    **says(
        "deleteSlo",
        "Delete the SLO",
        "SloSet",
        404,
        409,
        412,
        428,
        kinds={404: "slo-not-set", 409: "stream-joined"},
    ),
)
def delete_slo(which: WhichStream, asked: TheWrite, *, reason: Reason) -> SloSet:
    """Delete the stream's SLO and return it as it was. Nothing is recommended from then on.

    An open rollout is superseded. The published bound stays until mode Off or a pin withdraws it.
    """
    with asked.change(reason) as change:
        session, stream = change.session, lock_known_stream(change.session, which.job, which.stream)
        before = delete_spec(change, SLO, stream)
        session.execute(delete(RecommendationRow).where(RecommendationRow.stream_id == stream.id))
        rollout = open_rollout(session, stream.id)
        if rollout is not None:
            end_rollout(session, rollout, "Superseded", "the SLO was deleted", change.now_us)
        return _followed(SloSet, before, asked, change, stream)


@router.get("/policy", **says("getPolicy", "Read the policy", "PolicyAnswer", 304, 404))
def read_policy(which: WhichStream, service: TheService, if_none_match: IfNoneMatch = None) -> Response:
    """Return the stream's policy, the default one when none was set."""
    with service.database.read() as session:
        stream = get_stream(session, which.job, which.stream)
        policy = get_policy(session, stream.id)
        return answered(PolicyAnswer.of(policy), if_none_match, version_of(session, POLICY, stream, policy))


@router.put(
    "/policy",
    **says(
        "putPolicy",
        "Set the policy",
        "PolicySet",
        409,
        412,
        428,
        body="Policy",
        kinds={409: "live-refused"},
    ),
)
def set_policy(which: WhichStream, body: JsonBody, asked: TheWrite, *, reason: Reason) -> Response:
    """Set the stream's policy, whole; before its first report too. The published bound follows at once.

    Live is rejected when the job has acknowledged that Live may end its query, or that its call has no ceiling, or one
    below the bound in use and the distance of its slowest partition. An outside gate is rejected that the controller
    does not have, unless the policy before named it too. Before the job's first acknowledgement the policy is accepted
    unchecked, and the status shows any conflict with the ceiling.
    """
    policy = parse_spec(Policy, body)
    with asked.change(reason, which.job, [which.stream]) as change:
        session = change.session
        stream = lock_stream(session, which.job, which.stream, asked.service.database.limits)
        before = get_policy(session, stream.id)
        _check_gates(asked.service.gates.gates, before.value.gates, policy.gates)
        stored = put_spec(change, POLICY, stream, policy)
        session.flush()
        if replace(before.value, labels=policy.labels) == policy:
            # Labels do not make a bound that failed worth another try.
            carry_failures(session, stream.id, before.generation, stored.generation)
        if policy.mode == "Live":
            _check_live(asked.service, change, stream.id)
        answer = _followed(PolicySet, stored, asked, change, stream)
        return answered(answer, None, version_of(session, POLICY, stream, stored))


@router.delete(
    "/policy",
    **says("deletePolicy", "Delete the policy", "PolicySet", 404, 412, 428, kinds={404: "policy-not-set"}),
)
def delete_policy(which: WhichStream, asked: TheWrite, *, reason: Reason) -> PolicySet:
    """Delete the stream's policy and return it as it was. The default policy holds from then on, whose mode is Off."""
    with asked.change(reason, which.job, [which.stream]) as change:
        stream = lock_known_stream(change.session, which.job, which.stream)
        return _followed(PolicySet, delete_spec(change, POLICY, stream), asked, change, stream)


def _followed(
    kind: type[T], spec: Spec[Any], asked: SpecWrite, change: ChangeRequest, stream: StreamRow
) -> T:
    """Publish and decide about a stream whose SLO or policy was changed, and return the answer with what follows."""
    session, policy = change.session, get_policy(change.session, stream.id).value
    steered = SteeredStream(session, stream, change.now_us, locked=True)
    mode_first = not begins(steered, policy, get_slo(session, stream.id))
    if mode_first:
        # A decision compares with what is published from now on.
        republish(session, stream.id, policy, change.now_us)
    asked.service.decide(session, stream.id, change.now_us)
    if not mode_first:
        # It is published whether or not there is evidence to decide by.
        republish(session, stream.id, policy, change.now_us)
    session.flush()
    recommendation = session.get(RecommendationRow, stream.id, populate_existing=True)
    published, rollout = last_published(session, stream.id), open_rollout(session, stream.id)
    return made_of(
        kind,
        spec.value,
        generation=spec.generation,
        updated_us=spec.updated_us,
        dry_run=asked.dry_run,
        recommended=recommended_answer(session, recommendation, published),
        transition=None if recommendation is None else recommendation.transition,
        published=published_answer(stream, published, pin_in_force(session, stream.job, stream.stream)),
        held=None if rollout is None or rollout.state not in CANDIDATE else rollout.reason,
    )


def _check_gates(offered: Collection[str], before: Collection[str], after: Collection[str]) -> None:
    """Reject gates that are not set up; one that was removed since must not keep anybody from changing the rest."""
    names = ", ".join(offered) or "none; its operators add them to the file in TIDEMARK_GATES_FILE"
    wrong = tuple(
        ErrorItem(f"/gates/{index}", f"this controller has no outside gate {gate!r}; it has {names}")
        for index, gate in enumerate(after)
        if gate not in offered and gate not in before
    )
    if wrong:
        raise InvalidBodyError("; ".join(f"{one.pointer}: {one.detail}" for one in wrong), errors=wrong)


def _check_live(service: Service, change: ChangeRequest, stream_id: int) -> None:
    """Reject mode Live for a side of a join, a chain that it may end, and a ceiling that is missing or too low."""
    session = change.session
    slo, chain = get_slo(session, stream_id), read_downstream(session, stream_id)
    if slo is not None and slo.join_id is not None:
        raise _refused("the stream is a side of a join, whose SLO does not steer Live; delete the join first")
    if chain is not None and chain.unsafe:
        raise _refused(
            f"{UNSAFE}; if its rows stay ahead of any watermark, set {CONFIRMED_KEY}=true for the job"
        )
    room = load_room(session, load_state(session, stream_id), change.now_us, service.cache)
    if room is None:
        return
    if room.ceiling_ms is None:
        raise _refused(f"{NO_CEILING}; its log says why")
    if room.too_low:
        ceiling = format_duration(room.ceiling_ms * 1_000)
        raise _refused(
            f"the job's ceiling, {ceiling}, is below {room.needed}; give its call a ceiling of at least "
            f"{format_duration(room.needed_ms * 1_000)}, start the job again and set mode Live then"
        )


def _refused(message: str) -> LiveRefusedError:
    return LiveRefusedError(f"/mode: {message}", errors=(ErrorItem("/mode", message),))
