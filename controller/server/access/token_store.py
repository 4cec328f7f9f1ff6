"""Tokens in the store, as digests only: made, rotated and revoked; the first ones may come from files."""

from __future__ import annotations

import json
import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.statements import insert_into
from tidemark.controller.base.db.tables import TokenRow
from tidemark.controller.base.errors import TokenConflictError, TokenNotFoundError
from tidemark.controller.base.principal import Grant, Token
from tidemark.controller.base.token_format import (
    NAME_PATTERN,
    SECRET_BYTES,
    digest_of,
    make_token,
    role_of,
)
from tidemark.controller.specs.streams import add_event

_FIRST_TOKENS_LOCK = 0x7469_6467
"""Key of the PostgreSQL advisory lock under which a store gets its first tokens."""

_SLOTS = (1, 2)
"""Two tokens of a name may be valid at once: the one in use and its successor."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token to make."""

    name: str
    """Name of its holder."""
    grant: Grant
    """What it may do."""
    lifetime_us: int | None = None
    """How long it is valid, in microseconds; None: it never expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredToken(Token):
    """A stored token."""

    digest: str
    """SHA-256 of its text in hex."""

    @property
    def grant(self) -> Grant:
        """What it may do."""
        return Grant(self.role, self.jobs)

    def is_live(self, now_us: int) -> bool:
        """Return whether it is valid at that time."""
        return self.revoked_us is None and (self.expires_us is None or now_us < self.expires_us)


def any_token(session: Session) -> bool:
    """Return whether a token was ever made: from then on every caller needs one."""
    return session.scalars(select(TokenRow.id).limit(1)).first() is not None


def add_first_tokens(
    session: Session, tokens: Sequence[tuple[NewToken, str]], by: str, now_us: int
) -> Sequence[StoredToken]:
    """Store the first tokens, given with their digests, unless a token was ever made; return those stored.

    Raises:
        TokenConflictError: when the first is not an unscoped admin's, or three have the same name.
    """
    if session.get_bind().dialect.name == "postgresql":
        # Of replicas that start together one does it.
        session.execute(select(func.pg_advisory_xact_lock(_FIRST_TOKENS_LOCK)))
    if any_token(session):
        return []
    return [add_token(session, new, digest, by, now_us) for new, digest in tokens]


def add_token(session: Session, new: NewToken, digest: str, by: str, now_us: int) -> StoredToken:
    """Store a new token and return it.

    Raises:
        TokenConflictError: when two tokens of the name are valid, or the first token is not an unscoped admin's.
    """
    if not (new.grant.role == "admin" and new.grant.whole) and not any_token(session):
        raise TokenConflictError(
            "the first token must be an admin's for every job: once there is one, every caller needs a token, and "
            "somebody has to be able to make the next"
        )
    # Expired tokens make room.
    session.execute(
        update(TokenRow)
        .where(TokenRow.name == new.name, TokenRow.slot.is_not(None), TokenRow.expires_us <= now_us)
        .values(slot=None)
    )
    for slot in _SLOTS:
        # Another replica may take the same slot: then this waits for its commit and inserts nothing.
        made = session.scalars(
            insert_into(session, TokenRow)
            .values(
                name=new.name,
                slot=slot,
                role=new.grant.role,
                jobs=json.dumps(new.grant.jobs),
                digest=digest,
                created_us=now_us,
                created_by=by,
                expires_us=None if new.lifetime_us is None else now_us + new.lifetime_us,
            )
            .on_conflict_do_nothing(index_elements=["name", "slot"])
            .returning(TokenRow.id)
        ).one_or_none()
        if made is not None:
            return _recorded(session, get_token(session, made), "TokenMade", by, now_us)
    raise TokenConflictError(
        f"two tokens of the name {new.name!r} are valid already; revoke one of them first"
    )


def successor_of(token: StoredToken, now_us: int) -> NewToken:
    """Return the successor of ``token``: of the same name, role, reach and lifetime.

    Raises:
        TokenConflictError: when it has ended.
    """
    if not token.is_live(now_us):
        raise TokenConflictError(f"token {token.id} of {token.name!r} has ended; create a new one")
    lifetime_us = None if token.expires_us is None else token.expires_us - token.created_us
    return NewToken(token.name, token.grant, lifetime_us)


def get_token(session: Session, token_id: int) -> StoredToken:
    """Return a token.

    Raises:
        TokenNotFoundError: when there is none of this number.
    """
    row = session.get(TokenRow, token_id)
    if row is None:
        raise TokenNotFoundError(
            f"there is no token {token_id}; `tidemark token list` (GET /v1/tokens) lists those there are"
        )
    return _token(row)


def list_tokens(
    session: Session, after: int, limit: int | None, name: str | None = None
) -> Sequence[StoredToken]:
    """Return up to ``limit`` tokens, None for all, above number ``after``, ended ones too, of all names or of one."""
    statement = select(TokenRow).where(TokenRow.id > after).order_by(TokenRow.id).limit(limit)
    if name is not None:
        statement = statement.where(TokenRow.name == name)
    return [_token(row) for row in session.scalars(statement)]


def live_version(session: Session) -> tuple[int, int]:
    """Return a version that grows when a token is made or revoked, (0, 0) before the first; none is ever deleted."""
    live = func.count(TokenRow.id).filter(TokenRow.revoked_us.is_(None))
    count, highest = session.execute(select(live, func.max(TokenRow.id))).one()
    return count, highest or 0


def live_tokens(session: Session, now_us: int) -> Sequence[StoredToken]:
    """Return the tokens that are valid now."""
    return [
        _token(row)
        for row in session.scalars(
            select(TokenRow).where(
                TokenRow.revoked_us.is_(None),
                or_(TokenRow.expires_us.is_(None), TokenRow.expires_us > now_us),
            )
        )
    ]


def note_uses(session: Session, used: Mapping[int, int]) -> None:
    """Record when tokens were last used: by number, the time in microseconds."""
    for token_id, used_us in used.items():
        session.execute(
            update(TokenRow)
            .where(
                TokenRow.id == token_id, or_(TokenRow.last_used_us.is_(None), TokenRow.last_used_us < used_us)
            )
            .values(last_used_us=used_us)
        )


def revoke_token(session: Session, token_id: int, by: str, now_us: int) -> StoredToken:
    """Revoke a token and return it; one that was revoked before is left unchanged.

    Raises:
        TokenNotFoundError: when there is none of this number.
    """
    ended = session.scalars(
        update(TokenRow)
        .where(TokenRow.id == token_id, TokenRow.revoked_us.is_(None))
        .values(revoked_us=now_us, revoked_by=by, slot=None)
        .returning(TokenRow.id)
    ).one_or_none()
    session.expire_all()
    token = get_token(session, token_id)
    return token if ended is None else _recorded(session, token, "TokenRevoked", by, now_us)


def _recorded(session: Session, token: StoredToken, kind: str, by: str, now_us: int) -> StoredToken:
    """Write down that the token was made or revoked, never the token, and return it."""
    reach = "every job" if token.grant.whole else f"the jobs {', '.join(token.grant.jobs)}"
    reason = f"token {token.id} of {token.name!r}: role {token.role}, {reach}"
    add_event(session, None, now_us, kind=kind, reason=reason, by=by)
    return token


def _token(row: TokenRow) -> StoredToken:
    return made_of(StoredToken, row, jobs=tuple(json.loads(row.jobs)))


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
    _log.info("token %d of %r made for the role %s by %r", stored.id, stored.name, stored.role, by)
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
        _log.info("token %d of %r taken from %s for the role %s", token.id, token.name, folder, token.role)
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
