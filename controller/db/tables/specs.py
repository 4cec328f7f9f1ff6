"""What people set: SLOs, of streams and of joins, policies, shadows and pins."""

from __future__ import annotations

from sqlalchemy import ForeignKey, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from tidemark.controller.db.tables.columns import (
    Base,
    Counter,
    Id,
    Identifier,
    KeyName,
    KeyNumber,
    Long,
    Name,
    OfStream,
    Whole,
    Word,
)


class JoinRow(Base):
    """The SLO on the joined output of streams of one job."""

    __tablename__ = "joins"
    __table_args__ = (UniqueConstraint("job", "name"),)

    id: Mapped[Id]
    job: Mapped[Name]
    name: Mapped[Name]
    updated_us: Mapped[Whole]
    specification: Mapped[Long]
    """The SLO as JSON, with its ``schema_version``."""
    choice: Mapped[Long | None]
    """The bounds chosen last under it (``joins.store``), as JSON; null before the first choice."""


class SloRow(Base):
    """The SLO of a stream."""

    __tablename__ = "slos"

    stream_id: Mapped[OfStream]
    generation: Mapped[Whole]
    target_ppm: Mapped[Whole]
    """As in the specification, for queries."""
    updated_us: Mapped[Whole]
    specification: Mapped[Long]
    """The SLO as JSON, with its ``schema_version``."""
    join_id: Mapped[int | None] = mapped_column(ForeignKey("joins.id"))
    """The join whose output decides about the stream's bound; null without one."""


class PolicyRow(Base):
    """The policy of a stream."""

    __tablename__ = "policies"

    stream_id: Mapped[OfStream]
    generation: Mapped[Whole]
    mode: Mapped[Word]
    """As in the specification, for queries."""
    updated_us: Mapped[Whole]
    paused: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    """As in the specification, for queries."""
    paused_why: Mapped[Long | None]
    """Why it was paused by itself; null when the policy was set so."""
    specification: Mapped[Long]
    """The policy as JSON, with its ``schema_version``."""


class ShadowRow(Base):
    """The target and caps that are tried beside the SLO of a stream, what they would have led to, and what is counted.

    Nulls are unknown.
    """

    __tablename__ = "shadows"

    stream_id: Mapped[OfStream]
    specification: Mapped[Long]
    """The target and caps as JSON, with their ``schema_version``."""
    reason: Mapped[Long]
    since_us: Mapped[Whole]
    decided_us: Mapped[Whole | None]
    bound_ms: Mapped[Whole | None]
    """The bound that would be in use; null before the first recommendation."""
    steps: Mapped[Long] = mapped_column(default="[]", server_default="[]")
    """The steps of the newest decision, as in ``recommendations``."""
    recent: Mapped[Long] = mapped_column(default="[]", server_default="[]")
    """The bounds that rows required at recent decisions, as JSON: [[time of the newest batch, bound], ...]."""
    counted_report_id: Mapped[Counter]
    """Reports up to this one are counted in ``shadow_days``."""
    query_id: Mapped[Identifier | None]
    """The query that the newest one of them is of."""
    closed_us: Mapped[Whole | None]
    """Up to where the shadow's bounds would have closed its windows."""
    in_use_closed_us: Mapped[Whole | None]
    """Up to where they are closed."""


class ShadowDayRow(Base):
    """What a shadow's bounds would have done in the batches of one day (UTC), beside what the bounds in use did."""

    __tablename__ = "shadow_days"

    stream_id: Mapped[OfStream]
    day_us: Mapped[KeyNumber]
    bound_ms: Mapped[Whole | None]
    """The shadow's bound after the newest batch; null before its first recommendation."""
    in_use_bound_ms: Mapped[Whole]
    """The bound of the newest batch."""
    rows: Mapped[Whole]
    """The columns from here on are those of ``models.shadow.ShadowTally``."""
    late: Mapped[Whole]
    unknown_rows: Mapped[Whole]
    judged_rows: Mapped[Whole]
    late_min: Mapped[Whole]
    late_max: Mapped[Whole]
    unjudged_rows: Mapped[Whole]
    windows: Mapped[Whole]
    latency_ms: Mapped[Whole]
    in_use_windows: Mapped[Whole]
    in_use_latency_ms: Mapped[Whole]


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
