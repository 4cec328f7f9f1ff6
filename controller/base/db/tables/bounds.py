"""Bounds: recommended, published, predicted and acknowledged."""

from __future__ import annotations

from sqlalchemy import Index, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from tidemark.controller.base.db.tables.columns import (
    AsJson,
    Base,
    Counter,
    Id,
    Identifier,
    KeyNumber,
    Long,
    Name,
    RowOfStream,
    Stream,
    Whole,
    Word,
)
from tidemark.models.protocol.messages import Envelope, Mode, Pin
from tidemark.models.recommend.bound_in_use import BoundInUse
from tidemark.models.recommend.promise import Expected, Transition
from tidemark.models.recommend.steps import DecisionStep
from tidemark.models.rollout.evidence import Judged
from tidemark.models.rollout.states import NOTHING_JUDGED


class RecommendationRow(RowOfStream):
    """The newest recommendation for a stream."""

    __tablename__ = "recommendations"

    decided_us: Mapped[Whole]
    bound_ms: Mapped[Whole | None]
    steps: Mapped[tuple[DecisionStep, ...]] = mapped_column(AsJson(DecisionStep))
    """The steps with their reasons, first to last."""
    conflict: Mapped[bool]
    """Whether the bound that completeness requires is above a cap."""
    newest_report_id: Mapped[Whole]
    slo_generation: Mapped[Whole]
    policy_generation: Mapped[Whole]
    horizon_ms: Mapped[Counter]
    """How far back its evidence counts: what the SLO says, or what was chosen where that leaves it open."""
    in_use: Mapped[BoundInUse] = mapped_column(AsJson(BoundInUse))
    """The bound in use and since when."""
    transition: Mapped[Transition | None] = mapped_column(AsJson(Transition))
    """What going there from the bound in use would do; null without a bound."""
    fencing: Mapped[Whole | None]
    """The fencing number of the lease that the loop decided it under last; written last in its transaction."""


class RecentBoundRow(RowOfStream):
    """The bound that rows required at a recent decision; nothing narrower is recommended while it is recent."""

    __tablename__ = "recent_bounds"

    at_us: Mapped[KeyNumber]
    """Trigger time of the newest batch of the decision."""
    slo_generation: Mapped[Whole]
    bound_ms: Mapped[Whole]


class PublishedRow(RowOfStream):
    """What was published to a job, one row a generation."""

    __tablename__ = "published_bounds"

    generation: Mapped[KeyNumber]
    mode: Mapped[Mode] = mapped_column(String(20))
    bound_ms: Mapped[Whole | None]
    reason: Mapped[Long]
    published_us: Mapped[Whole]
    envelope: Mapped[Envelope | None] = mapped_column(AsJson(Envelope))
    """What the fast policy has to do; null outside Live."""
    pin: Mapped[Pin | None] = mapped_column(String(20))
    """What a pin held the job to; null without one."""
    rollout_id: Mapped[Whole | None]
    """The rollout that it carries: the one whose bound (or envelope) it is; null for none, and under a pin."""
    rolled_back_id: Mapped[Whole | None]
    """The rollout whose rollback published it; null for none, and under a pin."""


class PredictionRow(RowOfStream):
    """A prediction for a published bound, and how it came out. Nulls are unknown."""

    __tablename__ = "predictions"

    generation: Mapped[KeyNumber]
    """Generation under which the bound was published."""
    expected: Mapped[Expected] = mapped_column(AsJson(Expected))
    made_us: Mapped[Whole]
    horizon_ms: Mapped[Counter]
    """Length of the evidence that it rests on; as long it is scored."""
    became_effective_us: Mapped[Whole | None]
    """Trigger time of the first batch whose watermark moved on under the bound."""
    counted_report_id: Mapped[Counter]
    """Reports up to this one are counted; 0 to count all again."""
    restored_ms: Mapped[Long] = mapped_column(default="{}", server_default="{}")
    """By query, the watermark that its first batch under the bound restored, as JSON."""
    judged: Mapped[Judged] = mapped_column(AsJson(Judged), default=NOTHING_JUDGED)
    """(Row, key) pairs judged while the bound was in effect."""
    scored_us: Mapped[Whole | None]
    """When it was last scored; null while too few rows are judged."""
    realised_ppm: Mapped[Whole | None]
    """Share of the judged pairs that were admitted."""
    realised_max_ppm: Mapped[Whole | None]
    """Upper end of its interval, which holds at every look."""
    error_ppm: Mapped[Whole | None]
    """The realised share minus the predicted one."""


class AcknowledgementRow(Base):
    """What a run of a job acknowledged that it applies."""

    __tablename__ = "acknowledgements"
    __table_args__ = (UniqueConstraint("stream_id", "fingerprint"), Index(None, "stream_id", "applied_us"))

    id: Mapped[Id]
    stream_id: Mapped[Stream]
    query_id: Mapped[Identifier]
    run_id: Mapped[Identifier]
    bound_ms: Mapped[Whole]
    generation: Mapped[Whole | None]
    source: Mapped[Word]
    mode: Mapped[Word]
    applied_us: Mapped[Whole]
    ceiling_ms: Mapped[Whole | None]
    """The ceiling in the plan; null when the run cannot be steered live."""
    run_end: Mapped[Word | None]
    """How the run ends by itself; null when it does not."""
    spark_ui: Mapped[Long | None]
    """Address of the run's page in Spark's UI."""
    called: Mapped[bool] = mapped_column(server_default=text("true"))
    """Whether the job calls ``adaptive_watermark``."""
    reads: Mapped[Name | None]
    """Source and event-time column, where nobody named the stream."""
    conf_left_out: Mapped[Long | None]
    """What of the job's conf is left out, and why; null for nothing."""
    received_us: Mapped[Whole]
    fingerprint: Mapped[Identifier]
