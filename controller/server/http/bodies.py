"""Bodies that people send, beside SLOs, policies and joins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field

from tidemark.controller.base.principal import EVERY_JOB, MAX_PATTERN_LENGTH, Grant, Role, pattern_problem
from tidemark.controller.base.token_format import NAME_PATTERN
from tidemark.controller.server.access.token_store import NewToken
from tidemark.models.base.ranges import STRICT
from tidemark.models.protocol.messages import Pin


def _no_nul(text: str) -> str:
    # PostgreSQL cannot store it.
    if "\0" in text:
        raise ValueError("the character U+0000 is not allowed")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class PinBody:
    """The kill switch to set."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    to: Pin
    """What jobs are held to: their own bound (Off), or their ceiling alone (Ceiling)."""
    reason: Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"\S"), AfterValidator(_no_nul)]
    """Why, for those who find the pin later; not empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasonBody:
    """Why somebody acts."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    reason: Annotated[str, Field(min_length=1, max_length=1_000, pattern=r"\S"), AfterValidator(_no_nul)]
    """Why, for the event that it leaves; not empty."""


def _checked_pattern(pattern: str) -> str:
    problem = pattern_problem(pattern)
    if problem is not None:
        raise ValueError(problem)
    return pattern


_Pattern = Annotated[
    str, Field(min_length=1, max_length=MAX_PATTERN_LENGTH), AfterValidator(_checked_pattern)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBody:
    """The token to make."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT

    name: Annotated[str, Field(pattern=NAME_PATTERN)]
    """Name of its holder."""
    role: Role
    """Its role."""
    jobs: Annotated[tuple[_Pattern, ...], Field(min_length=1, max_length=100)] = (EVERY_JOB,)
    """Patterns of job names that it is limited to; * stands for any characters."""
    lifetime_ms: Annotated[int, Field(gt=0, le=10 * 365 * 86_400_000)] | None = None
    """How long it is valid, in milliseconds; null: it never expires."""

    def to_new(self) -> NewToken:
        """Return the token to make."""
        lifetime_us = None if self.lifetime_ms is None else self.lifetime_ms * 1_000
        return NewToken(self.name, Grant(self.role, self.jobs), lifetime_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationBody:
    """Nothing can be chosen; the body is there so that no page of another site can send the request."""

    __pydantic_config__: ClassVar[dict[str, Any]] = STRICT
