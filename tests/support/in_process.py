"""An HTTP client for an application in this process: a request is one hop to its event loop, not seven."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterable
from typing import Any, Self
from urllib.parse import unquote

from starlette.types import ASGIApp, Message

with warnings.catch_warnings():
    # It would rather have another HTTP library than the one this project uses.
    warnings.simplefilter("ignore")
    from fastapi.testclient import TestClient
    from starlette import testclient

_httpx: Any = testclient.__dict__["httpx"]
"""The HTTP library of Starlette's client: httpx2 where it is installed, else httpx."""
__all__ = ["InProcessClient", "TestClient"]

CLIENT = ("testclient", 50_000)
"""Who asks, as Starlette's own client has it."""


class InProcessClient(TestClient):
    """Starlette's client, which starts and stops the application, with a cheaper way for its requests."""

    def __enter__(self) -> Self:
        super().__enter__()
        assert self.portal is not None
        self._transport = _Transport(self.app, self.portal.call(asyncio.get_running_loop))
        return self


class _Transport:
    """Runs each request as one task of the application's event loop."""

    def __init__(self, app: ASGIApp, loop: asyncio.AbstractEventLoop) -> None:
        self._app = app
        self._loop = loop

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """End; it holds nothing."""

    def close(self) -> None:
        """Close; it holds nothing."""

    def handle_request(self, request: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(self._answer(request), self._loop).result()

    async def _answer(self, request: Any) -> Any:
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
        return _httpx.Response(
            start["status"],
            headers=list(headers),
            stream=_httpx.ByteStream(body),
            request=request,
            extensions={"operation": getattr(scope.get("route"), "operation_id", None)},
        )
