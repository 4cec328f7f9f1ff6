"""Parses and validates bodies: strict, all or nothing, with a JSON pointer to each error."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json

from tidemark.controller.base.errors import MAX_ERRORS, ErrorItem, InvalidBodyError, MalformedBodyError
from tidemark.controller.base.sentences import UNKNOWN_FIELD, sentence
from tidemark.controller.base.syntax import json_problem

T = TypeVar("T")


_NOWHERE = object()

MAX_REPEATED_BYTES = 1_000_000
"""Of larger bodies an error repeats nothing: that would take many times their size in memory once more."""


_SAYS_FIELD = re.compile(r"[a-z_]+\b")
"""The first word of a message of the wire types; often the field that it is about."""


def parse_body(adapter: TypeAdapter[T], body: bytes, names: Collection[str] | None = None) -> T:
    """Parse and validate a JSON body.

    Args:
        adapter: what it must be.
        names: names of the fields that it may have, for the one that has another; None for those of the schema.

    Raises:
        MalformedBodyError: when it is not JSON.
        InvalidBodyError: when it is JSON but does not fit the schema.
    """
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        errors = error.errors(include_url=False)
    if names is None and any(one["type"] in UNKNOWN_FIELD for one in errors):
        names = _fields(adapter)
    raise problem_of(errors, body, names or ())


def problem_of(
    errors: list[ErrorDetails], body: bytes, names: Collection[str] = ()
) -> MalformedBodyError | InvalidBodyError:
    """Return the problem with ``body`` in which pydantic found ``errors``, one at least."""
    if errors[0]["type"] == "json_invalid":
        if not body.strip():
            return MalformedBodyError("the body is empty; send JSON")
        return MalformedBodyError(f"the body is not JSON: {json_problem(errors[0]['msg'])}")
    # What is missing is often what stands there under another name.
    errors = sorted(errors, key=lambda one: one["type"] not in UNKNOWN_FIELD)
    document = from_json(body) if len(body) <= MAX_REPEATED_BYTES else _NOWHERE
    return invalid_body(error_items(errors[:MAX_ERRORS], document, names), more=len(errors) - 1)


def invalid_body(errors: tuple[ErrorItem, ...], *, more: int | None = None) -> InvalidBodyError:
    """Return the error of a body in which these errors were found, and ``more`` than the first one."""
    more = len(errors) - 1 if more is None else more
    text = f"{errors[0].pointer or 'the body'}: {errors[0].detail}" + (f" (and {more} more)" if more else "")
    return InvalidBodyError(text, errors=errors)


def error_items(
    answer: list[ErrorDetails], document: object, names: Collection[str] = ()
) -> tuple[ErrorItem, ...]:
    """Return the errors that pydantic found in ``document``, with JSON pointers into it."""
    return tuple(_item(error, document, names) for error in answer)


def _fields(adapter: TypeAdapter[Any]) -> Collection[str]:
    schema = adapter.json_schema()
    schema = schema.get("$defs", {}).get(schema.get("$ref", "").rpartition("/")[2], schema)
    return frozenset(schema.get("properties", ()))


def _item(error: ErrorDetails, document: object, names: Collection[str]) -> ErrorItem:
    # The names of the outermost fields alone are known.
    detail = sentence(error, names if len(error["loc"]) == 1 else ())
    path: list[str] = []
    here = document
    for position, part in enumerate(error["loc"]):
        within = _within(here, part)
        last = position == len(error["loc"]) - 1
        # A missing field is not in the document; any other part that is not there names a member of a union.
        if (
            within is _NOWHERE
            and document is not _NOWHERE
            and not (last and error["type"].startswith("missing"))
        ):
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
