"""A controller that loses reports."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Losing"]


@dataclass
class Losing:
    """An application that passes on what the controller is asked, without some of the reports."""

    app: ASGIApp
    """The controller."""
    lost: set[int] = field(default_factory=set)
    """Which of the reports it rejects, in the order in which they come."""
    away: bool = False
    """Whether it takes no report now, so that all wait in their driver."""
    answers: bool = True
    """Whether it says which are missing."""
    _numbers: Iterator[int] = field(default_factory=count)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope["path"]
        if path.endswith("/reports") and self.away:
            await self._refuse(send, 503)
        elif path.endswith("/reports") and next(self._numbers) in self.lost:
            await self._refuse(send, 422)
        elif path.endswith("/missing") and not self.answers:
            await self._refuse(send, 503)
        else:
            await self.app(scope, receive, send)

    @staticmethod
    async def _refuse(send: Send, status: int) -> None:
        headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b"{}"})
