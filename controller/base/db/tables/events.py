"""Events."""

from __future__ import annotations

from sqlalchemy import Index
from sqlalchemy.orm import Mapped, mapped_column

from tidemark.controller.base.db.tables.columns import (
    Base,
    Id,
    Kind,
    Long,
    Name,
    Stream,
    Whole,
)


class EventRow(Base):
    """One change and its reason."""

    __tablename__ = "events"
    __table_args__ = (Index(None, "stream_id", "id"),)

    id: Mapped[Id]
    stream_id: Mapped[Stream] = mapped_column(nullable=True)
    """Its stream; null for a change of the controller itself, such as a new token."""
    at_us: Mapped[Whole]
    kind: Mapped[Kind]
    reason: Mapped[Long]
    before: Mapped[Long | None]
    after: Mapped[Long | None]
    reason_class: Mapped[Kind | None]
    """Class of the reason; null when only equal wording is the same reason."""
    count: Mapped[Whole] = mapped_column(default=1, server_default="1")
    """How often it came about in a row."""
    last_us: Mapped[Whole]
    """When it came about last, in microseconds since the epoch."""
    by: Mapped[Name | None]
    """Who did it; null when the controller did, or when nobody had to say who they are."""
    rollout_id: Mapped[Whole | None]
    """Its rollout; null for none."""
    rows: Mapped[Whole | None]
    """(Row, key) pairs that it rests on; null without any."""
    report_id: Mapped[Whole | None]
    """The newest report that it rests on; null without any."""
