"""Pins: kill switches on a stream, a job or the whole fleet. The most specific one wins."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import cast

from sqlalchemy import bindparam, or_, select, tuple_
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import Limits
from tidemark.controller.base.db.epoch import stored_version
from tidemark.controller.base.db.statements import insert_into
from tidemark.controller.base.db.tables import KNOWN, PinRow, StreamRow
from tidemark.controller.base.errors import PinNotSetError
from tidemark.controller.specs.change import ChangeRequest
from tidemark.controller.specs.streams import lock_stream
from tidemark.models.protocol.messages import Pin
from tidemark.models.specs.pin import PinScope, StoredPin

_ALL = ""
"""Means every job or stream in the table; no name is empty."""


def version_of(session: Session, pin: StoredPin) -> str:
    """Return what tells a pin from any other on its scope, before and after it."""
    return stored_version(session, "pin", pin.since_us, pin.to, pin.reason)


def _event(pin: StoredPin) -> str:
    return json.dumps({"scope": pin.scope, "to": pin.to, "reason": pin.reason})


def get_pin(session: Session, scope: PinScope) -> StoredPin | None:
    """Return the pin on exactly this scope; None without one."""
    row = session.get(PinRow, _key(scope))
    return None if row is None else _pin(row)


def existing_pin(session: Session, scope: PinScope) -> StoredPin:
    """Return the pin on exactly this scope.

    Raises:
        PinNotSetError: when there is none.
    """
    pin = get_pin(session, scope)
    if pin is None:
        raise PinNotSetError(
            f"there is no pin on {scope}; `tidemark pins` (GET /v1/pins) lists those there are"
        )
    return pin


def put_pin(session: Session, pin: StoredPin) -> None:
    """Set a pin, replacing the one on the same scope."""
    job, stream = _key(pin.on_what)
    row = session.get(PinRow, (job, stream))
    values = {"held_to": pin.to, "reason": pin.reason, "since_us": pin.since_us}
    # Another replica may set it at the same time; the later one stays.
    session.execute(
        insert_into(session, PinRow)
        .values(job=job, stream=stream, **values)
        .on_conflict_do_update(index_elements=["job", "stream"], set_=values)
    )
    if row is not None:
        session.expire(row)


def delete_pin(session: Session, scope: PinScope) -> None:
    """Remove the pin on exactly this scope, if there is one."""
    row = session.get(PinRow, _key(scope))
    if row is not None:
        session.delete(row)
        session.flush()


def list_pins(session: Session, after: tuple[str, str] | None, limit: int) -> Sequence[StoredPin]:
    """Return up to ``limit`` pins in the order of (job, stream), those after ``after``; the fleet's comes first."""
    statement = select(PinRow).order_by(PinRow.job, PinRow.stream).limit(limit)
    if after is not None:
        statement = statement.where(tuple_(PinRow.job, PinRow.stream) > after)
    return [_pin(row) for row in session.scalars(statement)]


def pin_in_force(session: Session, job: str, stream: str) -> StoredPin | None:
    """Return the most specific pin that holds a stream, which need not be known; None without one."""
    found = session.scalars(_HOLDING, {"job": job, "stream": stream})
    return _most_specific({(row.job, row.stream): row for row in found}, job, stream)


# Built once: building them takes longer than running them.
_EVERY = select(PinRow)
_HOLDING = _EVERY.where(
    or_(PinRow.job == bindparam("job"), PinRow.job == _ALL),
    or_(PinRow.stream == bindparam("stream"), PinRow.stream == _ALL),
)


def pins_in_force(session: Session, streams: Collection[tuple[str, str]]) -> dict[tuple[str, str], StoredPin]:
    """Return the most specific pin of each of ``streams``, by job and stream; streams without one are left out."""
    if not streams:
        return {}
    # There are few pins: reading all of them is cheaper than one query for each stream.
    rows = {(row.job, row.stream): row for row in session.scalars(_EVERY)}
    found = {name: _most_specific(rows, *name) for name in streams} if rows else {}
    return {name: pin for name, pin in found.items() if pin is not None}


def _most_specific(rows: dict[tuple[str, str], PinRow], job: str, stream: str) -> StoredPin | None:
    for key in ((job, stream), (job, _ALL), (_ALL, _ALL)):
        if key in rows:
            return _pin(rows[key])
    return None


def _key(scope: PinScope) -> tuple[str, str]:
    return scope.job or _ALL, scope.stream or _ALL


def _pin(row: PinRow) -> StoredPin:
    scope = PinScope(row.job or None, row.stream or None)
    return StoredPin.on(scope, cast("Pin", row.held_to), row.reason, row.since_us)


def set_pin(change: ChangeRequest, pin: StoredPin, limits: Limits) -> tuple[StoredPin, Sequence[StreamRow]]:
    """Set a pin, and return it with the streams that it holds from then on; those of its scope are locked.

    Raises:
        LimitReachedError: when it names a stream that is new and there is no room for it.
        PreconditionFailedError, PreconditionRequiredError: as ``ChangeRequest.check`` does.
    """
    session, scope = change.session, pin.on_what
    if scope.job is not None and scope.stream is not None:
        lock_stream(session, scope.job, scope.stream, limits)
    streams = streams_in(session, scope, lock=True)
    before = get_pin(session, scope)
    if before is None:
        change.check(None, "no pin there", required=False)
    elif (before.to, before.reason) == (pin.to, pin.reason):
        return before, ()
    else:
        change.check(version_of(session, before), _text(before), required=True)
    put_pin(session, pin)
    return pin, _noted(change, pin.why, streams, before, pin)


def remove_pin(change: ChangeRequest, scope: PinScope) -> tuple[StoredPin, Sequence[StreamRow]]:
    """Remove a pin, and return it with the streams that it held; those of its scope are locked.

    Raises:
        PinNotSetError: when there is none.
        PreconditionFailedError: as ``ChangeRequest.check`` does.
    """
    session = change.session
    streams = streams_in(session, scope, lock=True)
    before = existing_pin(session, scope)
    change.check(version_of(session, before), _text(before), required=False)
    delete_pin(session, scope)
    why = f"{change.reason}; it was set {before.why}"
    return before, _noted(change, why, streams, before, None)


def _text(pin: StoredPin) -> str:
    return f"a pin to {pin.to}: {pin.reason}"


def _noted(
    change: ChangeRequest,
    why: str,
    streams: Sequence[StreamRow],
    before: StoredPin | None,
    after: StoredPin | None,
) -> Sequence[StreamRow]:
    """Write down a change of a pin for the streams of its scope that no more specific one holds, and return those."""
    pins = pins_in_force(change.session, [(row.job, row.stream) for row in streams])
    scope = cast("StoredPin", before or after).on_what
    in_force = [(row, pins.get((row.job, row.stream))) for row in streams]
    rows = [row for row, pin in in_force if pin is None or pin.on_what.rank <= scope.rank]
    was, now = (None if pin is None else _event(pin) for pin in (before, after))
    kind = "PinRemoved" if after is None else "PinSet"
    replace(change, reason=why).note(rows, kind, before=was, after=now)
    return rows


def streams_in(session: Session, scope: PinScope, *, lock: bool) -> Sequence[StreamRow]:
    """Return the known streams of a scope, always in the same order, so that writers that lock them do not deadlock."""
    statement = select(StreamRow).where(KNOWN).order_by(StreamRow.job, StreamRow.stream)
    if scope.job is not None:
        statement = statement.where(StreamRow.job == scope.job)
    if scope.stream is not None:
        statement = statement.where(StreamRow.stream == scope.stream)
    return session.scalars(statement.with_for_update() if lock else statement).all()
