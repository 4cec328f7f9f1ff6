"""Rollouts, and the bounds that failed."""

from __future__ import annotations

from sqlalchemy import Index, String, text
from sqlalchemy.orm import Mapped, mapped_column

from tidemark.controller.base.db.tables.columns import (
    AsJson,
    Base,
    Counter,
    Id,
    Long,
    Name,
    Stream,
    Whole,
)
from tidemark.models.protocol.messages import Envelope, Mode
from tidemark.models.recommend.promise import NOTHING_PROMISED, Promise
from tidemark.models.rollout.evidence import Judged
from tidemark.models.rollout.states import NOTHING_JUDGED, Approved, Cause, Gate, GateAnswer, State
from tidemark.models.specs.slo import Direction


class RolloutRow(Base):
    """One change of the published bound or envelope; ``models.rollout.states.Rollout`` says what its columns are."""

    __tablename__ = "rollouts"
    __table_args__ = (Index(None, "stream_id", "id"), Index(None, "state", "id"))

    id: Mapped[Id]
    stream_id: Mapped[Stream]
    """Its number; later ones have higher numbers."""
    state: Mapped[State] = mapped_column(String(20))
    reason: Mapped[Long]
    held_by: Mapped[Gate | None] = mapped_column(String(40))
    cause: Mapped[Cause] = mapped_column(String(20))
    direction: Mapped[Direction] = mapped_column(String(20))
    first: Mapped[bool]
    mode: Mapped[Mode] = mapped_column(String(20))
    from_bound_ms: Mapped[Whole | None]
    to_bound_ms: Mapped[Whole | None]
    from_envelope: Mapped[Envelope | None] = mapped_column(AsJson(Envelope))
    to_envelope: Mapped[Envelope | None] = mapped_column(AsJson(Envelope))
    in_use_bound_ms: Mapped[Whole | None]
    generation: Mapped[Whole | None]
    slo_generation: Mapped[Whole]
    policy_generation: Mapped[Whole]
    report_id: Mapped[Whole]
    """The newest report that it rests on."""
    predicted: Mapped[Promise] = mapped_column(AsJson(Promise), default=NOTHING_PROMISED)
    created_us: Mapped[Whole]
    changed_us: Mapped[Whole]
    approved_us: Mapped[Whole | None]
    approved_by: Mapped[Name | None]
    approval_reason: Mapped[Long | None]

    @property
    def approved(self) -> Approved | None:
        """Who approved it; None when nobody has."""
        if self.approved_us is None:
            return None
        return Approved(at_us=self.approved_us, by=self.approved_by, reason=self.approval_reason or "")

    vetoed: Mapped[bool] = mapped_column(default=False, server_default=text("false"))
    published_us: Mapped[Whole | None]
    acknowledged_us: Mapped[Whole | None]
    effective_us: Mapped[Whole | None]
    judged: Mapped[Judged] = mapped_column(AsJson(Judged), default=NOTHING_JUDGED)
    needed_rows: Mapped[Counter]
    ended_us: Mapped[Whole | None]
    effective_watermark_ms: Mapped[Whole | None]
    """The watermark of the first batch that it was in effect in; null before it."""
    at_risk_from_ms: Mapped[Whole | None]
    """Rows judged by a higher watermark are at risk: whole windows opened and closed under the rollout."""
    counted_report_id: Mapped[Counter]
    """Reports up to this one are counted in the columns below."""
    at_risk: Mapped[Judged] = mapped_column(AsJson(Judged), default=NOTHING_JUDGED)
    event_ms: Mapped[Counter]
    needed_event_ms: Mapped[Counter]
    lost_rows: Mapped[Counter]
    """(Row, key) pairs that the stream lost of late, when it last waited for its turn to restart."""
    waits_us: Mapped[Whole | None]
    """When it was last found waiting for that turn; null when it never was."""
    gate_answers: Mapped[tuple[GateAnswer, ...]] = mapped_column(AsJson(GateAnswer), default=())
    missed_us: Mapped[Whole | None]


class FailedBoundRow(Base):
    """A bound or envelope that was rolled back by itself, and until when it is not tried again."""

    __tablename__ = "failed_bounds"
    __table_args__ = (Index(None, "stream_id", "id"),)

    id: Mapped[Id]
    stream_id: Mapped[Stream]
    rollout_id: Mapped[Whole]
    direction: Mapped[Direction] = mapped_column(String(20))
    """Narrow: bounds this narrow or narrower are held back; Widen: bounds this wide or wider."""
    bound_ms: Mapped[Whole | None]
    envelope: Mapped[Envelope | None] = mapped_column(AsJson(Envelope))
    """The envelope that failed; null when the bound did."""
    why: Mapped[Long]
    until_us: Mapped[Whole]
    slo_generation: Mapped[Whole]
    policy_generation: Mapped[Whole]
