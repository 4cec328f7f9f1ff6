"""Who asks: set when a request is authorized, read where a change is recorded and where an answer names jobs."""

from __future__ import annotations

from contextvars import ContextVar

from tidemark.controller.base.principal import Principal

_actor: ContextVar[Principal | None] = ContextVar("tidemark_actor", default=None)


def set_actor(principal: Principal) -> None:
    """Set who asks from here on in this context."""
    _actor.set(principal)


def current_actor() -> str | None:
    """Return who asked for the change; None when the controller makes it by itself."""
    principal = _actor.get()
    return None if principal is None else principal.name


def may_see(job: str) -> bool:
    """Return whether an answer may name the job to who asks."""
    principal = _actor.get()
    return principal is None or principal.sees(job)
