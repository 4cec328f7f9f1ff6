"""The public keys of an issuer: found by OpenID Connect Discovery, cached, and read again as the issuer rotates them.

They are read in a thread, once however many requests wait for them, and only a request whose key is not there waits.
What a stranger sends, such as tokens with random key ids, reads them at most every ``PAUSE_SECONDS``. With them the
addresses are read at which people sign in.
"""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import jwt

from tidemark.controller.base.background import in_thread
from tidemark.controller.base.clock import SteadyClock
from tidemark.controller.base.errors import IssuerUnavailableError
from tidemark.controller.base.fetch import NoAnswer, TokenFileError, bearer, fetch, is_safe_address
from tidemark.controller.base.operator_file import Issuer

_log = logging.getLogger(__name__)

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Algorithms of signatures that are accepted: those with a private and a public key."""

READ_AGAIN_SECONDS = 300.0
"""Age at which keys are read again: one that the issuer withdraws is accepted no longer."""

PAUSE_SECONDS = 10.0
"""Minimum time between two attempts to read them for a token whose key is not there."""

STALE_SECONDS = 86_400.0
"""Age up to which keys are used while the issuer does not answer."""

FETCH_SECONDS = 5.0
"""How long each of the two requests may take that read them."""

DISCOVERY_PATH = "/.well-known/openid-configuration"
"""Where an issuer describes itself (OpenID Connect Discovery 1.0), under its address."""


ENDPOINTS = ("authorization_endpoint", "token_endpoint", "revocation_endpoint", "end_session_endpoint")
"""Names of the addresses at which people sign in and out, in what an issuer says of itself."""


class UnknownKeyError(Exception):
    """The issuer has no such key."""


class IssuerKeys:
    """The keys of an issuer. For one thread, that of the event loop, but for ``age_seconds``.

    Args:
        name: name of the issuer, for messages.
        issuer: the issuer.
        steady: a clock that never goes back, in seconds.
    """

    def __init__(self, name: str, issuer: Issuer, steady: SteadyClock) -> None:
        self._name = name
        self._issuer = issuer
        self._steady = steady
        self._keys: Mapping[str, jwt.PyJWK] = {}
        self._read_at = self._tried_at = float("-inf")
        self._reading: Future[None] | None = None
        self._fault = "they were not read yet"
        self._lock = threading.Lock()
        self.endpoints: Mapping[str, str] | None = None
        """Those of ``ENDPOINTS`` that the issuer has, by name; None while they were not read."""

    async def key(self, key_id: str) -> jwt.PyJWK:
        """Return a key by its id (``kid``).

        Raises:
            UnknownKeyError: when the issuer has no such key, or had none a moment ago.
            IssuerUnavailableError: when its keys cannot be read, and it is not among those that are recent enough.
        """
        found = self._usable().get(key_id)
        if found is None:
            await self._read_now()
            found = self._usable().get(key_id)
        else:
            self.read(READ_AGAIN_SECONDS)
        if found is not None:
            return found
        if self._fault:
            raise IssuerUnavailableError(
                f"the keys of the issuer {self._name!r} cannot be read: {self._fault}",
                headers={"Retry-After": str(round(PAUSE_SECONDS))},
            )
        raise UnknownKeyError

    async def read_endpoints(self) -> Mapping[str, str]:
        """Return those of ``ENDPOINTS`` that the issuer has; none while they cannot be read."""
        if self.endpoints is None:
            await self._read_now()
        return self.endpoints or {}

    def age_seconds(self) -> float:
        """Return how long ago the keys were last read, infinite for never.

        When they are old it begins to read them again, so that who watches this learns that an issuer is away before
        its users do. Safe to call from several threads.
        """
        self.read(READ_AGAIN_SECONDS)
        return self._steady() - self._read_at

    def read(self, pause_seconds: float = 0.0) -> None:
        """Begin to read the keys, unless that is under way or was begun less than ``pause_seconds`` ago."""
        with self._lock:
            idle = self._reading is None or self._reading.done()
            if idle and self._steady() - self._tried_at >= pause_seconds:
                self._tried_at = self._steady()
                self._reading = in_thread(self._read)

    async def _read_now(self) -> None:
        self.read(PAUSE_SECONDS)
        if self._reading is not None:
            await asyncio.wrap_future(self._reading)

    def _usable(self) -> Mapping[str, jwt.PyJWK]:
        return self._keys if self._steady() - self._read_at < STALE_SECONDS else {}

    def _read(self) -> None:
        asked_at = self._steady()
        try:
            keys = _keys_in(self._get(self._address_of_keys()))
        except (NoAnswer, TokenFileError) as error:
            self._fault = str(error)
            _log.warning("the keys of the issuer %r cannot be read: %s", self._name, error)
            return
        if keys.keys() != self._keys.keys():
            _log.info("the issuer %r has the keys %s", self._name, ", ".join(sorted(keys)))
        self._keys, self._read_at, self._fault = keys, asked_at, ""

    def _address_of_keys(self) -> str:
        document = self._get(self._issuer.issuer.rstrip("/") + DISCOVERY_PATH)
        if document.get("issuer") != self._issuer.issuer:
            raise NoAnswer(f"it says that it is {document.get('issuer')!r}")
        address = document.get("jwks_uri")
        if not isinstance(address, str) or not is_safe_address(address):
            raise NoAnswer("it names no address of its keys that begins with https://")
        named = {name: document.get(name) for name in ENDPOINTS}
        self.endpoints = {
            name: url for name, url in named.items() if isinstance(url, str) and is_safe_address(url)
        }
        return address

    def _get(self, url: str) -> Mapping[str, Any]:
        headers = bearer(self._issuer.token_file)
        answer = fetch("GET", url, FETCH_SECONDS, ca_file=self._issuer.ca_file, headers=headers)
        if not answer.is_success:
            raise NoAnswer(f"it answers {answer.status_code}")
        try:
            document = json.loads(answer.content)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise NoAnswer("its answer is no JSON object")
        return document


def _keys_in(document: Mapping[str, Any]) -> dict[str, jwt.PyJWK]:
    """Return the keys of a JWK Set (RFC 7517) that sign by one of the algorithms, by their ids."""
    try:
        keys = jwt.PyJWKSet.from_dict(dict(document)).keys
    except jwt.PyJWTError:
        keys = []
    found = {
        key.key_id: key
        for key in keys
        if key.algorithm_name in ALGORITHMS
        and isinstance(key.key_id, str)
        and key.public_key_use in {None, "sig"}
    }
    if not found:
        raise NoAnswer(f"it has no key that signs by one of {', '.join(ALGORITHMS)}")
    return found
