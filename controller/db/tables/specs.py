"""What people set: SLOs, policies and pins."""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.orm import Mapped, mapped_column

from tidemark.controller.db.tables.columns import Base, Counter, KeyName, Long, OfStream, Whole, Word

__all__ = ["PinRow", "PolicyRow", "SloRow"]


class SloRow(Base):
    """The SLO of a stream."""

    __tablename__ = "slos"

    stream_id: Mapped[OfStream]
    generation: Mapped[Whole]
    target_ppm: Mapped[Whole]
    latency_cap_ms: Mapped[Whole | None]
    on_conflict: Mapped[Word | None]
    confidence_ppm: Mapped[Whole]
    horizon_ms: Mapped[Whole]
    updated_us: Mapped[Whole]
    objective: Mapped[Word] = mapped_column(default="occurrences", server_default="occurrences")
    good_windows_ppm: Mapped[Whole] = mapped_column(default=990_000, server_default="990000")
    window_ms: Mapped[Whole] = mapped_column(default=2_592_000_000, server_default="2592000000")
    state_cap_rows: Mapped[Whole | None]
    worst_window_ppm: Mapped[Whole | None]


class PolicyRow(Base):
    """The policy of a stream."""

    __tablename__ = "policies"

    stream_id: Mapped[OfStream]
    generation: Mapped[Whole]
    mode: Mapped[Word]
    min_bound_ms: Mapped[Whole]
    max_bound_ms: Mapped[Whole | None]
    updated_us: Mapped[Whole]
    directions: Mapped[Word] = mapped_column(default="Widen Narrow", server_default="Widen Narrow")
    """Separated by a space."""
    margin_ppm: Mapped[Counter]
    cooldown_ms: Mapped[Whole] = mapped_column(default=3_600_000, server_default="3600000")
    max_narrowings_a_day: Mapped[Whole | None]
    max_narrowing_ppm: Mapped[Whole | None]
    evidence_ms: Mapped[Whole] = mapped_column(default=3_600_000, server_default="3600000")
    evidence_windows: Mapped[Whole] = mapped_column(default=100, server_default="100")
    freeze_windows: Mapped[Long] = mapped_column(default="[]", server_default="[]")
    """As JSON: [{"days": [...], "from_minute": ..., "to_minute": ...}, ...]."""
    paused: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    paused_why: Mapped[Long | None]
    """Why it was paused; null when the whole policy was set."""
    on_no_data: Mapped[Word] = mapped_column(default="hold", server_default="hold")
    approval: Mapped[Word] = mapped_column(default="none", server_default="none")


class PinRow(Base):
    """A kill switch on a stream, a job or the whole fleet."""

    __tablename__ = "pins"

    job: Mapped[KeyName]
    """Name of the job; empty for the whole fleet, since a key column cannot be null."""
    stream: Mapped[KeyName]
    """Name of the stream; empty for all streams of the job."""
    held_to: Mapped[Word]
    reason: Mapped[Long]
    since_us: Mapped[Whole]
