"""Makes, rotates and revokes tokens, for the API and for commands that open the store."""

from __future__ import annotations

import logging
import secrets
from dataclasses import dataclass
from typing import Any

from tidemark.controller.access.token_format import SECRET_BYTES, digest_of, make_token
from tidemark.controller.access.token_store import (
    NewToken,
    StoredToken,
    add_token,
    get_token,
    revoke_token,
    successor_of,
)
from tidemark.controller.db.database import Database

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class MadeToken:
    """A new token."""

    stored: StoredToken
    """What is stored of it."""
    token: str
    """The token itself, which is stored nowhere."""


def make(database: Database, new: NewToken, by: str, now_us: int) -> MadeToken:
    """Make a token.

    Raises:
        TokenConflictError: when two valid tokens have its name, or the first one is not an unscoped admin's.
    """
    token = make_token(new.grant.role, secrets.token_bytes(SECRET_BYTES))
    with database.write() as session:
        stored = add_token(session, new, digest_of(token), by, now_us)
    _log.info("token %d of %r made for the role %s by %r", stored.id, stored.name, stored.grant.role, by)
    return MadeToken(stored, token)


def rotate(database: Database, token_id: int, by: str, now_us: int) -> MadeToken:
    """Make a successor of a token; both are valid until one is revoked.

    Raises:
        TokenNotFoundError: when there is none of this number.
        TokenConflictError: when it has ended or already has a successor.
    """
    with database.read() as session:
        new = successor_of(get_token(session, token_id), now_us)
    return make(database, new, by, now_us)


def revoke(database: Database, token_id: int, by: str, now_us: int) -> StoredToken:
    """Revoke a token and return it; doing it again changes nothing.

    Raises:
        TokenNotFoundError: when there is none of this number.
    """
    with database.write() as session:
        ended = revoke_token(session, token_id, by, now_us)
    _log.info("token %d of %r revoked by %r", ended.id, ended.name, ended.revoked_by)
    return ended


def fields(stored: StoredToken, now_us: int) -> dict[str, Any]:
    """Return a token's metadata by the API's field names; never the token."""
    return {
        "id": stored.id,
        "name": stored.name,
        "role": stored.grant.role,
        "jobs": list(stored.grant.jobs),
        "live": stored.is_live(now_us),
        "created_us": stored.created_us,
        "created_by": stored.created_by,
        "expires_us": stored.expires_us,
        "last_used_us": stored.last_used_us,
        "revoked_us": stored.revoked_us,
        "revoked_by": stored.revoked_by,
    }
