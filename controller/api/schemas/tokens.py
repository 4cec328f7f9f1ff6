"""Tokens; their text is shown only once."""

from __future__ import annotations

from tidemark.controller.access.roles import Right, Role
from tidemark.controller.api.schemas.answer import Answer


class Caller(Answer):
    """Who calls, and what that allows."""

    name: str
    """Name of the token, or of the proxy's user."""
    role: Role | None
    """The role with the most rights; null for none."""
    rights: list[Right]
    """Rights over the job of the request, or without one over the whole fleet."""


class TokenAnswer(Answer):
    """Metadata of a token, without its text."""

    id: int
    """Its number."""
    name: str
    """Name of its holder; two tokens of one name may be valid at once."""
    role: Role
    """Its role."""
    jobs: list[str]
    """Patterns of job names that it is limited to; * stands for any characters."""
    live: bool
    """Whether it is valid now."""
    created_us: int
    """When it was made, in microseconds since the epoch."""
    created_by: str
    """Who made it."""
    expires_us: int | None
    """When it expires, in microseconds since the epoch; null for never."""
    last_used_us: int | None
    """When it was last used, to the hour, in microseconds since the epoch; null when it is not known."""
    revoked_us: int | None
    """When it was revoked, in microseconds since the epoch; null if it was not."""
    revoked_by: str | None
    """Who revoked it."""


class TokenMade(TokenAnswer):
    """A new token."""

    token: str
    """The token itself, shown here and never again."""


class TokenPage(Answer):
    """A page of tokens by number."""

    tokens: list[TokenAnswer]
    """The tokens."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""
