"""Query parameters: one that a route does not have is rejected, because a misspelt ``dryRun`` would write."""

from __future__ import annotations

from difflib import get_close_matches

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
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
    known = _known(route.dependant)
    for name in request.query_params:
        if name not in known:
            raise InvalidParameterError(
                f"{name}: {_advice(name, known)}", errors=(ErrorItem(name, _advice(name, known)),)
            )


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
