"""Every error as an RFC 9457 problem document."""

from __future__ import annotations

import logging
import re
from difflib import get_close_matches
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import iter_route_contexts
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from tidemark.controller.base.errors import (
    InvalidParameterError,
    StoreUnavailableError,
    TidemarkError,
    UnknownSchemaVersionError,
)
from tidemark.controller.base.sentences import sentence
from tidemark.controller.server.http.request_log import REQUEST_ID_HEADER
from tidemark.controller.server.schemas.service import Problem, ProblemItem

_log = logging.getLogger(__name__)

PROBLEM_JSON = "application/problem+json"
"""Media type of a problem document."""

_CLIENT_LEFT = 499
"""Status in the log of a request whose client left before it was read; nobody receives it."""

_PARAMETER = re.compile(r"\{[^}]*\}")
"""A parameter in a route's template."""

_VERSIONS = re.compile(r"^(/v\d+)*(?=/)")
"""Versions at the beginning of a path."""

_NEAR = 0.9
"""How much of a path a nearest one shares at least."""

_RETRY_AFTER_SECONDS = "5"
"""How long a caller should wait when the store does not answer."""


def install(app: FastAPI) -> None:
    """Answer every error of ``app`` with a problem document."""
    app.add_exception_handler(TidemarkError, _own_error)
    app.add_exception_handler(RequestValidationError, _invalid_parameter)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(DBAPIError, _store_error)
    app.add_exception_handler(PoolTimeout, _store_error)
    # These are ours: a value that the store cannot hold, or one that is there already.
    app.add_exception_handler(DataError, _defect)
    app.add_exception_handler(IntegrityError, _defect)
    app.add_exception_handler(ClientDisconnect, _gone)
    app.add_exception_handler(Exception, _unexpected)


def _answer(request: Request, problem: Problem, headers: dict[str, str] | None = None) -> Response:
    found = problem.model_copy(
        update={"instance": request.url.path, "body_sha256": getattr(request.state, "body_sha256", None)}
    )
    return Response(
        found.model_dump_json(exclude_none=True),
        status_code=problem.status,
        # Answers to unexpected errors bypass the middleware that sets it.
        headers={**(headers or {}), REQUEST_ID_HEADER: request.state.request_id},
        media_type=PROBLEM_JSON,
    )


def _own_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, TidemarkError)
    items = [ProblemItem(pointer=item.pointer, detail=item.detail) for item in error.errors]
    problem = Problem(
        type=error.type,
        title=error.title,
        status=error.status,
        detail=error.detail,
        errors=items or None,
        known_versions=list(error.known) if isinstance(error, UnknownSchemaVersionError) else None,
    )
    headers = dict(error.headers or {})
    if isinstance(error, StoreUnavailableError):
        headers["Retry-After"] = _RETRY_AFTER_SECONDS
        # Behind one address of many replicas, the next connection leads to one that is ready.
        headers["Connection"] = "close"
    return _answer(request, problem, headers)


def _invalid_parameter(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    # The first part of a location is the path or the query; the name alone is enough to find it.
    items = [
        ProblemItem(pointer="/".join(map(str, found["loc"][1:])), detail=sentence(found))
        for found in error.errors()
    ]
    detail = f"{items[0].pointer}: {items[0].detail}"
    problem = Problem(
        type=InvalidParameterError("").type,
        title=InvalidParameterError.title,
        status=InvalidParameterError.status,
        detail=detail,
        errors=items,
    )
    return _answer(request, problem)


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    title = HTTPStatus(error.status_code).phrase
    detail = error.detail
    headers = dict(error.headers or {})
    if error.status_code == HTTPStatus.NOT_FOUND:
        detail = f"there is nothing at {request.url.path}"
        near = _nearest_path(request)
        if b"%2f" in request.scope.get("raw_path", b"").lower():
            detail += "; a name cannot contain a slash, even encoded"
        else:
            detail += f"; did you mean {near}?" if near else "; /openapi.json lists all paths"
    elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        allowed = ", ".join(_methods_at(request)) or headers.get("Allow", "GET")
        headers["Allow"] = allowed
        detail = f"{request.url.path} does not take {request.method}, only {allowed}"
    problem = Problem(type="about:blank", title=title, status=error.status_code, detail=detail)
    return _answer(request, problem, headers)


def _nearest_path(request: Request) -> str | None:
    """Return the path of a route, with the names of the request, that is most like the path of the request."""
    app: FastAPI = request.app
    found = set()
    given = request.url.path
    # The version is left out, given twice or another one, or a slash ends the path.
    parts = f"/v1/{_VERSIONS.sub('', given).strip('/')}".split("/")
    for route in iter_route_contexts(app.routes):
        wanted = (route.path_format or "").split("/")
        if len(wanted) == len(parts) and wanted[1] == "v1":
            found.add("/".join(map(_filled, wanted, parts)))
    # What only goes on is no slip of the pen.
    found = {path for path in found if not path.startswith(given)}
    return next(iter(get_close_matches("/".join(parts), found, 1, _NEAR)), None)


def _filled(template: str, part: str) -> str:
    """Return a part of a path by its template: what was given for a parameter, else what the template says."""
    return _PARAMETER.sub(lambda _: part, template)


def _methods_at(request: Request) -> list[str]:
    """Return the methods that the path of a request takes: the framework names only those of its first route.

    Where several templates match, such as ``{id}`` and ``{id}:approve``, the one with the most literal text counts.
    """
    app: FastAPI = request.app
    found: dict[str, set[str]] = {}
    for route in iter_route_contexts(app.routes):
        if route.path_regex.match(request.url.path):
            found.setdefault(_PARAMETER.sub("", route.path_format or ""), set()).update(route.methods or ())
    return sorted(found[max(found, key=len)]) if found else []


def _store_error(request: Request, error: Exception) -> Response:
    _log.error("the store did not answer %s %s", request.method, request.url.path, exc_info=error)
    detail = "the store did not answer; nothing of this request was stored, send it again"
    return _own_error(request, StoreUnavailableError(detail))


def _defect(request: Request, error: Exception) -> Response:
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return _unexpected(request, error)


def _gone(request: Request, _: Exception) -> Response:
    """Answer nobody: the log has one line with the status that proxies use for a client that has left."""
    return Response(status_code=_CLIENT_LEFT, headers={REQUEST_ID_HEADER: request.state.request_id})


def _unexpected(request: Request, _: Exception) -> Response:
    # The server logs the traceback; the answer reveals no internals.
    problem = Problem(
        type=TidemarkError("").type,
        title=TidemarkError.title,
        status=TidemarkError.status,
        detail="an unexpected error occurred; the controller's log has the traceback",
    )
    return _answer(request, problem)
