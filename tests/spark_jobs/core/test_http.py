"""Requests of a driver: whatever answers, none lasts longer or grows larger than its limit, and no report is lost."""

from __future__ import annotations

import gzip
import itertools
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest
from spark_jobs.core.test_sender import REPORT

from tidemark.spark_jobs.core.client import ControllerClient, ControllerUnavailable
from tidemark.spark_jobs.core.http import MAX_BYTES, UnusableAnswer, answer_to, open_http
from tidemark.spark_jobs.core.sender import Sender

from support.patience import PATIENCE_S
from support.receipts import body_of, receipt_for
from support.tcp_server import running_tcp_server

Answer = Callable[[bytes], Iterator[bytes]]
"""Returns the bytes of the answer to a body."""


def whole(status: str, *headers: str, body: bytes = b"") -> bytes:
    return (
        "\r\n".join([f"HTTP/1.1 {status}", *headers, f"Content-Length: {len(body)}", "", ""]).encode() + body
    )


def as_json(status: str, document: Any) -> bytes:
    return whole(status, "Content-Type: application/json", body=json.dumps(document).encode())


def always(answer: bytes) -> Answer:
    return lambda _: iter([answer])


def drop_by_drop(beginning: bytes) -> Answer:
    """Never end, and never be silent for as long as the limit of a request."""

    def answer(_: bytes) -> Iterator[bytes]:
        yield beginning
        while not threading.Event().wait(0.01):
            yield b" "

    return answer


def without_end(_: bytes) -> Iterator[bytes]:
    yield b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n"
    yield from itertools.repeat(b"10000\r\n" + b" " * 65_536 + b"\r\n")


BOMB = gzip.compress(gzip.compress(bytes(50 * MAX_BYTES)))
RECEIPT_OF_ANOTHER = {**receipt_for(b"{}", None), "title": "t", "detail": "d"}
ODD: dict[str, Answer] = {
    "a byte at a time": drop_by_drop(b"HTTP/1.1 201 Created\r\nContent-Length: 100000\r\n\r\n"),
    "a head a byte at a time": drop_by_drop(b"HTTP/1.1 201 Created\r\nX-Slow: "),
    "without an end": without_end,
    "packed": always(whole("201 Created", "Content-Encoding: gzip", body=gzip.compress(bytes(MAX_BYTES)))),
    "packed twice": always(whole("201 Created", "Content-Encoding: gzip, gzip", body=BOMB)),
    "no answer": always(b""),
    "no HTTP": always(b"\x00\xff" * 100),
    "a long head": always(b"HTTP/1.1 201 Created\r\nX-Long: " + b"a" * 200_000),
    "redirect": always(whole("302 Found", "Location: http://127.0.0.1:1/")),
    "nothing new": always(whole("304 Not Modified")),
    "empty": always(whole("204 No Content")),
    "a page": always(whole("200 OK", "Content-Type: text/html", body=b"<html>Log in</html>")),
    "another service": always(as_json("200 OK", {"status": "ok"})),
    "a list": always(as_json("201 Created", [1, 2])),
    "nested": always(whole("200 OK", "Content-Type: application/json", body=b"[" * 100_000)),
    "another report's receipt": always(as_json("201 Created", RECEIPT_OF_ANOTHER)),
    "another report's refusal": always(as_json("422 Unprocessable Entity", RECEIPT_OF_ANOTHER)),
    **{
        f"a proxy's {status}": always(whole(f"{status} No", body=b"<html>No</html>"))
        for status in (
            400,
            401,
            403,
            404,
            405,
            407,
            413,
            414,
            415,
            422,
            429,
            431,
            451,
            500,
            501,
            502,
            504,
            507,
        )
    },
}


@contextmanager
def answering(answer: Answer, odd: int) -> Iterator[tuple[str, list[int]]]:
    """Answer so many requests like this, and later ones as a controller; yield the address and the batches taken."""
    left, taken = iter(range(odd)), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            encoding = self.headers.get("Content-Encoding")
            self.close_connection = True
            if next(left, None) is None:
                taken.append(json.loads(body_of(body, encoding))["batch_id"])
                self.wfile.write(as_json("201 Created", receipt_for(body, encoding)))
                return
            try:
                for part in answer(body):
                    self.wfile.write(part)
                    self.wfile.flush()
            except OSError:
                pass  # whoever asked has left

        def log_message(self, *_: object) -> None:
            pass

    with running_tcp_server(Handler) as url:
        yield url, taken


@pytest.mark.parametrize("kind", ODD)
def test_no_odd_answer_is_a_delivery_a_refusal_or_the_end(kind: str) -> None:
    with answering(ODD[kind], odd=3) as (url, taken):
        client = ControllerClient(url, timeout_s=0.2)
        with pytest.raises(ControllerUnavailable):
            client.report(REPORT)
        sender = Sender(client, longest_wait_s=0.01)
        for number in range(5):
            sender.report(replace(REPORT, batch_id=number))
        assert sender.flush(PATIENCE_S)
        assert (sorted({*taken}), sender.dropped) == ([*range(5)], 0)
        sender.close()


def test_an_answer_is_refused_by_its_size_before_all_of_it_is_read() -> None:
    with answering(without_end, odd=1) as (url, _), pytest.raises(UnusableAnswer, match="larger than 1 MB"):
        answer_to(http := open_http(), http.build_request("POST", url, content=b"{}"), PATIENCE_S)


def test_a_name_that_does_not_resolve_holds_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    released = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: released.wait())
    with pytest.raises(UnusableAnswer, match=r"no answer within 0\.05 s"):
        answer_to(http := open_http(), http.build_request("GET", "http://tidemark.invalid"), 0.05)
    (resolving,) = [each for each in threading.enumerate() if each.name == "tidemark-resolve"]
    assert resolving.daemon, "it would hold up the end of the driver"
    released.set()
    resolving.join()


TWO_FIRST_REQUESTS = """
import asyncio, threading
from contextlib import suppress
from tidemark.spark_jobs.core.http import UnusableAnswer, answer_to, open_http

both, begin = threading.Barrier(2), asyncio.SelectorEventLoop.__init__

def begin_together(loop):
    begin(loop)
    with suppress(threading.BrokenBarrierError):
        both.wait(1)  # the other one comes where nothing keeps it out

def ask():
    with suppress(UnusableAnswer):
        http = open_http()
        answer_to(http, http.build_request("GET", "http://127.0.0.1:9"), 5)

asyncio.SelectorEventLoop.__init__ = begin_together
asking = [threading.Thread(target=ask) for _ in range(2)]
for each in asking:
    each.start()
for each in asking:
    each.join()
print([each.name for each in threading.enumerate()].count("tidemark-http"))
"""


@pytest.mark.slow
def test_two_first_requests_at_once_run_in_one_thread() -> None:
    """A connection that one thread's loop opened fails in another's, and the report that it was for was dropped."""
    command = [sys.executable, "-c", TWO_FIRST_REQUESTS]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "1\n"
