"""One address for several servers, as a service of Kubernetes has: it leads each new connection to a ready one."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from socketserver import BaseRequestHandler

import httpx

from support.patience import PATIENCE_S
from support.tcp_server import running_tcp_server

__all__ = ["balanced"]


@contextmanager
def balanced(urls: Sequence[str] | Callable[[], str | None]) -> Iterator[str]:
    """Serve an address for servers. It stops with the context.

    Args:
        urls: the servers, which are asked for ``/readyz``, and which may grow; or what chooses one of them.
    """
    choose = urls if callable(urls) else lambda: next(filter(_is_ready, list(urls)), None)

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            url = choose()
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

    with running_tcp_server(Handler) as address:
        yield address


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=PATIENCE_S).is_success
    except httpx.TransportError:
        return False
