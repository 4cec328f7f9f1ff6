"""Tokens, never their text but once."""

from __future__ import annotations

from tidemark.controller.access.roles import Role
from tidemark.controller.api.schemas.answer import Answer

__all__ = ["TokenAnswer", "TokenMade", "TokenPage"]


class TokenAnswer(Answer):
    """What is known of a token; the token itself is not."""

    id: int
    """Its number."""
    name: str
    """Name of whoever holds it; two tokens of a name may live at once."""
    role: Role
    """Its role."""
    jobs: list[str]
    """Patterns on the names of the jobs that it reaches; * stands for any characters."""
    live: bool
    """Whether it is good now."""
    created_us: int
    """When it was made, in microseconds since the epoch."""
    created_by: str
    """Who made it."""
    expires_us: int | None
    """When it ends by itself, in microseconds since the epoch; null for never."""
    last_used_us: int | None
    """When it was last used, to the hour, in microseconds since the epoch; null when that is not known."""
    revoked_us: int | None
    """When it was revoked, in microseconds since the epoch; null when it was not."""
    revoked_by: str | None
    """Who revoked it."""


class TokenMade(TokenAnswer):
    """A token that was just made."""

    token: str
    """The token itself: it is shown here and never again."""


class TokenPage(Answer):
    """A page of tokens by number."""

    tokens: list[TokenAnswer]
    """The tokens."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""
