"""Rollouts, and the bounds that failed."""

from __future__ import annotations

from sqlalchemy import Index, text
from sqlalchemy.orm import Mapped, mapped_column

from tidemark.controller.base.db.tables.columns import (
    Base,
    Counter,
    Id,
    Kind,
    Long,
    Name,
    Stream,
    Whole,
    Word,
)


class RolloutRow(Base):
    """One change of the published bound (or envelope), from proposal to end; see ``tidemark.models.rollout``."""

    __tablename__ = "rollouts"
    __table_args__ = (Index(None, "stream_id", "id"), Index(None, "state", "id"))

    id: Mapped[Id]
    stream_id: Mapped[Stream]
    state: Mapped[Word]
    reason: Mapped[Long]
    """Why it is in this state, or what it waits for."""
    held_by: Mapped[Kind | None]
    """The gate that holds it; null when none does."""
    cause: Mapped[Word]
    direction: Mapped[Word]
    first: Mapped[bool]
    """Whether no bound was published before it."""
    mode: Mapped[Word]
    from_bound_ms: Mapped[Whole | None]
    to_bound_ms: Mapped[Whole | None]
    from_envelope: Mapped[Long | None]
    to_envelope: Mapped[Long | None]
    in_use_bound_ms: Mapped[Whole | None]
    """The bound in the plan of the newest batch when it was proposed."""
    generation: Mapped[Whole | None]
    """Generation that published it first; null before. Which generations carry it, ``PublishedRow`` says."""
    slo_generation: Mapped[Whole]
    policy_generation: Mapped[Whole]
    report_id: Mapped[Whole]
    """The newest report that it rests on."""
    rows: Mapped[Whole]
    """(Row, key) pairs that it rests on."""
    late: Mapped[Whole]
    """How many of them would have been late."""
    events: Mapped[Whole]
    """How many independent events the pairs amount to."""
    min_ppm: Mapped[Whole | None]
    max_ppm: Mapped[Whole | None]
    latency_wall_ms: Mapped[Whole | None]
    state_rows: Mapped[Whole | None]
    created_us: Mapped[Whole]
    changed_us: Mapped[Whole]
    """When its state last changed."""
    approved_us: Mapped[Whole | None]
    approved_by: Mapped[Name | None]
    approval_reason: Mapped[Long | None]
    vetoed: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    """Whether a person discarded it or rolled it back, and nobody has lifted that veto."""
    published_us: Mapped[Whole | None]
    acknowledged_us: Mapped[Whole | None]
    effective_us: Mapped[Whole | None]
    judged_rows: Mapped[Counter]
    judged_late_min: Mapped[Counter]
    judged_late_max: Mapped[Counter]
    needed_rows: Mapped[Counter]
    """(Row, key) pairs that must be at risk under it before it is verified."""
    ended_us: Mapped[Whole | None]
    effective_watermark_ms: Mapped[Whole | None]
    """The watermark of the first batch that it was in effect in; null before it."""
    at_risk_from_ms: Mapped[Whole | None]
    """Rows judged by a higher watermark are at risk: whole windows opened and closed under the rollout."""
    counted_report_id: Mapped[Counter]
    """Reports up to this one are counted in the columns below."""
    at_risk_rows: Mapped[Counter]
    """(Row, key) pairs that were at risk under it."""
    at_risk_late_min: Mapped[Counter]
    at_risk_late_max: Mapped[Counter]
    event_ms: Mapped[Counter]
    """How far the watermark has moved since it took effect, in event time."""
    needed_event_ms: Mapped[Counter]
    """How far it must move before the rollout is verified; 0 before it is in effect."""
    lost_rows: Mapped[Counter]
    """(Row, key) pairs that the stream lost of late, when it last waited for its turn to restart."""
    waits_us: Mapped[Whole | None]
    """When it was last found waiting for that turn; null when it never was."""
    gate_answers: Mapped[Long | None]
    """The newest answers of outside gates about it, as JSON; null before the first."""
    missed_us: Mapped[Whole | None]
    """When it missed its target after it was verified; null when it did not, or meets it again."""


class FailedBoundRow(Base):
    """A bound or envelope that was rolled back by itself, and until when it is not tried again."""

    __tablename__ = "failed_bounds"
    __table_args__ = (Index(None, "stream_id", "id"),)

    id: Mapped[Id]
    stream_id: Mapped[Stream]
    rollout_id: Mapped[Whole]
    direction: Mapped[Word]
    """Narrow: bounds this narrow or narrower are held back; Widen: bounds this wide or wider."""
    bound_ms: Mapped[Whole | None]
    envelope: Mapped[Long | None]
    """The envelope that failed, as JSON; null when the bound did."""
    why: Mapped[Long]
    until_us: Mapped[Whole]
    slo_generation: Mapped[Whole]
    policy_generation: Mapped[Whole]
