"""ETags of versions, and the two conditional headers."""

from __future__ import annotations

import hashlib
from typing import Annotated, Any

from fastapi import Header, Response, status
from pydantic import TypeAdapter

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
