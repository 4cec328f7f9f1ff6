"""What the kinds of specification have in common: a change, its precondition and its events, and the stored JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

from pydantic import TypeAdapter
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import StreamRow
from tidemark.controller.specs.streams import add_event
from tidemark.models.specs.slo import JoinSlo, Policy, Slo

T = TypeVar("T")
S = TypeVar("S")

_SCHEMA_VERSION = 1
"""Version of the stored JSON: it grows when a field changes its meaning; a new field with a default needs no other."""

Precondition = Callable[[str | None, str, bool], None]
"""Takes the version of what is there, None for nothing to read, what it is in words, and whether somebody set it;
raises when the caller expected something else. An equal value changes nothing and needs no check."""


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A change that somebody wants: when, why, and on what condition."""

    session: Session
    now_us: int
    check: Precondition
    reason: str

    def note(
        self, streams: Sequence[StreamRow], kind: str, *, before: str | None = None, after: str | None = None
    ) -> None:
        """Write down an event for each stream that it changed."""
        for stream in streams:
            add_event(
                self.session,
                stream.id,
                self.now_us,
                kind=kind,
                reason=self.reason,
                before=before,
                after=after,
            )


@dataclass(frozen=True, slots=True)
class Write(Generic[S]):
    """What a change did."""

    stored: S
    """What is stored now; after a deletion, what was stored."""
    version: str = ""
    """Its version; empty after a deletion."""
    streams: Sequence[StreamRow] = ()
    """The streams that it changed."""
    before: S | None = None
    """What was stored before; None when nothing was."""


def stored_specification(value: Slo | Policy | JoinSlo) -> str:
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
