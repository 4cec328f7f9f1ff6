"""Routes of a stream's SLO and policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from fastapi import APIRouter
from sqlalchemy import delete
from sqlalchemy.orm import Session

from tidemark.controller.api.names import StreamPath, WhichStream
from tidemark.controller.api.schemas import PolicyAnswer, PolicySet, SloAnswer, SloSet
from tidemark.controller.bounds.chains import chain_of
from tidemark.controller.db.tables import RecommendationRow
from tidemark.controller.decide.ceiling import NO_CEILING
from tidemark.controller.errors import ErrorItem, InvalidBodyError, LiveRefusedError, SloNotSetError
from tidemark.controller.rollout.failed_bounds import carry_failures
from tidemark.controller.rollout.record import end_rollout
from tidemark.controller.rollout.republish import republish
from tidemark.controller.rollout.store import open_rollout
from tidemark.controller.shadow.store import end_shadow
from tidemark.controller.spec_api.consequences import consequences
from tidemark.controller.spec_api.routes import Done, Operation, SpecRequest, SpecRoutes, routes_of
from tidemark.controller.specs.kinds import SpecKind, Write
from tidemark.controller.specs.store import POLICIES, SLOS, Spec, get_policy, get_slo
from tidemark.controller.stream_state.load import load_room, load_state
from tidemark.controller.streams.store import get_stream, lock_known_stream, lock_stream
from tidemark.models.chains import CONFIRMED_KEY
from tidemark.models.coupling import UNSAFE
from tidemark.models.duration import format_duration
from tidemark.models.slo import Policy, Slo
from tidemark.models.spec_fields import values_of

V = TypeVar("V", Slo, Policy)

_PATH = "/v1/jobs/{job}/streams/{stream}"


class _OfStream(SpecRoutes[StreamPath, V, Spec[V]]):
    """What is set for one stream; the published bound follows at once, and so does the decision."""

    which = WhichStream
    kind: SpecKind[int, V, Spec[V]]

    def find(self, session: Session, which: StreamPath, stream_id: int) -> Spec[V]:
        """Return what is set."""
        found = self.kind.find(session, stream_id)
        if found is None:
            raise SloNotSetError(f"stream {which.stream!r} of job {which.job!r} has no SLO; PUT one here")
        return found

    def check(self, request: SpecRequest, stream_id: int, value: V) -> None:
        """Check a value before the precondition."""

    def follow_put(self, request: SpecRequest, stream_id: int, written: Write[Spec[V]]) -> None:
        """Do what a kind does once a value is stored, before anything is published."""

    def follow_delete(self, request: SpecRequest, stream_id: int) -> None:
        """Do what a kind does once it is deleted, before anything is published."""

    def read(self, request: SpecRequest, which: StreamPath) -> tuple[object, str]:
        stream_id = get_stream(request.session, which.job, which.stream).id
        found = self.find(request.session, which, stream_id)
        return self.read_answer.of(found), self.kind.version(request.session, stream_id, found)

    def write(self, request: SpecRequest, which: StreamPath, value: V) -> Done[StreamPath, Spec[V]]:
        session, limits = request.session, request.service.database.limits
        stream_id = lock_stream(session, which.job, which.stream, limits).id
        self.check(request, stream_id, value)
        written = self.kind.put(
            session, stream_id, value, request.check, request.now_us, reason=request.reason
        )
        session.flush()
        self.follow_put(request, stream_id, written)
        return self._published(request, which, stream_id, written.stored)

    def remove(self, request: SpecRequest, which: StreamPath) -> Done[StreamPath, Spec[V]]:
        session = request.session
        stream_id = lock_known_stream(session, which.job, which.stream).id
        removed = self.kind.delete(session, stream_id, request.check, request.now_us, reason=request.reason)
        session.flush()
        self.follow_delete(request, stream_id)
        return self._published(request, which, stream_id, removed.stored)

    def answer(self, request: SpecRequest, done: Done[StreamPath, Spec[V]]) -> Any:
        (stream_id,) = done.decided
        if request.dry_run:
            request.service.decider.decide_within(request.session, stream_id, request.now_us)
        follows = consequences(request.session, stream_id, dry_run=request.dry_run)
        return self.written_answer(**values_of(self.read_answer.of(done.stored)), **vars(follows))

    def _published(
        self, request: SpecRequest, which: StreamPath, stream_id: int, stored: Spec[V]
    ) -> Done[StreamPath, Spec[V]]:
        session = request.session
        # In Live the published envelope holds the SLO, whether or not there is evidence.
        republish(session, stream_id, get_policy(session, stream_id).value, request.now_us)
        return Done(which, stored, self.kind.version(session, stream_id, stored), (stream_id,))


class _SloRoutes(_OfStream[Slo]):
    path, noun, body, kind = f"{_PATH}/slo", "Slo", Slo, SLOS
    read_answer, written_answer = SloAnswer, SloSet
    get = Operation("Read the SLO", "Return the stream's SLO.")
    put = Operation(
        "Set the SLO",
        "Set the stream's SLO, whole; before its first report too. The recommendation follows at once.\n\n"
        "The answer says which bound is published from now on, and what that will do.",
    )
    delete = Operation(
        "Delete the SLO",
        "Delete the stream's SLO and return it as it was. Nothing is recommended from then on.\n\n"
        "An open rollout is superseded and a shadow removed. The published bound stays until mode Off or a pin "
        "withdraws it.",
        {404: "slo-not-set", 409: "stream-joined"},
    )

    def follow_delete(self, request: SpecRequest, stream_id: int) -> None:
        session, now_us = request.session, request.now_us
        session.execute(delete(RecommendationRow).where(RecommendationRow.stream_id == stream_id))
        end_shadow(session, stream_id, now_us, kind="ShadowRemoved", reason="the SLO was deleted")
        row = open_rollout(session, stream_id)
        if row is not None:
            end_rollout(session, row, "Superseded", "the SLO was deleted", now_us)


class _PolicyRoutes(_OfStream[Policy]):
    path, noun, body, kind = f"{_PATH}/policy", "Policy", Policy, POLICIES
    read_answer, written_answer = PolicyAnswer, PolicySet
    get = Operation("Read the policy", "Return the stream's policy, the default one when none was set.")
    put = Operation(
        "Set the policy",
        "Set the stream's policy, whole; before its first report too. The published bound follows at once.\n\n"
        "Live is rejected when the job has acknowledged that Live may end its query, or that its call has no ceiling, "
        "or one below the bound in use and the distance of its slowest partition. An outside gate is rejected that the "
        "controller does not have, unless the policy before named it too. Before the job's first acknowledgement the "
        "policy is accepted unchecked, and the status shows any conflict with the ceiling.",
        {409: "live-refused"},
    )
    delete = Operation(
        "Delete the policy",
        "Delete the stream's policy and return it as it was. The default policy holds from then on, whose mode is Off.",
        {404: "policy-not-set"},
    )

    def check(self, request: SpecRequest, stream_id: int, value: Policy) -> None:
        """Reject gates that are not set up; one that was removed since must not keep anybody from changing the rest."""
        gates = request.service.gates.gates
        before = get_policy(request.session, stream_id).value.gates
        known = ", ".join(gates) or "none; its operators add them to the file in TIDEMARK_GATES_FILE"
        wrong = [
            ErrorItem(f"/gates/{index}", f"this controller has no outside gate {gate!r}; it has {known}")
            for index, gate in enumerate(value.gates)
            if gate not in gates and gate not in before
        ]
        if wrong:
            raise InvalidBodyError(
                "; ".join(f"{one.pointer}: {one.detail}" for one in wrong), errors=tuple(wrong)
            )

    def follow_put(self, request: SpecRequest, stream_id: int, written: Write[Spec[Policy]]) -> None:
        before, policy = written.before, written.stored.value
        if before is not None and written.streams and replace(before.value, labels=policy.labels) == policy:
            # Labels do not make a bound that failed worth another try.
            carry_failures(request.session, stream_id, before.generation, written.stored.generation)
        if policy.mode == "Live":
            _check_live(request, stream_id)


def _check_live(request: SpecRequest, stream_id: int) -> None:
    """Reject mode Live for a side of a join, a chain that it may end, and a ceiling that is missing or too low."""
    session = request.session
    slo, chain = get_slo(session, stream_id), chain_of(session, stream_id)
    if slo is not None and slo.join_id is not None:
        raise _refused("the stream is a side of a join, whose SLO does not steer Live; delete the join first")
    if chain is not None and chain.unsafe:
        raise _refused(
            f"{UNSAFE}; if its rows stay ahead of any watermark, set {CONFIRMED_KEY}=true for the job"
        )
    room = load_room(session, load_state(session, stream_id), request.now_us, request.service.kept)
    if room is None:
        return
    if room.ceiling_ms is None:
        raise _refused(
            f"{NO_CEILING}: give it one (on a new checkpoint), start the job and set mode Live then"
        )
    if room.too_low:
        ceiling = format_duration(room.ceiling_ms * 1_000)
        raise _refused(
            f"the job's ceiling, {ceiling}, is below {room.needed}; give its call a ceiling of at least "
            f"{format_duration(room.needed_ms * 1_000)}, start the job again and set mode Live then"
        )


def _refused(message: str) -> LiveRefusedError:
    return LiveRefusedError(f"/mode: {message}", errors=(ErrorItem("/mode", message),))


router = APIRouter(tags=["specifications"])
router.include_router(routes_of(_SloRoutes()))
router.include_router(routes_of(_PolicyRoutes()))
