"""Names of jobs and streams in paths and queries, and which are allowed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, HTTPException, Path, Query, Request, status

from tidemark.controller.errors import ErrorItem, InvalidParameterError
from tidemark.models.names import ACTIONS, MAX_LENGTH, name_problem

OfJob = Annotated[str | None, Query(max_length=MAX_LENGTH, description="Only the streams of this job.")]
"""Limits a list to one job's streams; None for all."""


@dataclass(frozen=True, slots=True)
class StreamPath:
    """The stream that a request is about."""

    job: str
    """Name of the job."""
    stream: str
    """Name of the stream."""


@dataclass(frozen=True, slots=True)
class JoinPath:
    """The join that a request is about."""

    job: str
    """Name of the job."""
    join: str
    """Name of the join."""


# The document states the length; name_problem checks it once the path is known.
_JobName = Annotated[
    str,
    Path(
        description="Name of the job, percent-encoded; no slash.",
        examples=["orders"],
        json_schema_extra={"maxLength": MAX_LENGTH},
    ),
]
_StreamName = Annotated[
    str,
    Path(
        description="Name of the stream, percent-encoded; no slash.",
        examples=["clicks"],
        json_schema_extra={"maxLength": MAX_LENGTH},
    ),
]


_JoinName = Annotated[
    str,
    Path(
        description="Name of the join, percent-encoded; no slash.",
        examples=["attribution"],
        json_schema_extra={"maxLength": MAX_LENGTH},
    ),
]


def check_names(**names: str) -> None:
    """Check names by parameter.

    Raises:
        InvalidParameterError: when one cannot be a name.
    """
    found = {field: name_problem(name) for field, name in names.items()}
    errors = tuple(ErrorItem(field, problem) for field, problem in found.items() if problem is not None)
    if errors:
        raise InvalidParameterError(errors[0].detail, errors=errors)


async def _which_job(job: _JobName) -> str:
    check_names(job=job)
    return job


def check_method(request: Request) -> None:
    """Check that a request that names an action of a stream has its method, and is not taken for one about a stream.

    Raises:
        HTTPException: 405 when it has another.
    """
    if request.path_params.get("stream", "").endswith(ACTIONS) and request.url.path.endswith(ACTIONS):
        raise HTTPException(status.HTTP_405_METHOD_NOT_ALLOWED)


async def which_stream(job: _JobName, stream: _StreamName) -> StreamPath:
    """Return the stream that a path names.

    Raises:
        InvalidParameterError: when one of the names cannot be one.
    """
    check_names(job=job, stream=stream)
    return StreamPath(job, stream)


async def _which_join(job: _JobName, join: _JoinName) -> JoinPath:
    check_names(job=job, join=join)
    return JoinPath(job, join)


WhichJob = Annotated[str, Depends(_which_job)]
"""The job that the path names."""

WhichStream = Annotated[StreamPath, Depends(which_stream)]
"""The stream that the path names."""

WhichJoin = Annotated[JoinPath, Depends(_which_join)]
"""The join that the path names."""
