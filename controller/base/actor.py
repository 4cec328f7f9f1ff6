"""Who asked for a change: set when a request is authorized, read where the change is recorded."""

from __future__ import annotations

from contextvars import ContextVar

_actor: ContextVar[str | None] = ContextVar("tidemark_actor", default=None)


def set_actor(name: str) -> None:
    """Set who makes the changes from here on in this context."""
    _actor.set(name)


def current_actor() -> str | None:
    """Return who asked for the change; None when the controller makes it by itself."""
    return _actor.get()
