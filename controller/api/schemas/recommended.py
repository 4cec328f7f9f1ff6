"""The recommendation and its chain of reasons."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.models.recommend.steps import StepKind

__all__ = ["Recommended", "Step"]


class Step(Answer):
    """One step of the reasons chain."""

    kind: StepKind
    """What the step does."""
    name: str
    """The same for people."""
    bound_ms: int | None
    """The bound after the step, in milliseconds; null while there is none."""
    reason: str
    """Why, with the figures."""


class Recommended(Answer):
    """The newest recommendation."""

    bound_ms: int | None
    """The bound in milliseconds; null: keep the one in use."""
    generation: int | None
    """Generation under which jobs are told this bound; null while they are not."""
    decided_us: int
    """When it was made, in microseconds since the epoch."""
    current: bool
    """Whether it rests on the newest report and on the SLO and policy as they stand; if not, the next turn mends it."""
    steps: list[Step]
    """How it came about, first step to last."""
