"""A network between two programs that fails as asked: a proxy on loopback."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import cycle
from socketserver import BaseRequestHandler
from typing import Literal

from support.tcp_server import running_tcp_server

__all__ = ["BadNetwork", "bad_network"]

State = Literal["good", "slow", "cut", "without answers"]
_BYTES, _SLOW_S = 512, 0.02
"""What a slow network carries at a time, and how long that takes."""


class BadNetwork:
    """Its state, which a test sets, and what it did."""

    def __init__(self) -> None:
        self.state: State = "good"
        self.broken = 0
        """Connections that were cut, with or without their request delivered."""
        self._expected = 0
        self.lives = 0
        """How often what is behind it was replaced without a word: older connections stay open and never answer."""

    def expect(self, breaks: int) -> None:
        """Let ``has_broken`` be true once so many more connections were cut."""
        self._expected = self.broken + breaks

    def has_broken(self) -> bool:
        """Whether as many were cut as were expected."""
        return self.broken >= self._expected

    def carry(self, source: socket.socket, target: socket.socket, life: int, *, answers: bool) -> None:
        """Carry what comes in one direction, until a side ends or the network is cut."""
        with suppress(OSError):
            while content := source.recv(65_536 if self.state != "slow" else _BYTES):
                if life != self.lives:
                    continue
                if self.state == "slow":
                    time.sleep(_SLOW_S)
                if self.state == "cut" or (answers and self.state == "without answers"):
                    self.broken += 1
                    break
                target.sendall(content)
        for side in (source, target):
            with suppress(OSError):
                side.shutdown(socket.SHUT_RDWR)


@contextmanager
def bad_network(*ports: int) -> Iterator[tuple[str, BadNetwork]]:
    """Serve an address whose connections lead to ``ports`` of loopback in turn; it stops with the context."""
    network = BadNetwork()
    turns = cycle(ports)

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            if network.state == "cut":
                network.broken += 1
                return
            life = network.lives
            with suppress(OSError), socket.create_connection(("127.0.0.1", next(turns))) as server:
                back = threading.Thread(
                    target=network.carry,
                    args=(server, self.request, life),
                    kwargs={"answers": True},
                    daemon=True,
                )
                back.start()
                network.carry(self.request, server, life, answers=False)
                back.join()

    with running_tcp_server(Handler) as address:
        yield address, network
