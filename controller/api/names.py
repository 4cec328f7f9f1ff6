"""Names in paths: what a job and a stream may be called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path

from tidemark.controller.errors import ErrorItem, InvalidParameterError

__all__ = ["StreamPath", "WhichStream", "name_problem"]

MAX_LENGTH = 200
"""Greatest length of a name in characters, as in the wire types."""


@dataclass(frozen=True, slots=True)
class StreamPath:
    """Which stream a request is about."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""


def name_problem(name: str) -> str | None:
    """Return why ``name`` cannot be part of a path, None when it can; encoded, all but a few characters can."""
    if not name or len(name) > MAX_LENGTH:
        return f"a name has 1 to {MAX_LENGTH} characters, this one {len(name)}"
    if "/" in name:
        return "a name cannot contain a slash, because it is part of a path"
    if name in {".", ".."}:
        return f"{name!r} cannot be a name, because clients and proxies take it for a step in a path"
    if not name.isprintable() or name != name.strip():
        return "a name has printable characters only, and no space at its ends"
    return None


def _which_stream(
    job: Annotated[
        str,
        Path(
            description="Name of the job, percent-encoded; no slash.",
            examples=["orders"],
            max_length=MAX_LENGTH,
        ),
    ],
    stream: Annotated[
        str,
        Path(
            description="Name of the stream, percent-encoded; no slash.",
            examples=["clicks"],
            max_length=MAX_LENGTH,
        ),
    ],
) -> StreamPath:
    found = {"job": name_problem(job), "stream": name_problem(stream)}
    errors = tuple(ErrorItem(name, problem) for name, problem in found.items() if problem is not None)
    if errors:
        raise InvalidParameterError(errors[0].detail, errors=errors)
    return StreamPath(job, stream)


WhichStream = Annotated[StreamPath, Depends(_which_stream)]
"""The stream that the path names."""
