"""Health of the service."""

from __future__ import annotations

from typing import Literal

from tidemark.controller.api.schemas.answer import Answer


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
