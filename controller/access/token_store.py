"""Tokens: making, listing, ending and recognising them. Only digests are here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from sqlalchemy import func, or_, select, update
from sqlalchemy.orm import Session

from tidemark.controller.access.principal import Grant
from tidemark.controller.access.roles import Role
from tidemark.controller.db.tables import TokenRow
from tidemark.controller.db.upsert import insert_into
from tidemark.controller.errors import TokenConflictError, TokenNotFoundError

__all__ = [
    "NewToken",
    "StoredToken",
    "add_first_tokens",
    "add_token",
    "any_token",
    "get_token",
    "list_tokens",
    "live_tokens",
    "live_version",
    "note_uses",
    "revoke_token",
    "successor_of",
]

FIRST_TOKENS_LOCK = 0x7469_6467
"""Key of the PostgreSQL advisory lock under which a store gets its first tokens."""

SLOTS = (1, 2)
"""Two tokens of a name may live at once: the one in use, and the one that takes its place."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token to be made."""

    name: str
    """Name of whoever holds it."""
    grant: Grant
    """What it may do."""
    lifetime_us: int | None = None
    """How long it is good for, in microseconds; None for ever."""


@dataclass(frozen=True, slots=True)
class StoredToken:
    """A token as it is kept. Times are in microseconds since the epoch; None: not so, or not known."""

    id: int
    name: str
    grant: Grant
    digest: str
    created_us: int
    created_by: str
    expires_us: int | None
    last_used_us: int | None
    revoked_us: int | None
    revoked_by: str | None

    def is_live(self, now_us: int) -> bool:
        """Return whether it is good at that time."""
        return self.revoked_us is None and (self.expires_us is None or now_us < self.expires_us)


def any_token(session: Session) -> bool:
    """Return whether a token was ever made: from then on nobody gets in without one."""
    return session.scalars(select(TokenRow.id).limit(1)).first() is not None


def add_first_tokens(
    session: Session, tokens: Sequence[tuple[NewToken, str]], by: str, now_us: int
) -> Sequence[StoredToken]:
    """Keep the tokens that a store begins with, given with their digests; none where there ever was one.

    Raises:
        TokenConflictError: when the first is not an unscoped admin's, or three have the same name.
    """
    if session.get_bind().dialect.name == "postgresql":
        # Replicas that start together: one of them does it, the others find it done.
        session.execute(select(func.pg_advisory_xact_lock(FIRST_TOKENS_LOCK)))
    if any_token(session):
        return []
    return [add_token(session, new, digest, by, now_us) for new, digest in tokens]


def add_token(session: Session, new: NewToken, digest: str, by: str, now_us: int) -> StoredToken:
    """Keep a new token and return it.

    Raises:
        TokenConflictError: when two tokens of the name live, or it is the first token and not an unscoped admin's.
    """
    if not (new.grant.role == "admin" and new.grant.whole) and not any_token(session):
        raise TokenConflictError(
            "the first token must be an admin's for every job: once there is one, nobody gets in without, and somebody "
            "has to be able to make the next"
        )
    # What has run out makes room.
    session.execute(
        update(TokenRow)
        .where(TokenRow.name == new.name, TokenRow.slot.is_not(None), TokenRow.expires_us <= now_us)
        .values(slot=None)
    )
    for slot in SLOTS:
        # Another replica may take the same one: then this waits for its commit and does nothing.
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
            return get_token(session, made)
    raise TokenConflictError(f"two tokens of the name {new.name!r} live already; revoke one of them first")


def successor_of(token: StoredToken, now_us: int) -> NewToken:
    """Return the token that takes the place of ``token``: of the same name, role, reach and lifetime.

    Raises:
        TokenConflictError: when it is not good any more.
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
        raise TokenNotFoundError(f"there is no token {token_id}; GET /v1/tokens lists those there are")
    return _token(row)


def list_tokens(session: Session, after: int, limit: int, name: str | None = None) -> Sequence[StoredToken]:
    """Return up to ``limit`` tokens, ended ones too, by number, those above ``after``, or those of one name."""
    wanted = select(TokenRow).where(TokenRow.id > after).order_by(TokenRow.id).limit(limit)
    if name is not None:
        wanted = wanted.where(TokenRow.name == name)
    return [_token(row) for row in session.scalars(wanted)]


def live_version(session: Session) -> tuple[int, int]:
    """Return what changes whenever a token is made or revoked, (0, 0) before the first: none is ever deleted."""
    live = func.count(TokenRow.id).filter(TokenRow.revoked_us.is_(None))
    count, greatest = session.execute(select(live, func.max(TokenRow.id))).one()
    return count, greatest or 0


def live_tokens(session: Session, now_us: int) -> Sequence[StoredToken]:
    """Return the tokens that are good now."""
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
    """Write down when tokens were last used: by number, the time in microseconds."""
    for token_id, used_us in used.items():
        session.execute(
            update(TokenRow)
            .where(
                TokenRow.id == token_id,
                or_(TokenRow.last_used_us.is_(None), TokenRow.last_used_us < used_us),
            )
            .values(last_used_us=used_us)
        )


def revoke_token(session: Session, token_id: int, by: str, now_us: int) -> StoredToken:
    """End a token and return it; one that was revoked before is left as it is.

    Raises:
        TokenNotFoundError: when there is none of this number.
    """
    session.execute(
        update(TokenRow)
        .where(TokenRow.id == token_id, TokenRow.revoked_us.is_(None))
        .values(revoked_us=now_us, revoked_by=by, slot=None)
    )
    session.expire_all()
    return get_token(session, token_id)


def _token(row: TokenRow) -> StoredToken:
    return StoredToken(
        id=row.id,
        name=row.name,
        grant=Grant(cast("Role", row.role), tuple(json.loads(row.jobs))),
        digest=row.digest,
        created_us=row.created_us,
        created_by=row.created_by,
        expires_us=row.expires_us,
        last_used_us=row.last_used_us,
        revoked_us=row.revoked_us,
        revoked_by=row.revoked_by,
    )
