"""Sets and removes pins, and publishes to every stream that one holds in the same transaction."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.bounds.publication import SteeredStream
from tidemark.controller.db.database import NO_LIMITS, Database, Limits
from tidemark.controller.db.tables import KNOWN, PublishedRow, StreamRow
from tidemark.controller.errors import PinNotSetError
from tidemark.controller.pins.store import (
    PinScope,
    StoredPin,
    delete_pin,
    get_pin,
    pins_in_force,
    put_pin,
    streams_in,
)
from tidemark.controller.rollout.actions import republish
from tidemark.controller.rollout.publish import republish_under
from tidemark.controller.specs.store import get_policy, get_specs
from tidemark.controller.streams.store import add_event, lock_by_id, lock_stream


def existing_pin(session: Session, scope: PinScope) -> StoredPin:
    """Return the pin on exactly this scope.

    Raises:
        PinNotSetError: when there is none.
    """
    pin = get_pin(session, scope)
    if pin is None:
        raise _not_set(scope)
    return pin


Precondition = Callable[[StoredPin | None], None]
"""Takes the pin on the scope, None without one, and raises when the caller expected another."""


def set_pin(
    session: Session, pin: StoredPin, now_us: int, precondition: Precondition, limits: Limits = NO_LIMITS
) -> StoredPin:
    """Set a pin, publish to every stream that it holds, and return it. An equal one is left unchanged.

    Raises:
        Exception: whatever ``precondition`` raises.
    """
    if pin.scope.job is not None and pin.scope.stream is not None:
        lock_stream(session, pin.scope.job, pin.scope.stream, limits)
    streams = streams_in(session, pin.scope, lock=True)
    before = get_pin(session, pin.scope)
    if before is None or (before.to, before.reason) != (pin.to, pin.reason):
        precondition(before)
    stored = put_pin(session, pin)
    if stored != before:
        _publish(session, streams, before, stored, now_us)
    return stored


def remove_pin(
    session: Session, scope: PinScope, reason: str, now_us: int, precondition: Precondition
) -> StoredPin:
    """Remove a pin, publish to every stream that it held, and return it as it was.

    Raises:
        Exception: whatever ``precondition`` raises.
        PinNotSetError: when there is none.
    """
    streams = streams_in(session, scope, lock=True)
    before = existing_pin(session, scope)
    precondition(before)
    delete_pin(session, scope)
    _publish(session, streams, before, None, now_us, why=reason)
    return before


def publish_missing_pins(database: Database, now_us: int) -> int:
    """Publish to streams whose pin differs from what was published; return how many.

    Such a stream appeared under a pin of its job or of the fleet, perhaps at the moment when that was set.
    """
    with database.read() as session:
        missing = _not_published(session)
    for stream_id in missing:
        with database.write() as session:
            if lock_by_id(session, stream_id) is None:
                continue  # it was deleted meanwhile
            republish(session, stream_id, get_policy(session, stream_id).value, now_us)
        database.answers_changed()
    return len(missing)


def _publish(
    session: Session,
    streams: Sequence[StreamRow],
    before: StoredPin | None,
    after: StoredPin | None,
    now_us: int,
    *,
    why: str = "",
) -> None:
    changed = after or before
    assert changed is not None
    pins = pins_in_force(session, [(row.job, row.stream) for row in streams])
    # One flush for the whole fleet: no stream reads what is written for another.
    with session.no_autoflush:
        for row in streams:
            in_force = pins.get((row.job, row.stream))
            if in_force is not None and in_force.scope.rank > changed.scope.rank:
                continue  # a more specific one holds it
            add_event(
                session,
                row.id,
                now_us,
                kind="PinSet" if after else "PinRemoved",
                reason=changed.why if after else f"{why}; it was set {changed.why}",
                before=_event(before),
                after=_event(after),
            )
            slo, policy = get_specs(session, row.id)
            stream = SteeredStream(session, row, now_us, locked=True)
            republish_under(stream, policy.value, slo, in_force)


def _event(pin: StoredPin | None) -> str | None:
    return None if pin is None else json.dumps({"scope": pin.scope.kind, "to": pin.to, "reason": pin.reason})


def _not_published(session: Session) -> list[int]:
    any_row = aliased(PublishedRow)
    newest = select(func.max(any_row.generation)).where(any_row.stream_id == StreamRow.id)
    found = session.execute(
        select(StreamRow.id, StreamRow.job, StreamRow.stream, PublishedRow.pin)
        .outerjoin(
            PublishedRow,
            and_(
                PublishedRow.stream_id == StreamRow.id,
                PublishedRow.generation == newest.correlate(StreamRow).scalar_subquery(),
            ),
        )
        .where(KNOWN)
        .order_by(StreamRow.job, StreamRow.stream)
    ).all()
    pins = pins_in_force(session, [(row.job, row.stream) for row in found])
    wanted = {name: pin.to for name, pin in pins.items()}
    return [row.id for row in found if row.pin != wanted.get((row.job, row.stream))]


def _not_set(scope: PinScope) -> PinNotSetError:
    return PinNotSetError(f"there is no pin on {scope}; GET /v1/pins lists those there are")
