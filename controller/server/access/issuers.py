"""JSON Web Tokens of trusted issuers: whether one is valid, who sends it, and what that allows.

Nothing is stored of them, and they are never logged: a role ends with the token that has the group.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import jwt

from tidemark.controller.base.clock import SteadyClock
from tidemark.controller.base.operator_file import Issuer
from tidemark.controller.base.principal import ANYBODY, GroupGrant, Principal
from tidemark.controller.server.access.issuer_keys import ALGORITHMS, IssuerKeys, UnknownKeyError

LEEWAY_SECONDS = 60
"""How far the clocks of controller and issuer may be apart."""

MAX_CHARACTERS = 16_384
"""Characters of a token that is looked at."""

MAX_NAME = 200
"""Characters of a user's name in events, with its issuer."""

_ORIGIN = re.compile(r"(https?://[A-Za-z0-9.:\[\]-]+)(?:/|$)")
"""The origin of an address, without any character that has a meaning in a header."""

_REQUIRED = ("iss", "aud", "exp", "sub")
_TYPES = frozenset({"JWT", "AT+JWT", "APPLICATION/AT+JWT"})
"""Values of ``typ``: other tokens of an issuer, such as those that end a session, let nobody in (RFC 8725)."""


class RefusedTokenError(Exception):
    """A token is not accepted; the text says why, and shows nothing of it."""


class Issuers:
    """The issuers that a controller trusts. For one thread, that of the event loop.

    Args:
        issuers: the issuers by name.
        steady: a clock that never goes back, in seconds.
    """

    def __init__(self, issuers: Mapping[str, Issuer], steady: SteadyClock) -> None:
        self.by_name = issuers
        """The issuers by name."""
        self._trusted = {
            one.issuer: (name, one, IssuerKeys(name, one, steady)) for name, one in issuers.items()
        }

    def read_ahead(self) -> None:
        """Begin to read the keys of all of them, so that the first requests do not wait for it."""
        for _, _, keys in self._trusted.values():
            keys.read()

    @property
    def ages(self) -> dict[str, Callable[[], float]]:
        """By issuer what returns how long ago its keys were read, in seconds."""
        return {name: keys.age_seconds for name, _, keys in self._trusted.values()}

    @property
    def origins(self) -> list[str]:
        """Where the page sends requests to for people who sign in; an issuer's own while it was not read."""
        found = (
            _ORIGIN.match((keys.endpoints or {}).get(name, one.issuer))
            for _, one, keys in self._trusted.values()
            if one.client_id is not None
            for name in ("token_endpoint", "revocation_endpoint")
        )
        return sorted({origin[1] for origin in found if origin is not None})

    async def at_which_people_sign_in(self) -> list[tuple[str, Issuer, Mapping[str, str]]]:
        """Return the name of each issuer that has a client for people, the issuer, and its addresses for that."""
        return [
            (name, one, await keys.read_endpoints())
            for name, one, keys in self._trusted.values()
            if one.client_id is not None
        ]

    async def principal(self, token: str) -> Principal:
        """Return who sends a token.

        Raises:
            RefusedTokenError: when it is not valid here.
            IssuerUnavailableError: when that cannot be known now.
        """
        if len(token) > MAX_CHARACTERS:
            raise RefusedTokenError(f"it is longer than {MAX_CHARACTERS} characters")
        unverified = _unverified(token)
        # Until its signature is verified a token says no more than whose key would verify it.
        header, issuer = unverified["header"], unverified["payload"].get("iss")
        trusted = self._trusted.get(issuer) if isinstance(issuer, str) else None
        if trusted is None:
            raise RefusedTokenError("its issuer is not trusted here")
        kind = header.get("typ", "JWT")
        if not isinstance(kind, str) or kind.upper() not in _TYPES:
            raise RefusedTokenError("it is of another type than is accepted here")
        if header.get("alg") not in ALGORITHMS:
            raise RefusedTokenError(f"it is not signed by one of {', '.join(ALGORITHMS)}")
        name, one, keys = trusted
        try:
            key = await keys.key(header.get("kid", ""))
            claims = jwt.decode(
                token,
                key,
                algorithms=ALGORITHMS,
                audience=one.audience,
                issuer=one.issuer,
                leeway=LEEWAY_SECONDS,
                options={"require": list(_REQUIRED), "enforce_minimum_key_length": True},
            )
        except UnknownKeyError:
            raise RefusedTokenError("its issuer has no key of the id that it names") from None
        except jwt.PyJWTError as error:
            raise RefusedTokenError(_why(error, one)) from None
        return _principal(name, one, claims)


def _unverified(token: str) -> dict[str, Any]:
    try:
        return jwt.decode_complete(token, options={"verify_signature": False})
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise RefusedTokenError("it cannot be read") from None


def _why(error: jwt.PyJWTError, issuer: Issuer) -> str:
    match error:
        case jwt.ExpiredSignatureError():
            return "it has expired"
        case jwt.InvalidAudienceError():
            return f"it is not for the audience {issuer.audience!r}"
        case jwt.ImmatureSignatureError():
            return "it is not valid yet, by this controller's clock"
        case jwt.MissingRequiredClaimError(claim=claim):
            return f"it has no claim {claim!r}"
        case _:
            return "it was not signed by its issuer, or a claim of it cannot be read"


def _principal(name: str, issuer: Issuer, claims: Mapping[str, Any]) -> Principal:
    user = claim_at(claims, issuer.user_claim)
    if not isinstance(user, str) or not user or not user.isprintable():
        raise RefusedTokenError(f"its claim {issuer.user_claim!r} names no user")
    if issuer.user_claim == "email" and claims.get("email_verified") is False:
        raise RefusedTokenError("its issuer has not verified the user's address")
    # No token of the store has a colon in its name, and no issuer: nobody can take another one's.
    subject = claims["sub"]
    shown = f"{name}:{user}" if user == subject else f"{name}:{user} (sub {subject})"
    if len(shown) > MAX_NAME or not shown.isprintable():
        raise RefusedTokenError(f"its user has a name that events cannot hold: over {MAX_NAME} characters")
    grants = (
        *_granted(issuer.by_user, (user,)),
        *_granted(issuer.by_group, _groups(claim_at(claims, issuer.groups_claim))),
    )
    return Principal(shown, grants)


def _granted(rules: Iterable[GroupGrant], names: Iterable[str]) -> list[Any]:
    member_of = {name for name in names if name != ANYBODY} | {ANYBODY}
    return [rule.grant for rule in rules if rule.group in member_of]


def _groups(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    return [name for name in value if isinstance(name, str)] if isinstance(value, list) else []


def claim_at(claims: Mapping[str, Any], path: str) -> object:
    """Return a claim by its name, or by the names that lead to it with dots between them; None where there is none.

    A name may have dots itself, such as ``kubernetes.io`` in ``kubernetes.io.namespace``.
    """
    if path in claims:
        return claims[path]
    for name, inner in claims.items():
        if isinstance(inner, Mapping) and path.startswith(f"{name}."):
            found = claim_at(inner, path.removeprefix(f"{name}."))
            if found is not None:
                return found
    return None
