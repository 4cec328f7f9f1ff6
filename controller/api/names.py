"""Names in paths: what a job and a stream may be called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path

from tidemark.controller.errors import ErrorItem, InvalidParameterError

__all__ = ["StreamPath", "WhichJob", "WhichStream", "name_problem"]

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


JobName = Annotated[
    str,
    Path(
        description="Name of the job, percent-encoded; no slash.", examples=["orders"], max_length=MAX_LENGTH
    ),
]
StreamName = Annotated[
    str,
    Path(
        description="Name of the stream, percent-encoded; no slash.",
        examples=["clicks"],
        max_length=MAX_LENGTH,
    ),
]


def _checked(**names: str) -> None:
    found = {field: name_problem(name) for field, name in names.items()}
    errors = tuple(ErrorItem(field, problem) for field, problem in found.items() if problem is not None)
    if errors:
        raise InvalidParameterError(errors[0].detail, errors=errors)


def _which_job(job: JobName) -> str:
    _checked(job=job)
    return job


def _which_stream(job: JobName, stream: StreamName) -> StreamPath:
    _checked(job=job, stream=stream)
    return StreamPath(job, stream)


WhichJob = Annotated[str, Depends(_which_job)]
"""The job that the path names."""

WhichStream = Annotated[StreamPath, Depends(_which_stream)]
"""The stream that the path names."""
