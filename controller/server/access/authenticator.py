"""Authenticates requests, by a token of the store or of an issuer, by a proxy, or, without any, as local.

It limits their rate, too.

Every replica caches the valid tokens and reads the store again when the cache is ``CACHE_SECONDS`` old: a token made
or revoked elsewhere takes effect within that time. An unknown token costs no query.
"""

from __future__ import annotations

import hmac
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace

from sqlalchemy.exc import SQLAlchemyError
from starlette.datastructures import Headers

from tidemark.controller.base.clock import Clock, SteadyClock
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.errors import UnauthenticatedError
from tidemark.controller.base.operator_file import read_issuers
from tidemark.controller.base.principal import (
    LOOPBACK,
    Principal,
    Proxy,
    Right,
    is_foreign_name,
    is_loopback,
    is_other_machine,
)
from tidemark.controller.base.settings import Settings
from tidemark.controller.base.token_format import digest_of, is_token
from tidemark.controller.server.access.issuers import Issuers, RefusedTokenError
from tidemark.controller.server.access.token_store import StoredToken, live_tokens, live_version, note_uses

_log = logging.getLogger(__name__)

CACHE_SECONDS = 2.0
"""Age at which the cached tokens are read again, in seconds."""

STALE_SECONDS = 30.0
"""Age up to which they are used while the store does not answer, so that metrics and probes still work."""

USE_NOTED_US = 3_600_000_000
"""Minimum time between two records of a token's use, in microseconds: no request waits for such a write."""

_HEAD = 16
"""Characters of a digest that tokens are looked up by; the rest is compared in constant time."""

_NO_CREDENTIALS = "no token was sent: send one as Authorization: Bearer ..."
_NOT_VALID = "the token is not valid: unknown here, expired or revoked"


@dataclass(frozen=True, slots=True)
class _Cache:
    by_head: dict[str, tuple[StoredToken, ...]] = field(default_factory=dict)
    version: tuple[int, int] = (0, 0)
    read_at: float = float("-inf")


class Authenticator:
    """Finds out who sends a request.

    Args:
        clock: the wall time in microseconds.
        steady: a clock that never goes back, in seconds.
    """

    def __init__(self, database: Database, settings: Settings, clock: Clock, steady: SteadyClock) -> None:
        self._database = database
        self._clock = clock
        self._steady = steady
        self._alone = is_loopback(settings.host)
        self.proxy = proxy_of(settings)
        """The authenticating proxy; None without one."""
        self.issuers = Issuers(read_issuers(settings.issuers_file), steady)
        """The issuers whose tokens are accepted."""
        self._cache = _Cache()
        self._lock = threading.Lock()
        self._uses_lock = threading.Lock()
        self._noted_us: dict[int, int] = {}
        self._uses: dict[int, int] = {}

    @property
    def fresh(self) -> bool:
        """Whether the cached tokens are recent enough."""
        return self._steady() - self._cache.read_at < CACHE_SECONDS

    @property
    def open(self) -> bool:
        """Whether no credentials are needed: none were ever made or trusted, and the host is loopback."""
        return not self.has_tokens and not self.trusts_others and self._alone

    @property
    def trusts_others(self) -> bool:
        """Whether a proxy or issuers say who calls."""
        return self.proxy is not None or bool(self.issuers.by_name)

    @property
    def has_tokens(self) -> bool:
        """Whether a token was ever made."""
        return self._cache.version != (0, 0)

    @property
    def live(self) -> int:
        """How many tokens are valid now."""
        return sum(token.is_live(self._clock()) for found in self._cache.by_head.values() for token in found)

    def forget(self) -> None:
        """Have the tokens read again before the next request: this process changed them."""
        with self._lock:
            self._cache = replace(self._cache, read_at=float("-inf"))

    def refresh(self) -> None:
        """Read the valid tokens, unless another thread has just done so.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store does not answer and the cache is too old.
        """
        with self._lock:
            if self.fresh:
                return
            try:
                self._cache = self._read()
            except SQLAlchemyError as error:
                if self._steady() - self._cache.read_at >= STALE_SECONDS:
                    raise
                _log.warning("the valid tokens could not be read (%s)", type(error).__name__)
                return
            self._note_uses()

    async def authenticate(self, peer: str | None, headers: Headers) -> Principal:
        """Return who sends a request.

        Args:
            peer: address that it comes from; None when it has none.

        Raises:
            UnauthenticatedError: when the credentials are missing or not valid.
            IssuerUnavailableError: when the issuer of the token does not answer.
        """
        if "authorization" in headers:
            token = _bearer(headers.getlist("authorization"))
            # Three parts make a JSON Web Token; a token of the store has no dot.
            by_issuer = bool(self.issuers.by_name) and token.count(".") == 2
            return await self._by_issuer(token) if by_issuer else self._by_token(token)
        if self.proxy is not None and self.proxy.trusts(peer):
            groups = self.proxy.groups_header
            user = self.proxy.principal(
                headers.getlist(self.proxy.user_header), headers.getlist(groups) if groups else ()
            )
            if user is None:
                raise _unauthenticated("the proxy named no user, or more than one")
            return user
        if self.open:
            # Another program than `tidemark serve` may have opened the socket to others.
            if is_other_machine(peer):
                raise _unauthenticated(
                    "there is no token yet, and without one only this machine may call; on the server run: "
                    "tidemark token create root --role admin --database-url ..."
                )
            if is_foreign_name(headers.get("host")):
                raise _unauthenticated(
                    f"there is no token yet, and without one requests must use a local host name, such as localhost, "
                    f"not {headers.get('host')!r}"
                )
            return LOOPBACK
        raise _unauthenticated(_NO_CREDENTIALS)

    async def _by_issuer(self, token: str) -> Principal:
        try:
            return await self.issuers.principal(token)
        except RefusedTokenError as error:
            raise _unauthenticated(f"the token is not valid: {error}", sent=True) from None

    def _by_token(self, token: str) -> Principal:
        if not is_token(token):
            raise _unauthenticated("this is not a Tidemark token: it is cut off or mistyped", sent=True)
        digest, now_us = digest_of(token), self._clock()
        for known in self._cache.by_head.get(digest[:_HEAD], ()):
            if hmac.compare_digest(known.digest, digest) and known.is_live(now_us):
                self._use(known, now_us)
                return Principal(known.name, (known.grant,), known.id)
        raise _unauthenticated(_NOT_VALID, sent=True)

    def _use(self, token: StoredToken, now_us: int) -> None:
        noted_us = self._noted_us.get(token.id, token.last_used_us)
        if noted_us is None or now_us - noted_us >= USE_NOTED_US:
            self._noted_us[token.id] = now_us
            with self._uses_lock:
                self._uses[token.id] = now_us

    def _read(self) -> _Cache:
        before, read_at = self._cache, self._steady()
        with self._database.read() as session:
            version = live_version(session)
            if version == before.version:
                return replace(before, read_at=read_at)
            found: dict[str, tuple[StoredToken, ...]] = {}
            for token in live_tokens(session, self._clock()):
                head = token.digest[:_HEAD]
                found[head] = (*found.get(head, ()), token)
        return _Cache(found, version, read_at)

    def _note_uses(self) -> None:
        with self._uses_lock:
            uses, self._uses = self._uses, {}
        if not uses:
            return
        try:
            with self._database.write() as session:
                note_uses(session, uses)
        except SQLAlchemyError as error:
            _log.warning("the last use of tokens could not be recorded (%s)", type(error).__name__)


def _bearer(authorization: Sequence[str]) -> str:
    scheme, _, token = authorization[0].strip().partition(" ")
    token = token.strip()
    if len(authorization) != 1 or scheme.lower() != "bearer" or not token:
        raise _unauthenticated(_NO_CREDENTIALS)
    return token


def proxy_of(settings: Settings) -> Proxy | None:
    """Return the proxy that the settings describe; None without one."""
    if settings.proxy_user_header is None:
        return None
    return Proxy(
        settings.proxy_user_header,
        settings.proxy_groups_header,
        settings.proxy_networks,
        settings.proxy_group_grants,
    )


def _unauthenticated(detail: str, *, sent: bool = False) -> UnauthenticatedError:
    challenge = 'Bearer realm="tidemark"' + (', error="invalid_token"' if sent else "")
    return UnauthenticatedError(detail, headers={"WWW-Authenticate": challenge})


BURST_SECONDS = 2.0
"""Burst of a caller, in seconds of its rate."""

MAX_CALLERS = 10_000
"""Callers remembered; beyond that, those idle longest are forgotten and start with a full bucket."""


class RateLimit:
    """Limits each caller to a rate, with bursts. Used from one thread.

    Args:
        per_second: sustained requests a second of one caller; 0 for no limit.
        steady: a clock that never goes back, in seconds.
    """

    def __init__(self, per_second: float, steady: Callable[[], float]) -> None:
        self.per_second = per_second
        self._steady = steady
        self._burst = max(per_second * BURST_SECONDS, 1.0)
        self._left: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def wait_seconds(self, caller: Hashable) -> float:
        """Count a request and return 0 if it is allowed; else return the seconds to wait, without counting it."""
        if not self.per_second:
            return 0.0
        now = self._steady()
        left, since = self._left.pop(caller, (self._burst, now))
        left = min(left + (now - since) * self.per_second, self._burst)
        allowed = left >= 1
        self._left[caller] = (left - 1 if allowed else left, now)
        if len(self._left) > MAX_CALLERS:
            self._left.popitem(last=False)
        return 0.0 if allowed else (1 - left) / self.per_second


class RateLimits:
    """The limits of a process. Requests of jobs have their own, so that other requests cannot use it up.

    Args:
        reports_per_second: requests of jobs, a second and caller; 0 for no limit.
        requests_per_second: all other requests.
        steady: a clock that never goes back, in seconds.
    """

    def __init__(
        self, reports_per_second: float, requests_per_second: float, steady: Callable[[], float]
    ) -> None:
        self._reports = RateLimit(reports_per_second, steady)
        self._requests = RateLimit(requests_per_second, steady)

    def of(self, right: Right | None) -> RateLimit:
        """Return the limit of operations that require ``right``; None for unauthenticated requests."""
        return self._reports if right in {"Ask", "Report"} else self._requests
