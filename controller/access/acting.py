"""On whose behalf this thread works: set once a request is let in, read where a change is written down."""

from __future__ import annotations

from contextvars import ContextVar

__all__ = ["act_for", "acting"]

_acting: ContextVar[str | None] = ContextVar("tidemark_acting", default=None)


def act_for(name: str) -> None:
    """Say who asked for what is done from here on in this context."""
    _acting.set(name)


def acting() -> str | None:
    """Return who asked for what is done; None when the controller does it by itself."""
    return _acting.get()
