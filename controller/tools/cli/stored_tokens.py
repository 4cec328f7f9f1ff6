"""A token made in a store, by whoever can write to it: needs neither a controller nor a token."""

from __future__ import annotations

import getpass
import json
from contextlib import closing
from typing import Any

from pydantic import TypeAdapter

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.clock import system_clock
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.parse_body import parse_body
from tidemark.controller.server.access import token_store
from tidemark.controller.server.http.bodies import TokenBody
from tidemark.controller.server.schemas.service import TokenMade

_TOKEN = TypeAdapter(TokenBody)


def create_in_store(database_url: str, body: dict[str, Any]) -> tuple[TokenMade, bool]:
    """Create a token in a store, which is made or migrated where it must be; also return whether it is the first.

    Raises:
        TidemarkError: when the store cannot be used, or the token is refused.
    """
    new = parse_body(_TOKEN, json.dumps(body).encode()).to_new()
    with closing(Database(database_url)) as database:
        database.migrate()
        with database.read() as session:
            first = not token_store.list_tokens(session, 0, 1, None)
        made = token_store.make(database, new, f"{_user()} at the store", system_clock())
    return made_of(TokenMade, made.stored, live=True, token=made.token), first


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # The user of a container may have no name.
        return "somebody"
