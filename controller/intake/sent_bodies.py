"""Parses what jobs send. A job may be of a later release than this controller, or of an earlier one."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails, from_json, to_json

from tidemark.controller.errors import ErrorItem, UnknownSchemaVersionError
from tidemark.controller.runtime.parse_body import problem_of
from tidemark.models.protocol.messages import READ_AS

T = TypeVar("T")


def parse_sent(versions: Mapping[int, TypeAdapter[T]], body: bytes) -> T:
    """Parse and validate what a job sent.

    Fields that this release does not know are ignored, and values that it does not know are read as ``READ_AS`` says.

    Args:
        versions: by schema version what validates it, the current one first.
        body: what was sent.

    Raises:
        MalformedBodyError: when it is not JSON.
        UnknownSchemaVersionError: when its ``schema_version`` is one that this release does not read.
        InvalidBodyError: when it is JSON but does not fit the schema of its version.
    """
    adapter = next(iter(versions.values()))
    try:
        return adapter.validate_json(body)
    except ValidationError as error:
        found = _errors(error)
    version = _other_version(found)
    if version is not None:
        if version in versions:
            return parse_sent({version: versions[version]}, body)
        known = tuple(sorted(versions))
        older = "this controller" if version > known[-1] else "the job"
        detail = f"schema_version {version} is unknown; this release reads {', '.join(map(str, known))}: update {older}"
        raise UnknownSchemaVersionError(detail, known=known, errors=(ErrorItem("/schema_version", detail),))
    if any(map(_of_a_later_release, found)):
        document = from_json(body)
        _read_as_known(document, found)
        try:
            return adapter.validate_json(to_json(document))
        except ValidationError as error:
            found = [each for each in _errors(error) if not _of_a_later_release(each)]
    raise problem_of(found, body)


def _errors(error: ValidationError) -> list[ErrorDetails]:
    return error.errors(include_url=False, include_context=False)


def _other_version(found: list[ErrorDetails]) -> int | None:
    """Return the version that a body has instead of the current one; None when that is not what is wrong."""
    for error in found:
        if (
            error["loc"] == ("schema_version",)
            and error["type"] == "literal_error"
            and type(error["input"]) is int
        ):
            return error["input"]
    return None


def _of_a_later_release(error: ErrorDetails) -> bool:
    """Return whether an error is a value that this release need not know."""
    place = error["loc"][-2:]
    known = (place[-1:] and place[-1] in READ_AS) or place[0:1] == ("choices",)
    return error["type"] == "literal_error" and type(error["input"]) is str and bool(known)


def _read_as_known(document: Any, found: list[ErrorDetails]) -> None:
    """Put in place of values that this release does not know what it reads them as; choices are left out."""
    for error in reversed(found):
        if _of_a_later_release(error):
            *way, last = error["loc"]
            holder = reduce(lambda part, step: part[step], way, document)
            if isinstance(last, str):
                holder[last] = READ_AS[last]
            else:
                del holder[last]
