"""Routes of a stream's SLO and policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from fastapi import APIRouter
from sqlalchemy import delete

from tidemark.controller.base.db.tables import RecommendationRow, StreamRow
from tidemark.controller.base.errors import ErrorItem, InvalidBodyError, LiveRefusedError, SloNotSetError
from tidemark.controller.control.bounds.acknowledgements import read_downstream
from tidemark.controller.control.rollout.actions import republish
from tidemark.controller.control.rollout.failed_bounds import carry_failures
from tidemark.controller.control.rollout.store import end_rollout, open_rollout
from tidemark.controller.server.http.parameters import StreamPath, WhichStream
from tidemark.controller.server.schemas.specs import PolicyAnswer, PolicySet, SloAnswer, SloSet
from tidemark.controller.server.spec_routes.consequences import consequences
from tidemark.controller.server.spec_routes.routes import Operation, SpecRequest, SpecRoutes, routes_of
from tidemark.controller.specs.kinds import Write
from tidemark.controller.specs.store import (
    POLICY,
    SLO,
    Spec,
    StreamKind,
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
from tidemark.models.specs.fields import values_of
from tidemark.models.specs.slo import Policy, Slo

V = TypeVar("V", Slo, Policy)


_ANSWERS: dict[str, tuple[type[Any], type[Any]]] = {
    "Slo": (SloAnswer, SloSet),
    "Policy": (PolicyAnswer, PolicySet),
}
"""What a read and what a write of a kind answers."""


def _read(kind: StreamKind[V], request: SpecRequest, which: StreamPath) -> tuple[object, str]:
    stream = get_stream(request.session, which.job, which.stream)
    found = kind.get(request.session, stream.id)
    if found is None:
        raise SloNotSetError(f"stream {which.stream!r} of job {which.job!r} has no SLO; set one first")
    return _ANSWERS[kind.name][0].of(found), version_of(request.session, kind, stream, found)


def _write(kind: StreamKind[V], request: SpecRequest, which: StreamPath, value: V) -> Write[Spec[V]]:
    session, limits = request.session, request.service.database.limits
    stream = lock_stream(session, which.job, which.stream, limits)
    if isinstance(value, Policy):
        _check_gates(request, stream, value)
    written = put_spec(request, kind, stream, value)
    session.flush()
    if isinstance(value, Policy):
        before = written.before
        if before is not None and replace(before.value, labels=value.labels) == value:
            # Labels do not make a bound that failed worth another try.
            carry_failures(session, stream.id, before.generation, written.stored.generation)
        if value.mode == "Live":
            _check_live(request, stream.id)
    return _published(request, stream, written)


def _remove(kind: StreamKind[V], request: SpecRequest, which: StreamPath) -> Write[Spec[V]]:
    stream = lock_known_stream(request.session, which.job, which.stream)
    removed = delete_spec(request, kind, stream)
    if kind.name == "Slo":
        _end_decisions(request, stream)
    return _published(request, stream, removed)


def _published(request: SpecRequest, stream: StreamRow, done: Write[Spec[V]]) -> Write[Spec[V]]:
    session = request.session
    # In Live the published envelope holds the SLO, whether or not there is evidence.
    republish(session, stream.id, get_policy(session, stream.id).value, request.now_us)
    return done


def _answer(
    kind: StreamKind[V], request: SpecRequest, done: Write[Spec[V]], streams: Sequence[int]
) -> object:
    session, (read, written), (stream_id,) = request.session, _ANSWERS[kind.name], streams
    if request.dry_run:
        request.service.decider.decide_within(session, stream_id, request.now_us)
    follows = consequences(session, stream_id, dry_run=request.dry_run)
    return written(**values_of(read.of(done.stored)), **vars(follows))


def _end_decisions(request: SpecRequest, stream: StreamRow) -> None:
    """End what an SLO that was deleted had led to."""
    session, now_us = request.session, request.now_us
    session.execute(delete(RecommendationRow).where(RecommendationRow.stream_id == stream.id))
    row = open_rollout(session, stream.id)
    if row is not None:
        end_rollout(session, row, "Superseded", "the SLO was deleted", now_us)


def _check_gates(request: SpecRequest, stream: StreamRow, policy: Policy) -> None:
    """Reject gates that are not set up; one that was removed since must not keep anybody from changing the rest."""
    gates = request.service.gates.gates
    before = get_policy(request.session, stream.id).value.gates
    known = ", ".join(gates) or "none; its operators add them to the file in TIDEMARK_GATES_FILE"
    wrong = [
        ErrorItem(f"/gates/{index}", f"this controller has no outside gate {gate!r}; it has {known}")
        for index, gate in enumerate(policy.gates)
        if gate not in gates and gate not in before
    ]
    if wrong:
        raise InvalidBodyError(
            "; ".join(f"{one.pointer}: {one.detail}" for one in wrong), errors=tuple(wrong)
        )


def _check_live(request: SpecRequest, stream_id: int) -> None:
    """Reject mode Live for a side of a join, a chain that it may end, and a ceiling that is missing or too low."""
    session = request.session
    slo, chain = get_slo(session, stream_id), read_downstream(session, stream_id)
    if slo is not None and slo.join_id is not None:
        raise _refused("the stream is a side of a join, whose SLO does not steer Live; delete the join first")
    if chain is not None and chain.unsafe:
        raise _refused(
            f"{UNSAFE}; if its rows stay ahead of any watermark, set {CONFIRMED_KEY}=true for the job"
        )
    room = load_room(session, load_state(session, stream_id), request.now_us, request.service.cache)
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


router = APIRouter(tags=["specifications"])


def _add(kind: StreamKind[V], body: type[V], get: Operation, put: Operation, delete: Operation) -> None:
    routes: SpecRoutes[StreamPath, V, Spec[V]] = SpecRoutes(
        path=f"/v1/jobs/{{job}}/streams/{{stream}}/{kind.name.lower()}",
        noun=kind.name,
        which=WhichStream,
        body=body,
        answers=_ANSWERS[kind.name],
        get=get,
        put=put,
        delete=delete,
        read=partial(_read, kind),
        write=partial(_write, kind),
        remove=partial(_remove, kind),
        answer=partial(_answer, kind),
    )
    router.include_router(routes_of(routes))


_add(
    SLO,
    Slo,
    Operation("Read the SLO", "Return the stream's SLO."),
    Operation(
        "Set the SLO",
        "Set the stream's SLO, whole; before its first report too. The recommendation follows at once.\n\n"
        "The answer says which bound is published from now on, and what that will do. A field without the unit in its "
        'name has the unit in its value: "target": "99.5%", "latency_cap": "15 min".',
    ),
    Operation(
        "Delete the SLO",
        "Delete the stream's SLO and return it as it was. Nothing is recommended from then on.\n\n"
        "An open rollout is superseded. The published bound stays until mode Off or a pin withdraws it.",
        {404: "slo-not-set", 409: "stream-joined"},
    ),
)
_add(
    POLICY,
    Policy,
    Operation("Read the policy", "Return the stream's policy, the default one when none was set."),
    Operation(
        "Set the policy",
        "Set the stream's policy, whole; before its first report too. The published bound follows at once.\n\n"
        "Live is rejected when the job has acknowledged that Live may end its query, or that its call has no ceiling, "
        "or one below the bound in use and the distance of its slowest partition. An outside gate is rejected that "
        "the controller does not have, unless the policy before named it too. Before the job's first acknowledgement "
        "the policy is accepted unchecked, and the status shows any conflict with the ceiling.",
        {409: "live-refused"},
    ),
    Operation(
        "Delete the policy",
        "Delete the stream's policy and return it as it was. The default policy holds from then on, whose mode is Off.",
        {404: "policy-not-set"},
    ),
)
