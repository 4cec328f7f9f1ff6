"""What paths, queries and headers of requests may hold; a query parameter that a route does not have is rejected."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from fastapi import Depends, Header, HTTPException, Path, Query, Request, status
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from pydantic import WithJsonSchema

from tidemark.controller.base.errors import ErrorItem, InvalidParameterError
from tidemark.controller.server.process.service import Service
from tidemark.models.base.names import ACTIONS, MAX_LENGTH, name_problem


async def reject_unknown(request: Request) -> None:
    """Check that a request has no query parameter that its route does not have, and names no action by another method.

    Raises:
        InvalidParameterError: when it has one.
        HTTPException: 405 when it does.
    """
    check_method(request)
    route = request.scope.get("route")
    if not isinstance(route, APIRoute) or not request.query_params:
        return
    known = _known(route.dependant)
    for name in request.query_params:
        if name not in known:
            raise InvalidParameterError.at(name, _advice(name, known))


KnownParameters = Depends(reject_unknown)
"""Rejects a request with a query parameter that its route does not have."""


def _known(dependant: Dependant) -> frozenset[str]:
    """Return the names of the query parameters that a handler and what it depends on take.

    Not by the OpenAPI document: to make it takes a second, in which the event loop would serve nobody.
    """
    own = frozenset(field.alias for field in dependant.query_params)
    return own.union(*map(_known, dependant.dependencies))


def _advice(name: str, known: frozenset[str]) -> str:
    near = get_close_matches(name, known, 1)
    if near:
        return f"there is no such parameter; did you mean {near[0]}?"
    return f"there is no such parameter; known are {', '.join(sorted(known)) or 'none'}"


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


def _name_of(what: str, example: str) -> Any:
    return Path(
        description=f"Name of the {what}, percent-encoded; no slash.",
        examples=[example],
        # The document states the length; name_problem checks it once the path is known.
        json_schema_extra={"maxLength": MAX_LENGTH},
    )


_JobName = Annotated[str, _name_of("job", "orders")]
_StreamName = Annotated[str, _name_of("stream", "clicks")]
_JoinName = Annotated[str, _name_of("join", "attribution")]


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


MAX_WAIT_SECONDS = 60
"""How long an answer is held back at most: proxies often close a silent connection after a minute."""

Prefer = Annotated[
    list[str] | None,
    # Any text is taken, and lines that are repeated mean the same as one with commas (RFC 9110, 5.3).
    WithJsonSchema({"type": "string"}),
    Header(
        description="wait=N holds the answer back until the ETag in If-None-Match is no longer current, for at most N "
        f"seconds (at most {MAX_WAIT_SECONDS}); then it is 304.",
        examples=["wait=30"],
    ),
]
"""The Prefer header, which may be repeated."""

_WAIT = re.compile(r'wait\s*=\s*(?:"(\d{1,9})"|(\d{1,9}))', re.IGNORECASE)


def wait_seconds(headers: list[str] | None) -> int | None:
    """Return how many seconds the answer may be held back, None without a readable ``wait``.

    The first ``wait`` counts, as in the RFC; unreadable preferences are ignored.
    """
    for preference in ",".join(headers or ()).split(","):
        found = _WAIT.fullmatch(preference.partition(";")[0].strip())
        if found is not None:
            return min(int(found[1] or found[2]), MAX_WAIT_SECONDS)
    return None


NO_REASON = "no reason given"
"""The reason in the event of a write without one."""

_MAX_LENGTH = 500
"""Maximum length of a reason in characters."""


async def _dry_run(
    dry_run: Annotated[
        Literal["true", "All"] | None,
        Query(
            alias="dryRun",
            description="true, or All: check everything and answer like the write, but change nothing.",
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
        raise InvalidParameterError.at("reason", "a reason is one line of printable characters")
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
        raise InvalidParameterError.at("reason", "it must not be blank")
    return await _reason(reason)


NeededReason = Annotated[str, Depends(_needed_reason)]
"""The reason of a write that must have one."""


async def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


TheService = Annotated[Service, Depends(_service)]
"""The parts of the running controller."""
