"""A controller that loses reports."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from support.receipts import body_of, receipt_for

__all__ = ["Losing"]


@dataclass
class Losing:
    """An application that passes on what the controller is asked, without some of the reports."""

    app: ASGIApp
    """The controller."""
    lost: set[int] = field(default_factory=set)
    """Of which batches it rejects the first report; what is read again it takes."""
    away: bool = False
    """Whether it takes no report now, so that all wait in their driver."""
    answers: bool = True
    """Whether it says which are missing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        path = scope["path"]
        if (path.endswith("/reports") and self.away) or (path.endswith("/missing") and not self.answers):
            await self._refuse(send, 503)
        elif path.endswith("/reports"):
            body = await self._body(receive)
            encoding = dict(scope["headers"]).get(b"content-encoding", b"").decode()
            report = json.loads(body_of(body, encoding))
            if report["batch_id"] in self.lost and not report["reread"]:
                await self._refuse(send, 422, json.dumps(receipt_for(body, encoding)).encode())
                return

            async def again() -> Message:
                return {"type": "http.request", "body": body, "more_body": False}

            await self.app(scope, again, send)
        else:
            await self.app(scope, receive, send)

    @staticmethod
    async def _body(receive: Receive) -> bytes:
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        return body

    @staticmethod
    async def _refuse(send: Send, status: int, body: bytes = b"{}") -> None:
        length = str(len(body)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", length)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})
