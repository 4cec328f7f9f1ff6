"""A controller that answers what a test publishes, over real HTTP: it holds watches and records acknowledgements."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self, cast

from tidemark.models.protocol.messages import BoundAnswer, Envelope, Mode, Pin, to_json_object

from support.receipts import body_of, receipt_for

__all__ = ["BoundServer", "LoopbackServer"]


class LoopbackServer:
    """An HTTP server of this process; use it as a context.

    Args:
        handler: answers a request, and finds this object as ``server.said``.
    """

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True
        self._http.said = self  # type: ignore[attr-defined]  # how a handler finds its server
        self.url = f"http://127.0.0.1:{self._http.server_port}"
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._http.shutdown()
        self._http.server_close()


class BoundServer(LoopbackServer):
    """Use it as a context; ``publish`` sets what it answers from then on.

    Args:
        job: name of the job it answers for.
        stream: name of the stream.
        holds: whether it knows the preference ``wait``; else it answers at once.
    """

    def __init__(self, job: str, stream: str, *, holds: bool = True) -> None:
        self.job, self.stream, self.holds = job, stream, holds
        self._away = False
        self.acknowledgements: list[dict[str, Any]] = []
        self.asked = 0
        self.known: str | None = None
        """ETag of the answer that the last request had already."""
        self._changed = threading.Condition()
        self._answer = self._make("Off", None, 0, None)
        super().__init__(_Handler)

    def __exit__(self, *exception: object) -> None:
        with self._changed:
            self._away = True
            self._changed.notify_all()
        super().__exit__(*exception)

    def publish(
        self,
        bound_ms: int | None,
        *,
        mode: Mode = "Restart",
        pin: Pin | None = None,
        envelope: Envelope | None = None,
    ) -> int:
        """Answer with this bound from now on; return its generation."""
        with self._changed:
            answer = self._make(mode, bound_ms, self._answer.generation + 1, pin)
            self._answer = replace(answer, envelope=envelope)
            self._changed.notify_all()
            return self._answer.generation

    def leave(self) -> None:
        """Answer nothing any more, also not what is waited for now."""
        with self._changed:
            self._away = True
            self._changed.notify_all()

    def come_back(self) -> None:
        """Answer again."""
        self._away = False

    def is_away(self) -> bool:
        """Return whether it answers nothing now."""
        return self._away

    def generations(self) -> list[int | None]:
        """Return the generations that were acknowledged, in order."""
        return [body["generation"] for body in self.acknowledgements]

    def wait_for(self, etag: str | None, wait_s: float) -> BoundAnswer | None:
        """Return the answer that is not the one of ``etag``; None when there is none within the wait."""
        with self._changed:
            self.asked += 1
            self.known = etag
            self._changed.wait_for(lambda: self._away or etag != self.etag, wait_s if self.holds else 0)
            return None if etag == self.etag else self._answer

    @property
    def etag(self) -> str:
        return f'"{self._answer.generation}"'

    def _make(self, mode: Mode, bound_ms: int | None, generation: int, pin: Pin | None) -> BoundAnswer:
        return BoundAnswer(
            job=self.job,
            stream=self.stream,
            mode=mode,
            generation=generation,
            bound_ms=bound_ms,
            reason="a test says so",
            pin=pin,
        )


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    @property
    def said(self) -> BoundServer:
        return cast("BoundServer", self.server.said)  # type: ignore[attr-defined]

    def do_GET(self) -> None:
        prefer = self.headers.get("Prefer", "wait=0")
        answer = self.said.wait_for(self.headers.get("If-None-Match"), float(prefer.removeprefix("wait=")))
        if self.said.is_away():
            self._send(503, None)
        else:
            self._send(304 if answer is None else 200, answer)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        away = self.said.is_away()
        if not away and self.path.endswith("/acks"):
            self.said.acknowledgements.append(json.loads(body_of(body, self.headers.get("Content-Encoding"))))
        receipt = receipt_for(body, self.headers.get("Content-Encoding"))
        self._answer(503 if away else 201, b"" if away else json.dumps(receipt).encode())

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""

    def _send(self, status: int, answer: BoundAnswer | None) -> None:
        # Of the answer that is sent: another one may be published meanwhile, which the caller does not have then.
        etag = self.said.etag if answer is None else f'"{answer.generation}"'
        self._answer(status, b"" if answer is None else json.dumps(to_json_object(answer)).encode(), etag)

    def _answer(self, status: int, content: bytes, etag: str | None = None) -> None:
        self.send_response(status)
        if etag is not None:
            self.send_header("ETag", etag)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
