"""Tokens."""

from __future__ import annotations

from sqlalchemy import String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from tidemark.controller.base.db.tables.columns import Base, Id, Identifier, Long, Name, Whole
from tidemark.controller.base.principal import Role


class TokenRow(Base):
    """A bearer token; only its digest is stored, not its text."""

    __tablename__ = "tokens"
    __table_args__ = (UniqueConstraint("name", "slot"), UniqueConstraint("digest"))

    id: Mapped[Id]
    name: Mapped[Identifier]
    slot: Mapped[Whole | None]
    """1 or 2 while it is valid, null afterwards: at most two tokens of one name, even when made at the same time."""
    role: Mapped[Role] = mapped_column(String(20))
    jobs: Mapped[Long]
    """Patterns on job names as a JSON array."""
    digest: Mapped[Identifier]
    """SHA-256 of its text in hex."""
    created_us: Mapped[Whole]
    created_by: Mapped[Name]
    expires_us: Mapped[Whole | None]
    """When it expires; null for never."""
    last_used_us: Mapped[Whole | None]
    """When it was last used; up to an hour out of date."""
    revoked_us: Mapped[Whole | None]
    revoked_by: Mapped[Name | None]
