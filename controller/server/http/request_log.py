"""Logs one line for each request, gives it an id, and adds that id to all lines logged meanwhile."""

from __future__ import annotations

import logging
import random
import re
import time
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from structlog.contextvars import bind_contextvars, clear_contextvars

from tidemark.controller.base.token_format import TOKEN

_log = logging.getLogger("tidemark.request")

REQUEST_ID_HEADER = "X-Request-Id"
"""Header of a request's id, in requests and answers."""

_SANE = re.compile(r"[A-Za-z0-9._-]{1,64}")
"""Ids that are accepted from callers: they go into logs, so nothing else may pass."""

_OF_JOBS = frozenset({"reports", "acks", "late-rows"})
"""What jobs post after each batch: the last part of the path."""

_REJECTED, _FAILED = 400, 500


def request_id(headers: Headers) -> str:
    """Return the id that a request came with if it is acceptable, else a new one."""
    given = headers.get(REQUEST_ID_HEADER, "")
    # A token in the wrong header must not get into a log. An id is no secret: asking the kernel for one gives other
    # threads the interpreter, and the event loop would wait for it at each request.
    sane = _SANE.fullmatch(given) and not TOKEN.search(given)
    return given if sane else f"{random.getrandbits(128):032x}"


class RequestLog:
    """Middleware: gives each request an id and logs it at its end.

    Args:
        app: the wrapped application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        own_id = request_id(Headers(scope=scope))
        scope.setdefault("state", {})["request_id"] = own_id
        clear_contextvars()
        bind_contextvars(request_id=own_id)
        status = _FAILED
        begun = time.perf_counter()

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = own_id
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            _log_request(scope, status, time.perf_counter() - begun)


def _log_request(scope: Scope, status: int, seconds: float) -> None:
    # The template, not the path: names have fields of their own, and unknown paths are not repeated in the log.
    route: Any = scope.get("route")
    template = getattr(route, "path", None)
    # Jobs, probes and open pages ask all day long: at the default level the log has what changed, and what went wrong.
    everyday = scope["method"] in {"GET", "HEAD"} or str(template).rpartition("/")[2] in _OF_JOBS
    level = logging.INFO
    if status >= _FAILED:
        level = logging.WARNING
    elif everyday and status < _REJECTED:
        level = logging.DEBUG
    _log.log(
        level,
        "request",
        extra={
            "method": scope["method"],
            "route": template,
            "status": status,
            "duration_ms": round(seconds * 1_000),
        },
    )
