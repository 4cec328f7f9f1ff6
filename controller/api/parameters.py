"""Query parameters: one that a route does not have is rejected, because a misspelt ``dryRun`` would write."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

from fastapi import Depends, FastAPI, Request
from fastapi.routing import APIRoute

from tidemark.controller.api.names import check_method
from tidemark.controller.errors import ErrorItem, InvalidParameterError


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
    method = "GET" if request.method == "HEAD" else request.method
    known = _known(request.app).get((route.path_format, method), frozenset())
    for name in request.query_params:
        if name not in known:
            raise InvalidParameterError(
                f"{name}: {_advice(name, known)}", errors=(ErrorItem(name, _advice(name, known)),)
            )


KnownParameters = Depends(reject_unknown)
"""Rejects a request with a query parameter that its route does not have."""


def _known(app: FastAPI) -> Mapping[tuple[str, str], frozenset[str]]:
    """Return the names of the query parameters by path and method, as the OpenAPI document has them."""
    known: Mapping[tuple[str, str], frozenset[str]] | None = getattr(app.state, "query_parameters", None)
    if known is None:
        known = app.state.query_parameters = {
            (path, method.upper()): frozenset(
                parameter["name"]
                for parameter in operation.get("parameters", ())
                if parameter["in"] == "query"
            )
            for path, operations in app.openapi()["paths"].items()
            for method, operation in operations.items()
        }
    return known


def _advice(name: str, known: frozenset[str]) -> str:
    near = get_close_matches(name, known, 1)
    if near:
        return f"there is no such parameter; did you mean {near[0]}?"
    return f"there is no such parameter; known are {', '.join(sorted(known)) or 'none'}"
