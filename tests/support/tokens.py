"""Tokens for tests: made in the store of a controller, as somebody who has it would."""

from __future__ import annotations

from itertools import count

from tidemark.controller.base.principal import Grant, Role
from tidemark.controller.server.access import token_store
from tidemark.controller.server.access.token_store import NewToken

from support.controller_app import Controller

__all__ = ["bearer", "make_token"]

_numbers = count(1)


def make_token(
    controller: Controller,
    role: Role = "admin",
    *jobs: str,
    name: str | None = None,
    lifetime_us: int | None = None,
) -> str:
    """Make a token and return it; an admin's is made before when it would be the first."""
    service = controller.service
    service.authenticator.refresh()
    if not service.authenticator.has_tokens and (role != "admin" or jobs):
        make_token(controller, name="the-first")
    new = NewToken(name or f"{role}-{next(_numbers)}", Grant(role, jobs or ("*",)), lifetime_us)
    made = token_store.make(service.database, new, "the test", controller.clock())
    service.authenticator.forget()
    return made.token


def bearer(token: str) -> dict[str, str]:
    """Return the header that shows a token."""
    return {"Authorization": f"Bearer {token}"}
