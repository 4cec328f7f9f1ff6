"""Closes connections whose request does not come: each holds a socket, and the server would wait for ever.

The server itself limits only how long a connection may be idle after an answer. Bodies have limits of their own
(``server.http.request_body``).
"""

from __future__ import annotations

import asyncio

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

TIMEOUT_SECONDS = 10.0
"""How long the head of a request may take to arrive, from the connection or from its first byte."""

MAX_HEAD_BYTES = 64 * 1024
"""How large the head of a request may be: its line and its headers."""

MAX_HEADERS = 100
"""How many headers a request may have."""


class TimedProtocol(HttpToolsProtocol):
    """A connection that is closed when the head of a request is too large, or does not arrive in time."""

    timeout_seconds = TIMEOUT_SECONDS
    _deadline: asyncio.TimerHandle | None = None
    _in_head = True
    _head_bytes = 0
    """What came of the head so far, but for what came with the end of the request before."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the server's own
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read more; once a head is complete, nothing is waited for."""
        self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES:
            self.send_400_response(f"The head of a request has at most {MAX_HEAD_BYTES:,} bytes.")
        self._watch()

    def on_message_begin(self) -> None:
        """Begin to read a head."""
        super().on_message_begin()
        if not self._in_head:
            self._in_head, self._head_bytes = True, 0

    def on_headers_complete(self) -> None:
        """Handle a request whose head is not too large."""
        self._in_head = False
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > MAX_HEAD_BYTES or len(self.headers) > MAX_HEADERS:
            raise httptools.HttpParserError(f"{len(self.headers)} headers, {size} bytes")
        super().on_headers_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop()
        super().connection_lost(exc)

    def _watch(self) -> None:
        # None before the first request, which the server's types do not say.
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and not cycle.response_complete:
            self._stop()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.timeout_seconds, self.transport.close)

    def _stop(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
