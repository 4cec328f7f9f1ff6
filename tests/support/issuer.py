"""An issuer of JSON Web Tokens on loopback, with real keys: discovery, keys, and the device flow; it can be away."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

__all__ = ["AUDIENCE", "Issuer", "running_issuer", "write_issuers"]

AUDIENCE = "tidemark"
"""For whom its tokens are, unless a test says otherwise."""

KEYS_PATH, DISCOVERY_PATH = "/keys", "/.well-known/openid-configuration"

_RSA = [rsa.generate_private_key(65_537, 2_048) for _ in range(2)]


@dataclass
class Issuer:
    """What it signs with, what it was asked, and what it answers."""

    url: str
    keys: dict[str, Any]
    """Private keys by their ids; the last one signs."""
    asked: Counter[str] = field(default_factory=Counter)
    """Requests by path."""
    sent: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    """Headers of the requests."""
    away: bool = False
    """Whether it answers 503 alone."""
    answers: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """By path, what the next posts are answered with, the last one for ever; an error has the status 400."""
    forms: list[dict[str, str]] = field(default_factory=list)
    """What was posted."""
    document: dict[str, Any] = field(default_factory=dict)
    """What discovery says besides."""

    def rotate(self) -> None:
        """Sign with another key from now on, and withdraw the one before."""
        ((name, key),) = self.keys.items()
        self.keys = {f"{name}-next": _RSA[(_RSA.index(key) + 1) % len(_RSA)]}

    def use_elliptic(self) -> None:
        """Sign with a key of another kind, beside the others."""
        self.keys["elliptic"] = ec.generate_private_key(ec.SECP256R1())

    def token(self, sub: str = "kim", *, header: dict[str, Any] | None = None, **claims: Any) -> str:
        """Return a token that is valid for an hour; claims that are None are left out, and ages are in seconds."""
        now = time.time()
        every = {"iss": self.url, "aud": AUDIENCE, "sub": sub, "iat": now, "exp": now + 3_600, **claims}
        name, key = list(self.keys.items())[-1]
        algorithm = "ES256" if name == "elliptic" else "RS256"
        heads = {"kid": name, **(header or {})}
        return jwt.encode(_without_none(every), key, algorithm, headers=_without_none(heads))

    def public(self) -> dict[str, Any]:
        """Return its JWK Set."""
        found = []
        for name, key in self.keys.items():
            kind = ECAlgorithm if name == "elliptic" else RSAAlgorithm
            found.append({**json.loads(kind.to_jwk(key.public_key())), "kid": name, "use": "sig"})
        return {"keys": found}

    def _answer(self, path: str) -> tuple[int, dict[str, Any]]:
        self.asked[path] += 1
        if self.away:
            return 503, {}
        if path == DISCOVERY_PATH:
            said = {
                "issuer": self.url,
                "jwks_uri": self.url + KEYS_PATH,
                "device_authorization_endpoint": self.url + "/device",
                "token_endpoint": self.url + "/token",
                "authorization_endpoint": self.url + "/authorize",
            }
            return 200, {**said, **self.document}
        if path == KEYS_PATH:
            return 200, self.public()
        if path in self.answers:
            waiting = self.answers[path]
            answer = waiting.pop(0) if len(waiting) > 1 else waiting[0]
            return (400 if "error" in answer else 200), answer
        return 404, {}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


@contextmanager
def running_issuer(key: int = 0) -> Iterator[Issuer]:
    """Serve an issuer on a free port of loopback, which signs by one of two keys at first."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            issuer.sent.append((self.path, dict(self.headers.items())))
            self._send(*issuer._answer(self.path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            issuer.forms.append(dict(parse_qsl(body)))
            self._send(*issuer._answer(self.path))

        def _send(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = Issuer(f"http://127.0.0.1:{server.server_address[1]}", {"one": _RSA[key]})
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write_issuers(folder: Path, **tables: dict[str, str]) -> Path:
    """Write a file of issuers, each a table by its name, and return it."""
    file = folder / "issuers.toml"
    lines: list[str] = []
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    file.write_text("\n".join(lines), encoding="utf-8")
    return file
