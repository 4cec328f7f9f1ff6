"""Requests over HTTP: each with one deadline for all of it, and with an answer of limited size.

They run in one daemon thread of the process. Whoever asks waits no longer than its limit, whatever the other side does:
a name that does not resolve, a byte a second, or an answer without an end.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from functools import cache
from typing import Any

import httpx

from tidemark.models.base.text import format_number

MAX_BYTES = 1_000_000
"""Maximum size of an answer, unless the caller expects more."""

_GRACE_S = 1.0
"""How much longer than its limit a request is waited for: in a process that was forked its thread is not there."""


class NoAnswer(Exception):
    """Nothing answered that could be used; the text says why."""


class Http:
    """Sends requests, over connections that stay open.

    Args:
        transport: replaces the network, for tests.
        tls: whom to trust; by default as the environment says.
    """

    def __init__(
        self, transport: httpx.AsyncBaseTransport | None = None, tls: ssl.SSLContext | None = None
    ) -> None:
        # As many connections as streams are watched.
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        self._http = httpx.AsyncClient(timeout=None, limits=limits, transport=transport, verify=tls or _tls())  # noqa: S113 - each request has a limit

    def request(
        self,
        method: str,
        url: str,
        limit_s: float,
        *,
        headers: Mapping[str, str],
        content: bytes | None = None,
        max_bytes: int = MAX_BYTES,
    ) -> httpx.Response:
        """Return the answer to a request; redirects are not followed.

        Args:
            method: the HTTP method.
            url: where to.
            limit_s: how long it may take from the look-up of the name to the end of the answer, in seconds.
            headers: what is sent with it.
            content: the body; None for none.
            max_bytes: maximum size of the answer.

        Raises:
            NoAnswer: when there is none within that time, or one that is too large or compressed, which is not asked
                for: a few bytes can unpack to gigabytes.
        """
        headers = {**headers, "Accept-Encoding": "identity"}
        request = self._http.build_request(method, url, headers=headers, content=content)
        sent = asyncio.run_coroutine_threadsafe(self._answer(request, limit_s, max_bytes), _loop())
        try:
            return sent.result(limit_s + _GRACE_S)
        except TimeoutError:
            raise NoAnswer(f"no answer within {format_number(limit_s)} s") from None
        except (httpx.HTTPError, OSError) as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from None

    def close(self) -> None:
        """Close the connections."""
        asyncio.run_coroutine_threadsafe(self._http.aclose(), _loop())

    async def _answer(self, request: httpx.Request, limit_s: float, max_bytes: int) -> httpx.Response:
        async with asyncio.timeout(limit_s):
            answer = await self._http.send(request, stream=True)
            try:
                encoding = answer.headers.get("Content-Encoding", "identity")
                if encoding != "identity":
                    raise NoAnswer(f"its answer is compressed ({encoding[:40]!r}), which was not asked for")
                body = bytearray()
                async for part in answer.aiter_bytes():
                    body += part
                    if len(body) > max_bytes:
                        raise NoAnswer(f"its answer is larger than {format_number(max_bytes / 1e6)} MB")
            finally:
                await answer.aclose()
            return httpx.Response(answer.status_code, headers=answer.headers, content=bytes(body))


class _Loop(asyncio.SelectorEventLoop):
    async def getaddrinfo(self, host: Any, port: Any, **how: int) -> Any:  # type: ignore[override]
        """Resolve a name in a daemon thread: those of the loop's own pool would hold up the end of the process."""
        found: Future[Any] = Future()
        found.set_running_or_notify_cancel()

        def resolve() -> None:
            try:
                found.set_result(socket.getaddrinfo(host, port, **how))
            except Exception as error:  # noqa: BLE001 - whoever waits raises it
                found.set_exception(error)

        threading.Thread(target=resolve, name="tidemark-resolve", daemon=True).start()
        return await asyncio.wrap_future(found)


@cache
def _tls() -> ssl.SSLContext:
    # A megabyte each.
    return httpx.create_ssl_context()


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = _Loop()
    threading.Thread(target=loop.run_forever, name="tidemark-http", daemon=True).start()
    return loop
