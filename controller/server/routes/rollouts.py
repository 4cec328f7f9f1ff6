"""Routes of rollouts, of events, and of outside gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from pydantic import TypeAdapter

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.tables import EventRow, RolloutRow, StreamRow
from tidemark.controller.base.operator_file import PrometheusGate
from tidemark.controller.base.parse_body import parse_body
from tidemark.controller.control.bounds.publication import SteeredStream
from tidemark.controller.control.rollout.actions import approve, discard, get_rollout, lift, roll_back
from tidemark.controller.control.rollout.failed_bounds import carry_failures
from tidemark.controller.control.rollout.store import list_rollouts
from tidemark.controller.server.http.authorize import TOKENS, ThePrincipal
from tidemark.controller.server.http.bodies import ReasonBody
from tidemark.controller.server.http.cursors import (
    MAX_NUMBER,
    Paging,
    ThePaging,
    decode_number_cursor,
    in_reach,
)
from tidemark.controller.server.http.etags import etag
from tidemark.controller.server.http.openapi import says
from tidemark.controller.server.http.parameters import DryRun, StreamPath, TheService, WhichStream
from tidemark.controller.server.http.request_body import JsonBody
from tidemark.controller.server.process.service import Service
from tidemark.controller.server.schemas.rollouts import (
    EventPage,
    GateList,
    GateOffered,
    RolloutAnswer,
    RolloutDetail,
    RolloutPage,
)
from tidemark.controller.server.schemas.specs import PolicyAnswer
from tidemark.controller.server.schemas.views import event_answer, rollout_answer
from tidemark.controller.specs.change import ChangeRequest
from tidemark.controller.specs.store import POLICY, set_paused, version_of
from tidemark.controller.specs.streams import get_stream, history_of, list_events, lock_known_stream
from tidemark.models.rollout.restarts import FleetLimits
from tidemark.models.rollout.states import State

_rollouts = APIRouter(tags=["rollouts"])
_of_stream = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["rollouts"])

_REASON = TypeAdapter(ReasonBody)

_ABSENT = {404: "rollout-not-found", 409: "rollout-state"}

_HISTORY = 100
"""Maximum number of events shown of one rollout."""

_RolloutId = Annotated[int, Path(ge=1, le=2**53, description="Number of the rollout.", examples=[12])]

_InState = Annotated[
    list[State], Query(max_length=10, description="Only rollouts in one of these states; by default all.")
]

_Vetoed = Annotated[
    bool, Query(description="Only rollouts that a person discarded or rolled back, while that veto holds.")
]

_OfNumber = Annotated[
    int | None,
    Query(
        alias="id", ge=1, le=MAX_NUMBER, description="Only the rollout of this number, of whichever stream."
    ),
]


_Act = Callable[[SteeredStream, int, str, FleetLimits], RolloutRow]
"""An action on a rollout: the stream, the rollout's number, the reason, and the limits of the fleet."""


def _action(act: str, operation_id: str, summary: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return what makes a function the route of an act on one rollout."""
    said = says(operation_id, summary, "RolloutAnswer", 404, 409, body="ReasonBody", kinds=_ABSENT)
    return _of_stream.post(f"/rollouts/{{rollout_id:int}}:{act}", **said)


@_rollouts.get("/v1/rollouts", **says("listRollouts", "List rollouts of the fleet", "RolloutPage"))
def all_rollouts(
    service: TheService,
    principal: ThePrincipal,
    paging: ThePaging,
    state: _InState = [],  # noqa: B006 - never changed
    *,
    vetoed: _Vetoed = False,
    number: _OfNumber = None,
) -> RolloutPage:
    """List the rollouts of every stream that the caller may see, the newest first."""
    before = decode_number_cursor(paging.cursor)
    with service.database.read() as session:

        def fetch(position: int | None, count: int) -> Sequence[tuple[RolloutRow, StreamRow]]:
            rows = list_rollouts(
                session, limit=count, rollout_id=number, states=state, vetoed=vetoed, before_id=position
            )
            return [(row, session.get_one(StreamRow, row.stream_id)) for row in rows]

        found = in_reach(
            principal,
            fetch,
            job=lambda pair: pair[1].job,
            position=lambda pair: pair[0].id,
            after=before,
            limit=paging.rows,
        )
        return _page(paging, found)


@_of_stream.get("/rollouts", **says("listStreamRollouts", "List a stream's rollouts", "RolloutPage", 404))
def list_stream_rollouts(
    which: WhichStream,
    service: TheService,
    paging: ThePaging,
    state: _InState = [],  # noqa: B006 - never changed
    *,
    vetoed: _Vetoed = False,
) -> RolloutPage:
    """List the stream's rollouts, the newest first."""
    before = decode_number_cursor(paging.cursor)
    with service.database.read() as session:
        stream = get_stream(session, which.job, which.stream)
        rows = list_rollouts(
            session, limit=paging.rows, stream_id=stream.id, states=state, vetoed=vetoed, before_id=before
        )
        return _page(paging, [(row, stream) for row in rows])


@_of_stream.get(
    "/rollouts/{rollout_id:int}", **says("getRollout", "Read a rollout", "RolloutDetail", 404, kinds=_ABSENT)
)
def read(which: WhichStream, rollout_id: _RolloutId, service: TheService) -> RolloutDetail:
    """Return a rollout and its history."""
    with service.database.read() as session:
        stream = get_stream(session, which.job, which.stream)
        row = get_rollout(session, stream.id, rollout_id)
        history = history_of(session, stream.id, row.id, _HISTORY)
        shown = [event_answer(event, stream) for event in history]
        return made_of(RolloutDetail, rollout_answer(row, stream), history=shown)


@_action("approve", "approveRollout", "Approve a rollout")
def approve_one(
    which: WhichStream, rollout_id: _RolloutId, body: JsonBody, service: TheService, *, dry_run: DryRun
) -> RolloutAnswer:
    """Approve a rollout; it is published as soon as no other gate holds it. Approving it again changes nothing."""
    return _act(service, which, rollout_id, body, approve, dry_run=dry_run)


@_action("discard", "discardRollout", "Discard a rollout")
def discard_one(
    which: WhichStream, rollout_id: _RolloutId, body: JsonBody, service: TheService, *, dry_run: DryRun
) -> RolloutAnswer:
    """Discard a rollout before it is published: a veto on its bound and any further, until somebody lifts it."""
    return _act(service, which, rollout_id, body, discard, dry_run=dry_run)


@_action("rollback", "rollBackRollout", "Roll back a rollout")
def roll_one_back(
    which: WhichStream, rollout_id: _RolloutId, body: JsonBody, service: TheService, *, dry_run: DryRun
) -> RolloutAnswer:
    """Publish again what was published before a rollout, verified or not: a veto on its bound and any further."""
    return _act(service, which, rollout_id, body, roll_back, dry_run=dry_run)


@_action("lift", "liftVeto", "Lift the veto on a rollout")
def lift_one(
    which: WhichStream, rollout_id: _RolloutId, body: JsonBody, service: TheService, *, dry_run: DryRun
) -> RolloutAnswer:
    """Allow again what was discarded or rolled back by a person; it is published only if it is recommended again."""
    return _act(service, which, rollout_id, body, lift, dry_run=dry_run)


@_of_stream.post(
    ":pause", **says("pauseStream", "Pause rollouts of a stream", "PolicyAnswer", 404, body="ReasonBody")
)
def pause(
    which: WhichStream, body: JsonBody, service: TheService, response: Response, *, dry_run: DryRun
) -> PolicyAnswer:
    """Set only the policy's `paused`: nothing new is rolled out; rollouts under way are still watched."""
    return _set_paused(service, which, body, response, paused=True, dry_run=dry_run)


@_of_stream.post(
    ":resume", **says("resumeStream", "Resume rollouts of a stream", "PolicyAnswer", 404, body="ReasonBody")
)
def resume(
    which: WhichStream, body: JsonBody, service: TheService, response: Response, *, dry_run: DryRun
) -> PolicyAnswer:
    """Clear only the policy's `paused`."""
    return _set_paused(service, which, body, response, paused=False, dry_run=dry_run)


_rollouts.include_router(_of_stream)


def _page(paging: Paging, pairs: Sequence[tuple[RolloutRow, StreamRow]]) -> RolloutPage:
    page, next_cursor = paging.cut(pairs, lambda pair: (pair[0].id,))
    return RolloutPage(
        rollouts=[rollout_answer(row, stream) for row, stream in page], next_cursor=next_cursor
    )


def _act(
    service: Service, which: StreamPath, rollout_id: int, body: bytes, act: _Act, *, dry_run: bool
) -> RolloutAnswer:
    reason = parse_body(_REASON, body).reason
    now_us = service.clock()
    with service.database.write(keep=not dry_run) as session:
        stream = lock_known_stream(session, which.job, which.stream)
        steered = SteeredStream(session, stream, now_us, locked=True)
        row = act(steered, rollout_id, reason, service.decider.fleet)
        session.flush()
        answer = rollout_answer(row, stream)
    if not dry_run:
        service.database.answers_changed()
    return answer


def _set_paused(
    service: Service, which: StreamPath, body: bytes, response: Response, *, paused: bool, dry_run: bool
) -> PolicyAnswer:
    reason = parse_body(_REASON, body).reason
    now_us = service.clock()
    service.read_ahead(which.job, which.stream)
    with service.database.write(keep=not dry_run) as session:
        stream = lock_known_stream(session, which.job, which.stream)
        before, stored = set_paused(ChangeRequest(session, now_us, reason), stream, paused=paused)
        # Pausing does not make a bound that failed worth another try.
        carry_failures(session, stream.id, before.generation, stored.generation)
        response.headers["ETag"] = etag(version_of(session, POLICY, stream, stored))
        service.decide(session, stream.id, now_us)
    if not dry_run:
        service.database.answers_changed()
    return PolicyAnswer.of(stored)


_events = APIRouter(tags=["events"])
_stream_events = APIRouter(prefix="/v1/jobs/{job}/streams/{stream}", tags=["events"])

_OfKind = Annotated[
    str | None,
    Query(
        max_length=40,
        pattern="^[A-Za-z]+$",
        description="Only events of this kind.",
        examples=["RolloutRolledBack"],
    ),
]


@_events.get("/v1/events", **says("listEvents", "List events of the fleet", "EventPage"))
def all_events(
    service: TheService, principal: ThePrincipal, paging: ThePaging, kind: _OfKind = None
) -> EventPage:
    """List the events of every stream in reach, and of tokens for who may list those, the newest first."""
    before = decode_number_cursor(paging.cursor)
    whole = principal.may(TOKENS, None)
    with service.database.read() as session:
        pairs = in_reach(
            principal,
            lambda position, limit: list_events(session, position, limit, kind=kind, whole=whole),
            job=lambda pair: None if pair[1] is None else pair[1].job,
            position=lambda pair: pair[0].id,
            after=before,
            limit=paging.rows,
        )
    return _events_page(paging, pairs)


@_stream_events.get("/events", **says("listStreamEvents", "List a stream's events", "EventPage", 404))
def list_stream_events(
    which: WhichStream, service: TheService, paging: ThePaging, kind: _OfKind = None
) -> EventPage:
    """List the stream's events, the newest first."""
    before = decode_number_cursor(paging.cursor)
    with service.database.read() as session:
        stream = get_stream(session, which.job, which.stream)
        pairs = list_events(session, before, paging.rows, stream_id=stream.id, kind=kind)
    return _events_page(paging, pairs)


_events.include_router(_stream_events)


def _events_page(paging: Paging, pairs: Sequence[tuple[EventRow, StreamRow | None]]) -> EventPage:
    page, next_cursor = paging.cut(pairs, lambda pair: (pair[0].id,))
    return EventPage(events=[event_answer(event, stream) for event, stream in page], next_cursor=next_cursor)


_gates = APIRouter(tags=["specifications"])


@_gates.get("/v1/gates", **says("listGates", "List outside gates", "GateList"))
def list_gates(service: TheService) -> GateList:
    """List the outside gates that the controller's operators have set up, without addresses; policies can name them."""
    return GateList(
        gates=[
            GateOffered(
                name=name,
                kind="prometheus" if isinstance(gate, PrometheusGate) else "webhook",
                asks=gate.asks,
            )
            for name, gate in service.gates.gates.items()
        ]
    )


router = APIRouter()
for _part in (_rollouts, _events, _gates):
    router.include_router(_part)
