"""A server of connections on a free port of loopback, for what tests put between two programs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import BaseRequestHandler, ThreadingTCPServer

__all__ = ["running_tcp_server"]


class _Server(ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False


@contextmanager
def running_tcp_server(handler: type[BaseRequestHandler]) -> Iterator[str]:
    """Serve each connection by a handler in a thread of its own; yield the address. It stops with the context."""
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
