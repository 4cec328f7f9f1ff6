"""Parses and validates bodies: strict, all or nothing, with a JSON pointer to each error."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json

from tidemark.controller.access.job_patterns import EVERY_JOB, MAX_PATTERN_LENGTH, pattern_problem
from tidemark.controller.access.principal import Grant
from tidemark.controller.access.roles import Role
from tidemark.controller.access.token_format import NAME_PATTERN
from tidemark.controller.access.token_store import NewToken
from tidemark.controller.errors import (
    MAX_ERRORS,
    ErrorItem,
    InvalidBodyError,
    MalformedBodyError,
)
from tidemark.models.base.ranges import STRICT
from tidemark.models.protocol.messages import Pin

T = TypeVar("T")

_NOWHERE = object()

_SAYS_FIELD = re.compile(r"[a-z_]+\b")
"""The first word of a message of the wire types; often the field that it is about."""


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


def parse_body(adapter: TypeAdapter[T], body: bytes) -> T:
    """Parse and validate a JSON body.

    Raises:
        MalformedBodyError: when it is not JSON.
        InvalidBodyError: when it is JSON but does not fit the schema.
    """
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False)
    raise problem_of(found, body)


def problem_of(found: list[ErrorDetails], body: bytes) -> MalformedBodyError | InvalidBodyError:
    """Return the problem with ``body`` in which pydantic ``found`` these errors, one at least."""
    if found[0]["type"] == "json_invalid":
        return MalformedBodyError(found[0]["msg"])
    errors = error_items(found[:MAX_ERRORS], from_json(body))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return InvalidBodyError(f"{errors[0].pointer or 'the body'}: {errors[0].detail}{more}", errors=errors)


def error_items(answer: list[ErrorDetails], document: object) -> tuple[ErrorItem, ...]:
    """Return the errors that pydantic found in ``document``, with JSON pointers into it."""
    return tuple(_item(error, document) for error in answer)


def _item(error: ErrorDetails, document: object) -> ErrorItem:
    detail = error["msg"].removeprefix("Value error, ")
    path: list[str] = []
    here = document
    for position, part in enumerate(error["loc"]):
        within = _within(here, part)
        last = position == len(error["loc"]) - 1
        # A missing field is not in the document; any other part that is not there names a member of a union.
        if within is _NOWHERE and not (last and error["type"].startswith("missing")):
            continue
        here = within
        path.append(str(part))
    if error["type"] == "value_error" and isinstance(here, dict):
        field = _SAYS_FIELD.match(detail)
        if field is not None and field.group() in here:
            path.append(field.group())
    return ErrorItem("".join("/" + _escaped(part) for part in path), detail)


def _within(document: object, part: str | int) -> object:
    if isinstance(document, dict):
        return document.get(part, _NOWHERE)
    if isinstance(document, list) and isinstance(part, int) and part < len(document):
        return document[part]
    return _NOWHERE


def _escaped(part: str) -> str:
    return part.replace("~", "~0").replace("/", "~1")
