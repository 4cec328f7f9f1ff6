"""Routes that resolve no dependencies: for what comes a thousand times a second.

FastAPI resolves a dozen dependencies for each request, which takes four times as long as reading a report. An endpoint
of such a route is given the request and answers it. What its signature would document, its dependencies document.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.routing import APIRoute

from tidemark.controller.access.authorize import authorize
from tidemark.controller.api.accept import check_accept
from tidemark.controller.api.parameters import reject_unknown


class DirectRoute(APIRoute):
    """A route whose endpoint takes the request alone and returns the response; its dependencies are not called."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the endpoint."""
        endpoint: Callable[[Request], Coroutine[Any, Any, Response]] = self.endpoint
        return endpoint


async def check_request(request: Request) -> None:
    """Check what the dependencies check that ``app`` puts before every resource.

    Raises:
        UnauthenticatedError, ForbiddenError, TooManyRequestsError: as ``authorize`` does.
        NotAcceptableError: when the caller accepts no JSON.
        InvalidParameterError: for a query parameter that the route does not have.
    """
    await authorize(request)
    await check_accept(request.headers.getlist("accept"))
    await reject_unknown(request)
