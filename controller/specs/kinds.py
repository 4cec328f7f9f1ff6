"""What people set: SLOs, policies, joins and pins, each stored, changed and deleted in the same way.

A kind says where it is stored, what names its versions, and which rules its writes follow.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from tidemark.controller.streams.store import add_event
from tidemark.models.shadow_slo import ShadowSlo
from tidemark.models.slo import JoinSlo, Policy, Slo

T = TypeVar("T")
K = TypeVar("K")
S = TypeVar("S")

_SCHEMA_VERSION = 1
"""Version of the stored JSON: it grows when a field changes its meaning; a new field with a default needs no other."""

Precondition = Callable[[str | None, str, bool], None]
"""Takes the version of what is there, None for nothing to read, what it is in words, and whether somebody set it;
raises when the caller expected something else."""


@dataclass(frozen=True, slots=True)
class Write(Generic[S]):
    """What a write did."""

    stored: S
    """What is stored now; after a deletion, what was stored."""
    before: S | None
    """What was stored before; None when nothing was."""
    streams: Sequence[int] = ()
    """Ids of the streams that it changed: none when what was there is equal."""


class SpecKind(ABC, Generic[K, T, S]):
    """A kind of specification: what a key ``K`` finds, a value ``T`` that people write, and what is stored, ``S``."""

    set_event: str
    """Kind of the event when it is set."""
    deleted_event: str
    """Kind of the event when it is deleted."""

    def put(
        self, session: Session, key: K, value: T, precondition: Precondition, now_us: int, *, reason: str
    ) -> Write[S]:
        """Set it, with an event for each stream that it changes; an equal one changes nothing.

        What the key names is locked. The precondition holds only for a change.

        Raises:
            Exception: whatever ``precondition`` raises, and the kind's own rules.
        """
        before = self.find(session, key)
        if before is not None and self.equal(before, value):
            return Write(before, before)
        self.check(session, key, before, precondition)
        stored, streams = self.store(session, key, value, before, now_us)
        self._note(session, streams, before, stored, now_us, kind=self.set_event, reason=reason)
        return Write(stored, before, streams)

    def delete(
        self, session: Session, key: K, precondition: Precondition, now_us: int, *, reason: str
    ) -> Write[S]:
        """Delete it, with an event for each stream that it changed; what the key names is locked.

        Raises:
            TidemarkError: when there is none, or it must not be deleted.
            Exception: whatever ``precondition`` raises.
        """
        before = self.existing(session, key)
        self.check(session, key, before, precondition)
        streams = self.erase(session, key, before)
        self._note(session, streams, before, self.default(), now_us, kind=self.deleted_event, reason=reason)
        return Write(before, before, streams)

    def check(self, session: Session, key: K, before: S | None, precondition: Precondition) -> None:
        """Check that what is stored is what the caller expects."""
        version = None if before is None else self.version(session, key, before)
        precondition(version, self.words(before), self.is_set(before))

    def is_set(self, stored: S | None) -> bool:
        """Return whether somebody set it."""
        return stored is not None

    def default(self) -> S | None:
        """Return what holds while nobody has set any."""
        return None

    def event_reason(self, _before: S | None, _after: S | None, reason: str) -> str:
        """Return the reason of the event of a change."""
        return reason

    @abstractmethod
    def find(self, session: Session, key: K) -> S | None:
        """Return what is stored; None without any."""

    @abstractmethod
    def existing(self, session: Session, key: K) -> S:
        """Return what is there to be deleted.

        Raises:
            TidemarkError: when there is none, or it must not be deleted.
        """

    @abstractmethod
    def equal(self, stored: S, value: T) -> bool:
        """Return whether somebody set just this value."""

    @abstractmethod
    def store(
        self, session: Session, key: K, value: T, before: S | None, now_us: int
    ) -> tuple[S, Sequence[int]]:
        """Store it; return that, and the ids of the streams that it changes."""

    @abstractmethod
    def erase(self, session: Session, key: K, before: S) -> Sequence[int]:
        """Delete what is stored; return the ids of the streams that this changes."""

    @abstractmethod
    def version(self, session: Session, key: K, stored: S) -> str:
        """Return what tells it from every other one that its key ever had."""

    @abstractmethod
    def words(self, stored: S | None) -> str:
        """Return what is stored, in words."""

    @abstractmethod
    def event(self, stored: S) -> str:
        """Return it as events have it."""

    def _note(
        self,
        session: Session,
        streams: Sequence[int],
        before: S | None,
        after: S | None,
        now_us: int,
        *,
        kind: str,
        reason: str,
    ) -> None:
        for stream_id in streams:
            add_event(
                session,
                stream_id,
                now_us,
                kind=kind,
                reason=self.event_reason(before, after, reason),
                before=None if before is None else self.event(before),
                after=None if after is None else self.event(after),
            )


def stored_specification(value: Slo | Policy | JoinSlo | ShadowSlo) -> str:
    """Return a specification as it is stored."""
    return json.dumps({"schema_version": _SCHEMA_VERSION, **asdict(value)})


def loaded_specification(adapter: TypeAdapter[T], text: str) -> T:
    """Return a stored specification."""
    document = json.loads(text)
    version = document.pop("schema_version")
    if version != _SCHEMA_VERSION:
        raise ValueError(
            f"the store holds a specification of version {version}; this release reads {_SCHEMA_VERSION}: upgrade it"
        )
    # JSON has no tuples: strictness is for requests. A field of a newer release is none of ours.
    return adapter.validate_python(document, strict=False, extra="ignore")
