"""A change of what people set: when, why and on what condition, and the events that it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import StreamRow
from tidemark.controller.base.errors import PreconditionFailedError, PreconditionRequiredError
from tidemark.controller.specs.streams import add_event


@dataclass(frozen=True, slots=True)
class ChangeRequest:
    """A change that somebody wants."""

    session: Session
    now_us: int
    reason: str
    if_match: str | None = None
    """The header: the ETag of what is to be replaced; None when it was not sent."""

    def check(self, version: str | None, found: str, *, required: bool) -> None:
        """Check that what is there is what the caller wants to replace. An equal value changes nothing and needs none.

        Args:
            version: the version of what is there; None when there is nothing to read.
            found: what is there, in words.
            required: whether If-Match has to be sent.

        Raises:
            PreconditionFailedError: when it names another version.
            PreconditionRequiredError: when it is required and was not sent.
        """
        current = None if version is None else f'"{version}"'
        headers = None if current is None else {"ETag": current}
        if self.if_match is None:
            if required:
                raise PreconditionRequiredError(
                    f"this replaces {found}: read it, and send If-Match: {current} to replace it",
                    headers=headers,
                )
            return
        # A weak tag never matches here (RFC 9110, 13.1.1), so W/ is not removed. A shell easily drops the quotes.
        names = {name.strip() for name in self.if_match.split(",")}
        if version is None or names.isdisjoint({"*", f'"{version}"', version}):
            raise PreconditionFailedError(
                f"If-Match is {self.if_match}, but the store has {found}; read it again and decide again",
                headers=headers,
            )

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
