"""Requests of the controller to others: none lasts longer or grows larger than its limit."""

from __future__ import annotations

import gc
import gzip
import os
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

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


def _authority(folder: Path) -> tuple[Path, Path]:
    """Write an authority without ids of keys, as clusters have, and a certificate of it for loopback with its key."""
    now = datetime.now(UTC)
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    names = [x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]) for name in ("authority", "server")]
    loopback = x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))])
    made = [
        x509.CertificateBuilder(names[0], name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(loopback, critical=False)
        .add_extension(x509.BasicConstraints(ca=name == names[0], path_length=None), critical=True)
        .sign(keys[0], hashes.SHA256())
        .public_bytes(Encoding.PEM)
        for name, key in zip(names, keys, strict=True)
    ]
    authority, server = folder / "authority.pem", folder / "server.pem"
    authority.write_bytes(made[0])
    server.write_bytes(keys[1].private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()) + made[1])
    return authority, server


@pytest.fixture
def by_tls(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """Give the address of a server with TLS, and the certificate of its authority."""
    authority, server = _authority(tmp_path)

    class Handler(BaseHTTPRequestHandler):
        def setup(self) -> None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(server)
            with suppress(OSError):
                self.request = context.wrap_socket(self.request, server_side=True)
            super().setup()

        def handle(self) -> None:
            with suppress(OSError), self.request:
                super().handle()

        def do_GET(self) -> None:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello")

        def log_message(self, *_: object) -> None:
            pass

    with running_tcp_server(Handler) as url:
        yield url.replace("http:", "https:"), authority


def test_an_authority_of_ones_own_is_trusted_also_where_python_is_stricter_than_clusters_are(
    by_tls: tuple[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    url, authority = by_tls
    make = ssl.create_default_context

    def as_of_3_13(**arguments: Any) -> ssl.SSLContext:
        context = make(**arguments)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", as_of_3_13)
    assert fetch("GET", url, PATIENCE_S, ca_file=authority).content == b"hello"


def test_why_a_certificate_is_not_accepted_is_said_without_an_address(by_tls: tuple[str, Path]) -> None:
    url, authority = by_tls
    with pytest.raises(NoAnswer, match=r"its certificate: unable to get local issuer certificate"):
        fetch("GET", url, PATIENCE_S)
    with pytest.raises(NoAnswer, match=r"its certificate: Hostname mismatch\)$"):
        fetch("GET", url.replace("127.0.0.1", "localhost"), PATIENCE_S, ca_file=authority)
