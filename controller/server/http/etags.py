"""ETags of versions, and the two conditional headers."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import Header, Response, status
from pydantic import TypeAdapter

from tidemark.controller.base.errors import PreconditionFailedError, PreconditionRequiredError
from tidemark.controller.specs.kinds import Precondition

_ANY: TypeAdapter[Any] = TypeAdapter(Any)
"""Writes any answer as JSON."""

IfMatch = Annotated[
    str | None,
    Header(
        description="ETag of the version to be replaced, as it was read. A stale one is rejected with 412, a missing "
        "one with 428 where there is something to replace; a write that changes nothing needs none.",
    ),
]
"""The If-Match header."""

IfNoneMatch = Annotated[
    str | None,
    Header(description="ETag of the caller's version; while it is current the answer is 304, empty."),
]
"""The If-None-Match header."""


def etag(version: str) -> str:
    """Return the strong ETag of a version."""
    return f'"{version}"'


def answered(answer: object, if_none_match: str | None, version: str | None = None) -> Response:
    """Return an answer with its ETag, or 304 without a body when the caller has it.

    Args:
        answer: the answer.
        if_none_match: the If-None-Match header.
        version: its version; None for that of its content.
    """
    body = _ANY.dump_json(answer)
    current = etag(hashlib.sha256(body).hexdigest()[:32] if version is None else version)
    if is_current(if_none_match, current):
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers={"ETag": current})
    return Response(body, media_type="application/json", headers={"ETag": current})


def is_current(header: str | None, current: str) -> bool:
    """Return whether a conditional header names ``current``, alone or in a list, or any version by ``*``."""
    if header is None:
        return False
    names = [name.strip().removeprefix("W/") for name in header.split(",")]
    return "*" in names or current in names


def precondition(if_match: str | None, *, optional: bool = False) -> Precondition:
    """Return the check that If-Match asks for: ``check_match`` without what is stored.

    Args:
        if_match: the header.
        optional: whether it need not be sent even where there is something.
    """

    def check(version: str | None, held: str, is_set: bool) -> None:
        current = None if version is None else etag(version)
        check_match(if_match, current, held, required=is_set and not optional)

    return check


def check_match(if_match: str | None, current: str | None, held: str, *, required: bool) -> None:
    """Check an If-Match header against what is stored.

    Args:
        if_match: the header; None when it was not sent.
        current: the ETag of what is stored; None when nothing is.
        held: what is stored, in words.
        required: whether the header has to be sent.

    Raises:
        PreconditionFailedError: when the header names another version.
        PreconditionRequiredError: when it is required and was not sent.
    """
    headers = None if current is None else {"ETag": current}
    if if_match is None:
        if required:
            raise PreconditionRequiredError(
                f"this replaces {held}: read it, and send If-Match: {current} to replace it", headers=headers
            )
        return
    # A weak tag never matches here (RFC 9110, 13.1.1), so W/ is not removed. A shell easily drops the quotes.
    names = {name.strip() for name in if_match.split(",")}
    if current is None or names.isdisjoint({"*", current, current.strip('"')}):
        raise PreconditionFailedError(
            f"If-Match is {if_match}, but the store has {held}; read it again and decide again",
            headers=headers,
        )
