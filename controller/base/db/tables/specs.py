"""What people set: SLOs, of streams and of joins, policies and pins."""

from __future__ import annotations

from sqlalchemy import ForeignKey, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from tidemark.controller.base.db.tables.columns import (
    AsJson,
    Base,
    Id,
    KeyName,
    Long,
    Name,
    RowOfStream,
    Whole,
    Word,
)
from tidemark.models.recommend.joint_bounds import JointChoice
from tidemark.models.specs.slo import JoinSlo, Policy, Slo

_KEPT = 4_096
"""Some hundred bytes each."""


class JoinRow(Base):
    """The SLO on the joined output of streams of one job."""

    __tablename__ = "joins"
    __table_args__ = (UniqueConstraint("job", "name"),)

    id: Mapped[Id]
    job: Mapped[Name]
    name: Mapped[Name]
    updated_us: Mapped[Whole]
    specification: Mapped[JoinSlo] = mapped_column(AsJson(JoinSlo, _KEPT))
    """The SLO."""
    choice: Mapped[JointChoice | None] = mapped_column(AsJson(JointChoice))
    """The bounds chosen last under it; null before the first choice."""


class SloRow(RowOfStream):
    """The SLO of a stream."""

    __tablename__ = "slos"

    generation: Mapped[Whole]
    target_ppm: Mapped[Whole]
    """As in the specification, for queries."""
    updated_us: Mapped[Whole]
    specification: Mapped[Slo] = mapped_column(AsJson(Slo, _KEPT))
    """The SLO."""
    join_id: Mapped[int | None] = mapped_column(ForeignKey("joins.id"))
    """The join whose output decides about the stream's bound; null without one."""


class PolicyRow(RowOfStream):
    """The policy of a stream."""

    __tablename__ = "policies"

    generation: Mapped[Whole]
    mode: Mapped[Word]
    """As in the specification, for queries."""
    updated_us: Mapped[Whole]
    paused: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    """As in the specification, for queries."""
    paused_why: Mapped[Long | None]
    """Why it was paused by itself; null when the policy was set so."""
    specification: Mapped[Policy] = mapped_column(AsJson(Policy, _KEPT))
    """The policy."""


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
