"""One address for several servers, as a service of Kubernetes has: it leads each new connection to a ready one."""

from __future__ import annotations

import select
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler, ThreadingTCPServer

import httpx

from support.patience import PATIENCE_S

__all__ = ["balanced"]


@contextmanager
def balanced(urls: Sequence[str]) -> Iterator[str]:
    """Serve an address for servers, which are asked for ``/readyz``; ``urls`` may grow. It stops with the context."""

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            url = next(filter(_is_ready, list(urls)), None)
            if url is None:
                return  # nobody listens
            parsed = httpx.URL(url)
            with suppress(OSError), socket.create_connection((parsed.host, parsed.port or 80)) as server:
                other = {self.request: server, server: self.request}
                while True:
                    for side in select.select([*other], [], [])[0]:
                        content = side.recv(65_536)
                        if not content:
                            return
                        other[side].sendall(content)

    class Server(ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=PATIENCE_S).is_success
    except httpx.TransportError:
        return False
