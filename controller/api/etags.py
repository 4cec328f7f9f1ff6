"""ETags of generations, and the two conditional headers."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header

from tidemark.controller.errors import PreconditionFailedError, PreconditionRequiredError
from tidemark.controller.specs.store import Precondition

IfMatch = Annotated[
    str | None,
    Header(
        description='ETag of the version to be replaced, as in "3". A stale one is rejected with 412, a missing one '
        "with 428 where there is something to replace; a write that changes nothing needs none.",
    ),
]
"""The If-Match header."""

IfNoneMatch = Annotated[
    str | None,
    Header(description="ETag of the caller's version; while it is current the answer is 304, empty."),
]
"""The If-None-Match header."""


def etag(version: int | str) -> str:
    """Return the strong ETag of a version."""
    return f'"{version}"'


def is_current(header: str | None, current: str) -> bool:
    """Return whether a conditional header names ``current``, alone or in a list, or any version by ``*``."""
    if header is None:
        return False
    names = [name.strip().removeprefix("W/") for name in header.split(",")]
    return "*" in names or current in names


def precondition(if_match: str | None, *, default: bool = False) -> Precondition:
    """Return the check that If-Match asks for.

    The check raises ``PreconditionFailedError`` when the store holds another generation, or none at all, and
    ``PreconditionRequiredError`` when it holds one and no If-Match was sent.

    Args:
        if_match: the header.
        default: whether there is something to read, with generation 0, before anything was set.
    """

    def check(generation: int) -> None:
        current = etag(generation)
        if if_match is None:
            if generation:
                raise PreconditionRequiredError(
                    f"this replaces generation {generation}: read it, and send If-Match: {current} to replace it",
                    headers={"ETag": current},
                )
            return
        # A weak tag never matches here (RFC 9110, 13.1.1), so W/ is not removed.
        names = [name.strip() for name in if_match.split(",")]
        if (generation or default) and ("*" in names or current in names):
            return
        has = f"generation {generation}" if generation else "no generation yet"
        raise PreconditionFailedError(
            f"If-Match is {if_match}, but the store has {has}; read it again and decide again",
            headers={"ETag": current} if generation or default else None,
        )

    return check
