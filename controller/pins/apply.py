"""Setting and taking away pins: every stream that one concerns is told in the same transaction."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.db.database import Database
from tidemark.controller.db.tables import PublishedRow, StreamRow
from tidemark.controller.errors import PinNotSetError
from tidemark.controller.intake.limits import NO_LIMITS, Limits
from tidemark.controller.pins.store import (
    PinScope,
    StandingPin,
    delete_pin,
    get_pin,
    pins_in_force,
    put_pin,
    streams_in,
)
from tidemark.controller.rollout.publish import republish_under
from tidemark.controller.rollout.republish import republish
from tidemark.controller.specs.store import get_policy
from tidemark.controller.streams.store import add_event, lock_stream

__all__ = ["mend_pins", "remove_pin", "set_pin", "standing_pin"]


def standing_pin(session: Session, scope: PinScope) -> StandingPin:
    """Return the pin that is set on just this scope.

    Raises:
        PinNotSetError: when there is none.
    """
    pin = get_pin(session, scope)
    if pin is None:
        raise _not_set(scope)
    return pin


def set_pin(session: Session, pin: StandingPin, now_us: int, limits: Limits = NO_LIMITS) -> StandingPin:
    """Set a pin and tell every stream that it holds; return it as it stands. An equal one is left as it is."""
    if pin.scope.job is not None and pin.scope.stream is not None:
        lock_stream(session, pin.scope.job, pin.scope.stream, limits)
    streams = streams_in(session, pin.scope, lock=True)
    before = get_pin(session, pin.scope)
    stored = put_pin(session, pin)
    if stored != before:
        _tell(session, streams, before, stored, now_us)
    return stored


def remove_pin(session: Session, scope: PinScope, reason: str, now_us: int) -> StandingPin:
    """Take a pin away, tell every stream that it held, and return it as it was.

    Raises:
        PinNotSetError: when there is none.
    """
    streams = streams_in(session, scope, lock=True)
    before = delete_pin(session, scope)
    if before is None:
        raise _not_set(scope)
    _tell(session, streams, before, None, now_us, why=reason)
    return before


def mend_pins(database: Database, now_us: int) -> int:
    """Tell streams whose pin is not what they were told; return how many.

    Those are streams that appeared under a pin of their job or of the fleet, in the very moment it was set too.
    """
    with database.read() as session:
        apart = _told_otherwise(session)
    for job, stream in apart:
        with database.write() as session:
            row = lock_stream(session, job, stream)
            republish(session, row.id, get_policy(session, row.id).value, now_us)
        database.answers_changed()
    return len(apart)


def _tell(
    session: Session,
    streams: Sequence[StreamRow],
    before: StandingPin | None,
    after: StandingPin | None,
    now_us: int,
    *,
    why: str = "",
) -> None:
    changed = after or before
    assert changed is not None
    pins = pins_in_force(session, [(row.job, row.stream) for row in streams])
    # A fleet is told in one go: what is written for one stream is nothing that another one reads.
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
            republish_under(session, row.id, get_policy(session, row.id).value, in_force, now_us)


def _event(pin: StandingPin | None) -> str | None:
    return None if pin is None else json.dumps({"scope": pin.scope.kind, "to": pin.to, "reason": pin.reason})


def _told_otherwise(session: Session) -> list[tuple[str, str]]:
    any_row = aliased(PublishedRow)
    newest = select(func.max(any_row.generation)).where(any_row.stream_id == StreamRow.id)
    found = {
        (job, stream): pin
        for job, stream, pin in session.execute(
            select(StreamRow.job, StreamRow.stream, PublishedRow.pin).outerjoin(
                PublishedRow,
                and_(
                    PublishedRow.stream_id == StreamRow.id,
                    PublishedRow.generation == newest.correlate(StreamRow).scalar_subquery(),
                ),
            )
        )
    }
    pins = pins_in_force(session, found)
    return sorted(name for name, pin in found.items() if pin != (pins[name].to if name in pins else None))


def _not_set(scope: PinScope) -> PinNotSetError:
    return PinNotSetError(f"there is no pin on {scope}; GET /v1/pins lists those there are")
