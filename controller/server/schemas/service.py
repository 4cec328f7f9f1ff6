"""The service: problem documents (RFC 9457), health, callers and tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tidemark.controller.base.answer import Answer, Page
from tidemark.controller.base.principal import Right, Role, Token


class ProblemItem(Answer):
    """One error in a request."""

    pointer: str
    """JSON pointer into the body (empty: the whole body), or the name of a parameter."""
    detail: str
    """What is wrong there."""


class Problem(Answer):
    """A problem document (RFC 9457)."""

    type: str
    """Stable name of the kind of problem, a URI; about:blank when the status says everything."""
    title: str
    """The kind of problem in a few words."""
    status: int
    """HTTP status."""
    detail: str
    """What went wrong this time."""
    instance: str | None = None
    """Path of the request."""
    body_sha256: str | None = None
    """SHA-256 of the request's body, decompressed, in hex; missing when no body was read."""
    errors: list[ProblemItem] | None = None
    """Errors by place; missing when none is about a part of the request."""
    known_versions: list[int] | None = None
    """Schema versions that this release reads; only for an unknown version."""


class HealthCheck(Answer):
    """One check."""

    name: str
    """What was checked."""
    ok: bool
    """Whether it passed."""
    detail: str
    """What was found."""


class Health(Answer):
    """The service is healthy."""

    status: Literal["ok"]
    """Always ok: an unhealthy service answers a problem document with status 503."""
    checks: list[HealthCheck] | None = None
    """What was checked, with ?verbose."""


class SignInIssuer(Answer):
    """An issuer at which people sign in."""

    name: str
    """Its name here."""
    issuer: str
    """Its address, from which a client finds the rest by OpenID Connect Discovery."""
    client_id: str
    """What to sign in as."""
    scope: str
    """What to ask for, separated by spaces."""
    authorization_endpoint: str | None = None
    """Where a browser goes to sign in, by the authorization code flow with PKCE. Like those below null where the issuer
    has none, or cannot be read now."""
    token_endpoint: str | None = None
    """Where the code is exchanged, and a token renewed."""
    revocation_endpoint: str | None = None
    """Where a token is ended (RFC 7009)."""
    end_session_endpoint: str | None = None
    """Where a browser goes to sign out of the issuer itself."""


class SignIn(Answer):
    """Where people sign in."""

    issuers: list[SignInIssuer]
    """The issuers; empty where people have tokens of the store, or come by a proxy."""


class Caller(Answer):
    """Who calls, and what that allows."""

    name: str
    """Name of the token, of the proxy's user, or of the issuer's with its issuer and subject."""
    role: Role | None
    """The role with the most rights; null for none."""
    rights: list[Right]
    """Rights over the job of the request, or without one over the whole fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenAnswer(Token):
    """Metadata of a token, without its text."""

    live: bool
    """Whether it is valid now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenMade(TokenAnswer):
    """A new token."""

    token: str
    """The token itself, shown here and never again."""


class TokenPage(Page):
    """A page of tokens by number."""

    tokens: list[TokenAnswer]
    """The tokens."""
