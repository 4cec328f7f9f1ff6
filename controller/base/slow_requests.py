"""Closes connections whose request does not come: each holds a socket, and the server would wait for ever.

The server itself limits only how long a connection may be idle after an answer. Bodies have a limit of their own
(``server.http.request_body``).
"""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

TIMEOUT_SECONDS = 30.0
"""How long the head of a request may take to arrive, from the connection or from its first byte."""


class TimedProtocol(HttpToolsProtocol):
    """A connection that is closed when the head of a request does not arrive in time."""

    timeout_seconds = TIMEOUT_SECONDS
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as the server's own
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Read more; once a head is complete, nothing is waited for."""
        super().data_received(data)
        self._watch()

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
