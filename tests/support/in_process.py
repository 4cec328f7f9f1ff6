"""An HTTP client for an application in this process: a request is one hop to its event loop, not seven."""

from __future__ import annotations

import asyncio
import sys
import warnings
from collections.abc import Iterable
from importlib import import_module
from typing import Any, Self
from urllib.parse import unquote

import httpx
import pytest
from starlette.types import ASGIApp, Message

with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patched:
    # It would rather have another HTTP library than the one this project uses, and takes it where something brings it.
    warnings.simplefilter("ignore")
    patched.setitem(sys.modules, "httpx2", None)
    TestClient: Any = import_module("fastapi.testclient").TestClient

__all__ = ["InProcessClient", "TestClient"]

CLIENT = ("testclient", 50_000)
"""Who asks, as Starlette's own client has it."""


class InProcessClient(TestClient):  # type: ignore[misc]  # its types are those of the other library
    """Starlette's client, which starts and stops the application, with a cheaper way for its requests."""

    def __enter__(self) -> Self:
        super().__enter__()
        assert self.portal is not None
        self._transport = _Transport(self.app, self.portal.call(asyncio.get_running_loop))
        return self


class _Transport(httpx.BaseTransport):
    """Runs each request as one task of the application's event loop."""

    def __init__(self, app: ASGIApp, loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self._loop = loop

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        return asyncio.run_coroutine_threadsafe(self._answer(request), self._loop).result()

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        scope = {
            "type": "http",
            "http_version": "1.1",
            "method": request.method,
            "path": unquote(url.path),
            "raw_path": url.raw_path.split(b"?", 1)[0],
            "root_path": "",
            "scheme": url.scheme,
            "query_string": url.query,
            "headers": [(name.lower(), value) for name, value in request.headers.raw],
            "client": CLIENT,
            "server": (url.host, url.port or 80),
            "extensions": {},
            "state": {},
        }
        sent, ended = [request.read()], asyncio.Event()
        start: dict[str, Any] = {}
        parts: list[bytes] = []

        async def receive() -> Message:
            if sent:
                return {"type": "http.request", "body": sent.pop()}
            await ended.wait()
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                parts.append(message.get("body", b""))
                if not message.get("more_body"):
                    ended.set()

        await self._app(scope, receive, send)
        headers: Iterable[tuple[bytes, bytes]] = start["headers"]
        body = b"" if request.method == "HEAD" else b"".join(parts)
        return httpx.Response(
            start["status"],
            headers=list(headers),
            stream=httpx.ByteStream(body),
            request=request,
            extensions={"operation": getattr(scope.get("route"), "operation_id", None)},
        )
