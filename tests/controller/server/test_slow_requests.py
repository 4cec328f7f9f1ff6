"""A request that does not come in time is ended: it would hold a socket, and the server would wait for ever."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from urllib.parse import urlsplit

import httpx
import pytest

from tidemark.controller.base import slow_requests
from tidemark.controller.base.slow_requests import TimedProtocol
from tidemark.controller.server.http import request_body

from support.controller_app import STREAM, Controller
from support.patience import PATIENCE_S
from support.served import served


@pytest.fixture
def connection(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """An open connection to a controller that waits no longer than an instant."""
    monkeypatch.setattr(TimedProtocol, "timeout_seconds", 0.05)
    monkeypatch.setattr(request_body, "TIMEOUT_SECONDS", 0.05)
    with served(controller.app) as url:
        address = urlsplit(url)
        with closing(socket.create_connection((address.hostname, address.port or 0), PATIENCE_S)) as opened:
            yield opened


def everything(connection: socket.socket) -> bytes:
    """Return what comes until the server closes the connection."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


@pytest.mark.parametrize("sent", [b"", b"GET /livez HTTP/1.1\r\nHost: t\r\nX-Slow: "])
def test_a_connection_without_a_whole_request_is_closed(connection: socket.socket, sent: bytes) -> None:
    connection.sendall(sent)
    assert everything(connection) == b""


def test_a_second_request_that_stays_half_is_closed_after_the_first_is_answered(
    connection: socket.socket,
) -> None:
    connection.sendall(b"GET /livez HTTP/1.1\r\nHost: t\r\n\r\n")
    assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
    connection.sendall(b"GET /livez HTTP/1.1\r\n")
    assert b"HTTP/1.1" not in everything(connection)


def test_a_body_that_does_not_arrive_gets_408_and_nothing_is_stored(
    connection: socket.socket, controller: Controller
) -> None:
    head = f"POST {STREAM}/reports HTTP/1.1\r\nHost: t\r\nContent-Type: application/json\r\nContent-Length: 99\r\n"
    connection.sendall(f"{head}Connection: close\r\n\r\n{{".encode())
    answer = everything(connection)
    assert answer.startswith(b"HTTP/1.1 408")
    assert b"urn:tidemark:problem:request-too-slow" in answer
    assert controller.get().status_code == 404


@pytest.mark.parametrize("begin", ["GET /livez HTTP/1.1\r\nX-Long: ", "GET /", "GET /livez HTTP/1.1\r\n"])
def test_a_head_without_an_end_is_refused_before_much_of_it_is_read(
    controller: Controller, begin: str
) -> None:
    """One header, one path, and any number of headers."""
    part = ("X-More: 1\r\n" if begin.endswith("\n") else "a" * 11) * 6_000
    with served(controller.app) as url:
        address = urlsplit(url)
        with closing(socket.create_connection((address.hostname, address.port or 0), PATIENCE_S)) as opened:
            opened.sendall(begin.encode())
            with pytest.raises(OSError, match=r"reset|pipe"):
                opened.sendall(part.encode() * 500)


def test_a_request_has_so_many_headers_and_no_more(connection: socket.socket) -> None:
    headers = "".join(f"X-{number}: 1\r\n" for number in range(slow_requests.MAX_HEADERS + 1))
    connection.sendall(f"GET /livez HTTP/1.1\r\n{headers}\r\n".encode())
    assert everything(connection).startswith(b"HTTP/1.1 400")


def test_a_large_body_after_a_small_head_is_no_large_head(controller: Controller) -> None:
    body = b" " * 1_000_000 + b"{}"
    with served(controller.app) as url:
        for _ in range(2):
            answer = httpx.post(
                url + STREAM + "/reports", content=body, headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 422
