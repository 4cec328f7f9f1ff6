"""Bounds: recommended, predicted, published, acknowledged."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.controller.base.answer import Answer, OfStream, Page
from tidemark.models.protocol.messages import Applied, Mode, PublishedAnswer
from tidemark.models.recommend.promise import Expected
from tidemark.models.recommend.steps import DecisionStep, StepKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Published(PublishedAnswer):
    """What is published to a job: one generation."""

    generation: int
    """Grows with each change of mode, bound, envelope or pin; 0 before the first."""
    published_us: int | None
    """When it was published, in microseconds since the epoch; null before the first generation."""


class BoundPage(Page):
    """A page of generations, the newest first."""

    bounds: list[Published]
    """The generations."""


class Realised(Answer):
    """How a prediction came out, by the ledger."""

    became_effective_us: int | None
    """Trigger time of the first batch whose watermark moved under the bound; null before."""
    rows: int
    """(Row, key) pairs judged while the bound was in effect."""
    late_min: int
    """Pairs that were late for sure."""
    late_max: int
    """Pairs that may have been late."""
    completeness_ppm: int | None
    """Share that was admitted, in parts per million; null while too few rows have been judged."""
    error_ppm: int | None
    """That minus the share predicted, in parts per million: 10,000 are one point; null while it is not scored."""
    scored_us: int | None
    """When it was last scored, in microseconds since the epoch; null before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction(Expected):
    """The prediction for a published bound, and how it came out."""

    generation: int
    """Generation under which the bound was published."""
    made_us: int
    """When it was made, in microseconds since the epoch."""
    realised: Realised
    """How it came out."""


class PredictionPage(Page):
    """A page of predictions, the newest first."""

    predictions: list[Prediction]
    """The predictions."""
    min_rows: int
    """Pairs that must have been judged under a bound before its prediction is scored."""


class RecommendationAnswer(Answer):
    """The newest recommendation."""

    bound_ms: int | None
    """The bound in milliseconds; null: keep the one in use."""
    generation: int | None
    """Generation under which this bound is published; null while it is not."""
    decided_us: int
    """When it was made, in microseconds since the epoch."""
    current: bool
    """Whether it rests on the newest report, SLO and policy; if not, the next tick decides again."""
    because: str
    """What the rows need and what decides the bound, as one sentence."""
    decided_by: StepKind
    """The step that does: the last one that made the bound another."""
    steps: list[DecisionStep]
    """The steps, first to last, each with its reason."""


class Receipt(OfStream):
    """Confirms that a report or an acknowledgement is stored."""

    received_us: int
    """When it was first received, in microseconds since the epoch."""
    duplicate: bool
    """Whether it was received before; then nothing was changed."""
    body_sha256: str
    """SHA-256 of the request's body, decompressed, in hex: what was sent is delivered once a receipt names it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcknowledgementFacts(Applied):
    """An acknowledgement as it was received."""

    mode: Mode
    """The stream's mode as the job knew it."""
    received_us: int
    """When it came, in microseconds since the epoch."""


class AcknowledgementPage(Page):
    """A page of acknowledgements, those applied last first."""

    acknowledgements: list[AcknowledgementFacts]
    """The acknowledgements."""
