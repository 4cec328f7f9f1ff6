"""An issuer of JSON Web Tokens on loopback, with real keys, which can be away.

It has discovery, keys, the device flow, and the authorization code flow with PKCE, where it asks nobody anything.
"""

from __future__ import annotations

import base64
import hashlib
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
from urllib.parse import parse_qsl, urlencode

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
    groups: list[str] = field(default_factory=list)
    """Groups of the person who signs in by a code."""
    refusal: dict[str, str] | None = None
    """What it sends a person back with in place of a code."""
    codes: dict[str, dict[str, str]] = field(default_factory=dict)
    """What was asked for, by the code that it was answered with; each code is worth one exchange."""

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

    def sent_back(self, query: str) -> str:
        """Return where a person is sent who came to sign in."""
        asked = dict(parse_qsl(query))
        code = f"code-{len(self.codes)}"
        self.codes[code] = asked
        answer = self.refusal or {"code": code, "iss": self.url}
        return f"{asked['redirect_uri']}?{urlencode({**answer, 'state': asked['state']})}"

    def _exchange(self, form: dict[str, str]) -> dict[str, Any]:
        asked = self.codes.pop(form["code"], {})
        digest = hashlib.sha256(form["code_verifier"].encode()).digest()
        challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
        same = all(asked.get(name) == form[name] for name in ("client_id", "redirect_uri"))
        if not same or (asked["code_challenge_method"], asked["code_challenge"]) != ("S256", challenge):
            return {"error": "invalid_grant"}
        return {
            "access_token": self.token(groups=self.groups),
            "id_token": self.token(aud=asked["client_id"], nonce=asked["nonce"]),
            "token_type": "Bearer",
            "expires_in": 300,
            "refresh_token": "renews-it",
        }

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
                "revocation_endpoint": self.url + "/revoke",
                "end_session_endpoint": self.url + "/end",
            }
            return 200, {**said, **self.document}
        if path == KEYS_PATH:
            return 200, self.public()
        if path == "/revoke":
            return 200, {}
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
            path, _, query = self.path.partition("?")
            if path == "/authorize":
                self.send_response(302)
                self.send_header("Location", issuer.sent_back(query))
                self.end_headers()
            else:
                self._send(*issuer._answer(path))

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            form = dict(parse_qsl(body))
            issuer.forms.append(form)
            if "code_verifier" in form:
                issuer.answers["/token"] = [issuer._exchange(form)]
            self._send(*issuer._answer(self.path))

        def _send(self, status: int, document: dict[str, Any]) -> None:
            body = json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Access-Control-Allow-Origin", self.headers.get("Origin", "*"))
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
