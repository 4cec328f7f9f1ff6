"""A controller for tests behind a real socket, in a thread of this process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from starlette.types import ASGIApp

from tidemark.controller.base.slow_requests import TimedProtocol

from support.patience import until

__all__ = ["served"]


@contextmanager
def served(app: ASGIApp, port: int = 0) -> Iterator[str]:
    """Serve ``app``, whose life is somebody else's business, and give its address; it stops with the context."""
    config = uvicorn.Config(
        app, http=TimedProtocol, port=port, log_level="error", lifespan="off", timeout_graceful_shutdown=5
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="served", daemon=True)
    thread.start()
    until(lambda: server.started or not thread.is_alive(), "the start of the server", pause_s=0.005)
    assert server.started, "the server did not start"
    host, found = server.servers[0].sockets[0].getsockname()[:2]
    try:
        yield f"http://{host}:{found}"
    finally:
        server.should_exit = True
        thread.join()
