"""Query parameters of writes: whether it is a dry run, and the reason."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Depends, Query

from tidemark.controller.errors import ErrorItem, InvalidParameterError

NO_REASON = "no reason given"
"""The reason in the event of a write without one."""

_MAX_LENGTH = 500
"""Maximum length of a reason in characters."""


async def _dry_run(
    dry_run: Annotated[
        Literal["All"] | None,
        Query(
            alias="dryRun",
            description="All: check everything and answer like the write, but change nothing.",
        ),
    ] = None,
) -> bool:
    return dry_run is not None


DryRun = Annotated[bool, Depends(_dry_run)]
"""Whether the write is a dry run."""


async def _reason(
    reason: Annotated[
        str | None,
        Query(
            max_length=_MAX_LENGTH,
            description=f'Why, for the event of the write; "{NO_REASON}" when it is left out or blank.',
            examples=["INC-1042: late rows from the new region"],
        ),
    ] = None,
) -> str:
    found = (reason or "").strip()
    if not found.isprintable():
        problem = "a reason is one line of printable characters"
        raise InvalidParameterError(f"reason: {problem}", errors=(ErrorItem("reason", problem),))
    return found or NO_REASON


Reason = Annotated[str, Depends(_reason)]
"""The reason of the write."""


async def _needed_reason(
    reason: Annotated[
        str,
        Query(
            max_length=_MAX_LENGTH,
            description="Why, for the event of the write.",
            examples=["the job is retired"],
        ),
    ],
) -> str:
    if not reason.strip():
        problem = "it must not be blank"
        raise InvalidParameterError(f"reason: {problem}", errors=(ErrorItem("reason", problem),))
    return await _reason(reason)


NeededReason = Annotated[str, Depends(_needed_reason)]
"""The reason of a write that must have one."""
