"""Requests over HTTP: each with one deadline for all of it, and with an answer of limited size.

They run in one daemon thread of the process. Whoever asks waits no longer than its limit, whatever the other side does:
a name that does not resolve, a byte a second, or an answer without an end.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from concurrent.futures import Future
from functools import cache
from typing import Any

import httpx

from tidemark.models.base.text import format_number

MAX_BYTES = 1_000_000
"""Maximum size of an answer, unless the caller expects more."""


class UnusableAnswer(Exception):
    """Nothing answered that could be used; the text says why."""


def open_http(transport: httpx.AsyncBaseTransport | None = None) -> httpx.AsyncClient:
    """Return what keeps connections open, as many as streams are watched; ``transport`` replaces the network."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
    # The limit is for the whole of a request.
    return httpx.AsyncClient(timeout=None, limits=limits, transport=transport, verify=_tls())  # noqa: S113


def answer_to(
    http: httpx.AsyncClient, request: httpx.Request, limit_s: float, max_bytes: int = MAX_BYTES
) -> httpx.Response:
    """Send a request and return the answer, up to ``max_bytes`` long; redirects are not followed.

    ``limit_s`` seconds are from the look-up of the name to the end of the answer.

    Raises:
        UnusableAnswer: when there is none within that time, or one that is too large or compressed, which is not asked
            for: a few bytes can unpack to gigabytes.
    """
    request.headers["Accept-Encoding"] = "identity"
    sent = asyncio.run_coroutine_threadsafe(_answer(http, request, limit_s, max_bytes), _loop())
    try:
        # In a process that was forked the thread is not there.
        return sent.result(limit_s + 1.0)
    except TimeoutError:
        raise UnusableAnswer(f"no answer within {format_number(limit_s)} s") from None
    except (httpx.HTTPError, OSError) as error:
        raise UnusableAnswer(f"{type(error).__name__}: {error}") from None


def close(http: httpx.AsyncClient) -> None:
    """Close the connections."""
    asyncio.run_coroutine_threadsafe(http.aclose(), _loop())


async def _answer(
    http: httpx.AsyncClient, request: httpx.Request, limit_s: float, max_bytes: int
) -> httpx.Response:
    async with asyncio.timeout(limit_s):
        answer = await http.send(request, stream=True)
        try:
            encoding = answer.headers.get("Content-Encoding", "identity")
            if encoding != "identity":
                raise UnusableAnswer(f"its answer is compressed ({encoding[:40]!r}), which was not asked for")
            body = bytearray()
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > max_bytes:
                    raise UnusableAnswer(f"its answer is larger than {format_number(max_bytes / 1e6)} MB")
        finally:
            await answer.aclose()
        return httpx.Response(answer.status_code, headers=answer.headers, content=bytes(body))


class _Loop(asyncio.SelectorEventLoop):
    async def getaddrinfo(self, host: Any, port: Any, **how: int) -> Any:
        """Resolve a name in a daemon thread: those of the loop's own pool would hold up the end of the process."""
        addresses: Future[Any] = Future()
        addresses.set_running_or_notify_cancel()

        def resolve() -> None:
            try:
                addresses.set_result(socket.getaddrinfo(host, port, **how))
            except Exception as error:  # noqa: BLE001 - whoever waits raises it
                addresses.set_exception(error)

        threading.Thread(target=resolve, name="tidemark-resolve", daemon=True).start()
        return await asyncio.wrap_future(addresses)


@cache
def _tls() -> ssl.SSLContext:
    return httpx.create_ssl_context()


_first = threading.Lock()


def _loop() -> asyncio.AbstractEventLoop:
    # Two first requests at once must not make a loop each: connections are of one loop, and fail in another.
    with _first:
        return _one_loop()


@cache
def _one_loop() -> asyncio.AbstractEventLoop:
    loop = _Loop()
    threading.Thread(target=loop.run_forever, name="tidemark-http", daemon=True).start()
    return loop
