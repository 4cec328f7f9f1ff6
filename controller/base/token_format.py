"""The format of bearer tokens, ``tdm_<role>_<secret><check>``, and the digest that is stored.

The secret is 256 random bits in base 62. The prefix lets scanners find leaked tokens. The check, the first 8
hex digits of the SHA-256 of the text before it, detects typing errors before anything is looked up. A template that
has random characters and SHA-256, such as a Helm chart's, can make a token.
Only the SHA-256 of the whole text is stored: guessing 256 bits needs no slower hash.
"""

from __future__ import annotations

import hashlib
import re
import string
from typing import cast

from tidemark.controller.base.principal import ROLES, Role

NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"
"""The name of a token's holder."""

SECRET_BYTES = 32
"""Random bytes in a token."""

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET_LENGTH = 43  # of 256 bits in base 62
_CHECK_LENGTH = 8  # of 32 bits in hex

TOKEN = re.compile(rf"tdm_({'|'.join(ROLES)})_([0-9A-Za-z]{{{_SECRET_LENGTH}}})([0-9a-f]{{{_CHECK_LENGTH}}})")
"""A token, for scanners and for hiding tokens in logs."""

JWT = re.compile(r"eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*")
"""A JSON Web Token of an issuer, for hiding: its head is a JSON object, so that it begins so."""


def make_token(role: Role, random: bytes) -> str:
    """Return a token.

    Args:
        role: role in its prefix.
        random: ``SECRET_BYTES`` bytes from a cryptographic source, used once.
    """
    if len(random) != SECRET_BYTES:
        raise ValueError(f"a token is made of {SECRET_BYTES} random bytes, not {len(random)}")
    body = f"tdm_{role}_{_base62(int.from_bytes(random), _SECRET_LENGTH)}"
    return body + _check(body)


def is_token(text: str) -> bool:
    """Return whether ``text`` is a complete token; only the store knows whether it is valid."""
    match = TOKEN.fullmatch(text)
    return match is not None and _check(text[:-_CHECK_LENGTH]) == match[3]


def role_of(token: str) -> Role | None:
    """Return the role in a token's prefix; None when ``token`` is not a token."""
    match = TOKEN.fullmatch(token)
    return None if match is None or not is_token(token) else cast("Role", match[1])


def digest_of(token: str) -> str:
    """Return what is stored of a token: its SHA-256 as 64 hex digits."""
    return hashlib.sha256(token.encode()).hexdigest()


def _check(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:_CHECK_LENGTH]


def _base62(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))
