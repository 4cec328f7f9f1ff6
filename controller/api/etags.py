"""ETags made of generations, and the two conditional headers."""

from __future__ import annotations

from typing import Annotated

from fastapi import Header

from tidemark.controller.errors import PreconditionFailedError
from tidemark.controller.store.specs import Precondition

__all__ = ["IfMatch", "IfNoneMatch", "etag", "is_current", "precondition"]

IfMatch = Annotated[
    str | None,
    Header(description='ETag of the version to be replaced, as in "3"; stale ones are refused with 412.'),
]
"""The If-Match header."""

IfNoneMatch = Annotated[
    str | None,
    Header(description="ETag that the caller holds; when it is still current the answer is 304, empty."),
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


def precondition(if_match: str | None) -> Precondition:
    """Return the check that If-Match asks for.

    The check raises ``PreconditionFailedError`` when the store holds another generation, or none at all.
    """

    def check(generation: int) -> None:
        if if_match is None or (generation and is_current(if_match, etag(generation))):
            return
        has = f"generation {generation}" if generation else "no generation yet"
        raise PreconditionFailedError(
            f"If-Match is {if_match}, but the store has {has}; read it again and decide anew"
        )

    return check
