"""Reads a new store's first tokens from files, for deployments where nobody types commands.

A folder has one file for each token. The file's name is the token's name; the token itself contains its role; it
reaches all jobs. Kubernetes mounts a Secret in this form.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

from tidemark.controller.access.principal import Grant
from tidemark.controller.access.token_format import NAME_PATTERN, digest_of, role_of
from tidemark.controller.access.token_store import NewToken, add_first_tokens, any_token
from tidemark.controller.db.database import Database

_log = logging.getLogger(__name__)

_MAX_CHARACTERS = 1_000
"""Characters read from a file: a token has fewer than 100."""


class FirstTokensError(Exception):
    """The files cannot be used. The message names the file and the way out, never its content."""


def take_first_tokens(database: Database, folder: Path | None, now_us: int) -> int:
    """Store the tokens of ``folder`` if the store never had one, and return how many; otherwise read no file.

    Raises:
        FirstTokensError: when they are needed and cannot be read, or a file holds no token.
        TokenConflictError: when none of them is an admin's.
    """
    if folder is None:
        return 0
    with database.read() as session:
        if any_token(session):
            return 0
    tokens = read_first_tokens(folder)
    with database.write() as session:
        stored = add_first_tokens(session, tokens, f"the files in {folder}", now_us)
    for token in stored:
        _log.info(
            "token %d of %r taken from %s for the role %s", token.id, token.name, folder, token.grant.role
        )
    return len(stored)


def read_first_tokens(folder: Path) -> list[tuple[NewToken, str]]:
    """Return the tokens of ``folder`` with their digests, admins' first; files that begin with a dot are left out.

    Raises:
        FirstTokensError: when the folder cannot be read, is empty, or a file holds no token.
    """
    try:
        files = sorted(path for path in folder.iterdir() if not path.name.startswith(".") and path.is_file())
        texts = [(path, _text(path)) for path in files]
    except (OSError, UnicodeDecodeError) as error:
        result = error.strerror if isinstance(error, OSError) else "it is not text"
        raise FirstTokensError(f"{folder} cannot be read: {result}") from None
    if not texts:
        raise FirstTokensError(
            f"{folder} holds no file; add one for each token: tidemark token mint --role admin"
        )
    found = []
    for path, text in texts:
        if not re.fullmatch(NAME_PATTERN, path.name):
            raise FirstTokensError(
                f"{path}: its name becomes the token's: at most 64 letters, digits, and . _ @ - between them"
            )
        role = role_of(text)
        if role is None:
            raise FirstTokensError(
                f"{path} holds no token, or more than one; make one with: tidemark token mint --role admin"
            )
        found.append((NewToken(path.name, Grant(role, ("*",))), digest_of(text)))
    return sorted(found, key=lambda token: token[0].grant.role != "admin")


def _text(path: Path) -> str:
    with path.open(encoding="ascii") as file:
        return file.read(_MAX_CHARACTERS).strip()
