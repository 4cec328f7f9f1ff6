"""Reads specifications that people write, in bodies and documents: fields in words, or as in the interface."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter
from pydantic_core import from_json

from tidemark.controller.base.errors import ErrorItem, InvalidBodyError
from tidemark.controller.base.parse_body import invalid_body, parse_body
from tidemark.models.specs.fields import spec_fields
from tidemark.models.specs.words import READ, Written, example_of, in_words, name_in_words

T = TypeVar("T")

_IN_QUERY = {"reason": "reason=...", "dryRun": "dryRun=All", "dry_run": "dryRun=All"}
"""What does not belong to a specification, with the query that says it."""


def parse_spec(kind: type[T], body: bytes) -> T:
    """Parse and validate the specification in the body of a request.

    Raises:
        MalformedBodyError: when it is not JSON.
        InvalidBodyError: when it is JSON but no such specification, with what was written in each pointer.
    """
    try:
        document = from_json(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        return parse_body(_adapter(kind), body)
    return read_spec(kind, document, body)


def read_spec(kind: type[T], document: Mapping[str, Any], body: bytes | None = None) -> T:
    """Return the specification that fields say, of which some may be in words.

    Args:
        body: the JSON that they were read from, which is validated as it is where nothing is in words.

    Raises:
        InvalidBodyError: when they are no such specification, with what was written in each pointer.
    """
    written = in_words(kind, document)
    if written.problems:
        raise invalid_body(tuple(ErrorItem(f"/{name}", text) for name, text in written.problems.items()))
    if body is None or written.fields != document:
        # What JSON has no type for becomes a text, which no number takes.
        body = json.dumps(written.fields, default=str).encode()
    try:
        return parse_body(_adapter(kind), body, _known(cast("Any", kind)))
    except InvalidBodyError as error:
        raise invalid_body(tuple(_as_written(kind, one, written) for one in error.errors)) from None


def _as_written(kind: Any, item: ErrorItem, written: Written) -> ErrorItem:
    """Return an error in the words that were written, with the way to write it."""
    field, detail = item.pointer.partition("/")[2], item.detail
    one = next((one for one in spec_fields(kind) if one.name == field and one.unit in READ), None)
    if field in _IN_QUERY:
        detail = f"there is no such field; say it in the query, {_IN_QUERY[field]}"
    elif one is not None and field not in written.names and "must be a whole number" in detail:
        detail = f"{detail}; or write {name_in_words(one)}, such as {json.dumps(example_of(one))}"
    for name, word in written.names.items():
        detail = re.sub(rf"\b{name}\b", word, detail)
    first, slash, rest = field.partition("/")
    return ErrorItem(f"/{written.names.get(first, first)}{slash}{rest}" if first else "", detail)


@cache
def _cached_adapter(kind: Any) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def _adapter(kind: type[T]) -> TypeAdapter[T]:
    return _cached_adapter(cast("Any", kind))


@cache
def _known(kind: Any) -> Collection[str]:
    return {one.name for one in fields(kind)} | {
        name_in_words(one) for one in spec_fields(kind) if one.unit in READ
    }
