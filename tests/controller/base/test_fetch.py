"""Requests of the controller to others: none lasts longer or grows larger than its limit."""

from __future__ import annotations

import gc
import gzip
import os
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from tidemark.controller.base import fetch as fetching
from tidemark.controller.base.fetch import NoAnswer, TokenFileError, bearer, fetch

from support.patience import PATIENCE_S
from support.tcp_server import running_tcp_server


def test_a_compressed_answer_is_not_unpacked_and_none_is_asked_for() -> None:
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.headers["Accept-Encoding"])
            body = gzip.compress(gzip.compress(bytes(10_000_000)))
            head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip, gzip\r\nConnection: close\r\n\r\n"
            self.wfile.write(head.encode() + body)

        def log_message(self, *_: object) -> None:
            pass

    with running_tcp_server(Handler) as url, pytest.raises(NoAnswer, match="compressed"):
        fetch("GET", url, PATIENCE_S)
    assert asked == ["identity"]


def test_a_name_that_does_not_resolve_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait())
    try:
        with pytest.raises(NoAnswer, match=r"no answer within 0\.05 s"):
            fetch("GET", "http://gate.invalid", 0.05)
    finally:
        released.set()


def test_an_answer_without_end_is_left_and_nothing_of_it_stays(caplog: pytest.LogCaptureFixture) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            with suppress(OSError):
                while True:
                    self.wfile.write(bytes(1_000_000))

        def log_message(self, *_: object) -> None:
            pass

    with running_tcp_server(Handler) as url, pytest.raises(NoAnswer, match="larger than 1 MB"):
        fetch("GET", url, PATIENCE_S)
    gc.collect()
    assert caplog.messages == []


def test_a_token_file_that_gives_nothing_holds_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pipe that nobody writes to stands for a file on a server that is gone."""
    os.mkfifo(tmp_path / "token")
    monkeypatch.setattr(fetching, "_FILE_SECONDS", 0.05)
    with pytest.raises(TokenFileError, match=r"token cannot be read within 0\.05 s"):
        bearer(tmp_path / "token")
    # The thread that waits for it ends.
    (tmp_path / "token").write_text("x", encoding="ascii")
