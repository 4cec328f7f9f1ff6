"""The tokens in a store, for whoever can write to it: needs neither a controller nor a token."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from tidemark.controller.base.clock import system_clock
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.parse_body import parse_body
from tidemark.controller.server.access import token_store
from tidemark.controller.server.access.token_store import MadeToken, fields
from tidemark.controller.server.http.bodies import TokenBody
from tidemark.controller.server.schemas.service import TokenAnswer, TokenMade

_TOKEN = TypeAdapter(TokenBody)


@dataclass(frozen=True, slots=True)
class StoredTokens:
    """The tokens of a store, by the client's operations on those of a controller."""

    database: Database
    """The store."""
    by: str
    """Who makes the changes, for the record."""

    def create_token(self, body: dict[str, Any]) -> TokenMade:
        """Create a token."""
        new = parse_body(_TOKEN, json.dumps(body).encode()).to_new()
        return _made(token_store.make(self.database, new, self.by, system_clock()))

    def tokens(self, name: str | None = None) -> Iterator[TokenAnswer]:
        """Return all tokens, or those of one name, by number."""
        with self.database.read() as session:
            rows = token_store.list_tokens(session, 0, None, name)
            return iter([TokenAnswer(**fields(row, system_clock())) for row in rows])

    def rotate_token(self, token_id: int, _: dict[str, Any]) -> TokenMade:
        """Create the successor of a token."""
        return _made(token_store.rotate(self.database, token_id, self.by, system_clock()))

    def revoke_token(self, token_id: int) -> TokenAnswer:
        """Revoke a token."""
        revoked = token_store.revoke(self.database, token_id, self.by, system_clock())
        return TokenAnswer(**fields(revoked, system_clock()))


@contextmanager
def open_store(database_url: str) -> Iterator[StoredTokens]:
    """Open the store, create or migrate it to the schema of this release, and close it at the end.

    Raises:
        StoreUnusableError: when it cannot be used.
    """
    database = Database(database_url)
    try:
        database.migrate()
        yield StoredTokens(database, f"{_user()} at the store")
    finally:
        database.close()


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # The user of a container may have no name.
        return "somebody"


def _made(made: MadeToken) -> TokenMade:
    return TokenMade(**fields(made.stored, system_clock()), token=made.token)
