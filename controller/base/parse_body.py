"""Parses and validates bodies: strict, all or nothing, with a JSON pointer to each error."""

from __future__ import annotations

import re
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json

from tidemark.controller.base.errors import MAX_ERRORS, ErrorItem, InvalidBodyError, MalformedBodyError

T = TypeVar("T")


_NOWHERE = object()


_SAYS_FIELD = re.compile(r"[a-z_]+\b")
"""The first word of a message of the wire types; often the field that it is about."""


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
