"""A controller for tests behind a real socket, in a thread of this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

__all__ = ["served"]

START_SECONDS = 30


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Serve ``app``, whose life is somebody else's business, and give its address; it stops with the context."""
    config = uvicorn.Config(app, port=0, log_level="error", lifespan="off", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="served", daemon=True)
    thread.start()
    deadline = time.monotonic() + START_SECONDS
    while not server.started:
        assert time.monotonic() < deadline, "the server did not start"
        time.sleep(0.01)
    host, port = server.servers[0].sockets[0].getsockname()[:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join(START_SECONDS)
