"""A receiver of webhooks over real HTTP, which keeps what it was sent and gives the answers that a test chose."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.patience import PATIENCE_S, until

__all__ = ["Webhook", "running_webhook"]


@dataclass
class Webhook:
    """What was received."""

    url: str
    """Its address."""
    messages: list[dict[str, Any]] = field(default_factory=list)
    """Bodies of the requests that were answered with 200, in order."""
    headers: list[dict[str, str]] = field(default_factory=list)
    """Headers of all requests, in order."""
    answers: list[int] = field(default_factory=list)
    """What the next requests are answered with; 200 when it is empty."""
    said: str = ""
    """The body of every answer."""

    def alerts(self) -> list[tuple[str, str, dict[str, str]]]:
        """Return (status, name, labels) of every alert in every message."""
        return [
            (alert["status"], alert["labels"]["alertname"], alert["labels"])
            for message in list(self.messages)
            for alert in message["alerts"]
        ]

    def wait_for(self, seen: Callable[[], bool], what: str) -> None:
        """Wait until something was received."""
        until(seen, what, seen=self.alerts, pause_s=0.2, patience_s=2 * PATIENCE_S)


@contextmanager
def running_webhook(port: int = 0) -> Iterator[Webhook]:
    """Serve a receiver on a port of loopback, by default a free one."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            webhook.headers.append({name.lower(): value for name, value in self.headers.items()})
            status = webhook.answers.pop(0) if webhook.answers else 200
            if status == 200:
                webhook.messages.append(body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(webhook.said.encode())))
            self.end_headers()
            self.wfile.write(webhook.said.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    webhook = Webhook(f"http://127.0.0.1:{server.server_address[1]}/hook")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield webhook
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
