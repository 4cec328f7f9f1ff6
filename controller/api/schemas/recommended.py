"""The recommendation and the reason of each step."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.recommend.steps import StepKind


class StepAnswer(Answer):
    """One step of a decision."""

    kind: StepKind
    """What the step does."""
    name: str
    """The same for people."""
    bound_ms: int | None
    """The bound after the step, in milliseconds; null while there is none."""
    reason: str
    """Why, with the figures."""


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
    steps: list[StepAnswer]
    """The steps, first to last, each with its reason."""
