"""Pins: kill switches on a stream, a job or the whole fleet. The most specific one wins."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import bindparam, or_, select, tuple_
from sqlalchemy.orm import Session

from tidemark.controller.db.epoch import epoch_of, version_in
from tidemark.controller.db.tables import KNOWN, PinRow, StreamRow
from tidemark.controller.db.upsert import insert_into
from tidemark.controller.errors import PinNotSetError
from tidemark.controller.intake.limits import Limits
from tidemark.controller.specs.kinds import SpecKind
from tidemark.controller.streams.store import lock_stream
from tidemark.models.wire import Pin, ScopeKind

_ALL = ""
"""Means every job or stream in the table; no name is empty."""


@dataclass(frozen=True, slots=True)
class PinScope:
    """What a pin is on."""

    job: str | None = None
    """Name of the job; None for the whole fleet."""
    stream: str | None = None
    """Name of the stream; None for all streams of the job, those that appear later too."""

    @property
    def kind(self) -> ScopeKind:
        """The kind of scope."""
        if self.job is None:
            return "fleet"
        return "job" if self.stream is None else "stream"

    @property
    def rank(self) -> int:
        """How specific it is: of two pins that hold a stream, the one of higher rank wins."""
        return (self.job is not None) + (self.stream is not None)

    def __str__(self) -> str:
        """Describe it in words."""
        if self.job is None:
            return "the whole fleet"
        if self.stream is None:
            return f"job {self.job!r}"
        return f"stream {self.stream!r} of job {self.job!r}"


FLEET = PinScope()
"""Every stream there is and will be."""


@dataclass(frozen=True, slots=True)
class StoredPin:
    """A pin as it is stored."""

    scope: PinScope
    """What it is on."""
    to: Pin
    """What jobs are held to."""
    reason: str
    """Why it was set."""
    since_us: int
    """When it was set, in microseconds since the epoch."""

    def version(self, epoch: str) -> str:
        """What tells it from any other pin on its scope, before and after it."""
        return version_in(epoch, "pin", self.since_us, self.to, self.reason)

    @property
    def why(self) -> str:
        """Its scope and why it was set."""
        return f"by the pin on {self.scope}: {self.reason}"


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
        raise PinNotSetError(f"there is no pin on {scope}; GET /v1/pins lists those there are")
    return pin


def put_pin(session: Session, pin: StoredPin) -> StoredPin:
    """Set a pin, replacing the one on the same scope, and return it; an equal one keeps its time."""
    row = session.get(PinRow, _key(pin.scope))
    if row is not None and (row.held_to, row.reason) == (pin.to, pin.reason):
        return _pin(row)
    job, stream = _key(pin.scope)
    insert = insert_into(session, PinRow)
    values = {"job": job, "stream": stream, "held_to": pin.to, "reason": pin.reason, "since_us": pin.since_us}
    # Another replica may set it at the same time; the later one stays.
    session.execute(
        insert.on_conflict_do_update(
            index_elements=["job", "stream"],
            set_={name: insert.excluded[name] for name in ("held_to", "reason", "since_us")},
        ),
        values,
    )
    if row is not None:
        session.expire(row)
    session.flush()
    return pin


def delete_pin(session: Session, scope: PinScope) -> StoredPin | None:
    """Remove the pin on exactly this scope and return it; None when there was none."""
    row = session.get(PinRow, _key(scope))
    if row is None:
        return None
    pin = _pin(row)
    session.delete(row)
    session.flush()
    return pin


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
    return StoredPin(scope, cast("Pin", row.held_to), row.reason, row.since_us)


# -- as a specification ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LockedScope:
    """A scope whose known streams are locked."""

    scope: PinScope
    streams: Sequence[StreamRow]
    """They in their order."""


def lock_scope(session: Session, scope: PinScope, limits: Limits | None = None) -> LockedScope:
    """Lock the known streams of a scope; with ``limits`` a stream that it names is made when it is new.

    Raises:
        TooManyStreamsError: when it is new and there is no room for it.
    """
    if limits is not None and scope.job is not None and scope.stream is not None:
        lock_stream(session, scope.job, scope.stream, limits)
    return LockedScope(scope, streams_in(session, scope, lock=True))


def streams_in(session: Session, scope: PinScope, *, lock: bool) -> Sequence[StreamRow]:
    """Return the known streams of a scope, always in the same order, so that writers that lock them do not deadlock."""
    statement = select(StreamRow).where(KNOWN).order_by(StreamRow.job, StreamRow.stream)
    if scope.job is not None:
        statement = statement.where(StreamRow.job == scope.job)
    if scope.stream is not None:
        statement = statement.where(StreamRow.stream == scope.stream)
    return session.scalars(statement.with_for_update() if lock else statement).all()


class _Pins(SpecKind[LockedScope, StoredPin, StoredPin]):
    set_event, deleted_event = "PinSet", "PinRemoved"

    def find(self, session: Session, key: LockedScope) -> StoredPin | None:
        return get_pin(session, key.scope)

    def existing(self, session: Session, key: LockedScope) -> StoredPin:
        return existing_pin(session, key.scope)

    def equal(self, stored: StoredPin, value: StoredPin) -> bool:
        return (stored.to, stored.reason) == (value.to, value.reason)

    def store(
        self,
        session: Session,
        key: LockedScope,
        value: StoredPin,
        before: StoredPin | None,  # noqa: ARG002 - one signature
        now_us: int,  # noqa: ARG002
    ) -> tuple[StoredPin, Sequence[int]]:
        return put_pin(session, value), self._held(session, key)

    def erase(self, session: Session, key: LockedScope, before: StoredPin) -> Sequence[int]:  # noqa: ARG002
        delete_pin(session, key.scope)
        return self._held(session, key)

    def version(self, session: Session, key: LockedScope, stored: StoredPin) -> str:  # noqa: ARG002 - one signature
        return stored.version(epoch_of(session))

    def words(self, stored: StoredPin | None) -> str:
        return "no pin there" if stored is None else f"a pin to {stored.to}: {stored.reason}"

    def event(self, stored: StoredPin) -> str:
        return json.dumps({"scope": stored.scope.kind, "to": stored.to, "reason": stored.reason})

    def event_reason(self, before: StoredPin | None, after: StoredPin | None, reason: str) -> str:
        return after.why if after is not None else f"{reason}; it was set {before.why if before else ''}"

    def _held(self, session: Session, key: LockedScope) -> Sequence[int]:
        """Return the streams that no more specific pin holds."""
        pins = pins_in_force(session, [(row.job, row.stream) for row in key.streams])
        rank = key.scope.rank
        return [
            row.id
            for row in key.streams
            if (pin := pins.get((row.job, row.stream))) is None or pin.scope.rank <= rank
        ]


PINS = _Pins()
"""The pins; the key is a scope."""
