"""What is tried beside the SLO in force, and what it would have done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from tidemark.controller.api.schemas.specs import ANSWERED
from tidemark.controller.api.schemas.streams import StepAnswer
from tidemark.controller.runtime.answer import Answer
from tidemark.models.specs.shadow_slo import ShadowSlo


class ShadowOutcome(Answer):
    """What a bound, or the bounds after one another, admitted and cost."""

    bound_ms: int | None
    """The newest bound, in milliseconds; null while there is none."""
    rows: int
    """(Row, key) pairs whose fate is known."""
    late_min: int
    """How many of them were late for sure."""
    late_max: int
    """How many may have been late."""
    unknown_rows: int
    """Rows whose fate is not known; in `in_use` an upper limit of their (row, key) pairs."""
    completeness_min_ppm: int | None
    """Share of these pairs that was admitted for sure, in parts per million; null without pairs."""
    completeness_max_ppm: int | None
    """Share that may have been admitted, in parts per million; null without pairs."""
    windows: int
    """Windows that came out."""
    latency_wall_ms: int | None
    """Mean over them of the wall time of emission minus the window's end, in milliseconds; null without windows."""


class ShadowDay(Answer):
    """One day."""

    from_us: int
    """Its start (UTC), in microseconds since the epoch; the first and the newest day may be incomplete."""
    in_use: ShadowOutcome
    """What the bounds in use did, by the ledger."""
    shadow: ShadowOutcome
    """What the shadow's bounds would have done."""


@dataclass(frozen=True, kw_only=True)
class ShadowAnswer(ShadowSlo):
    """What is tried beside the SLO in force, and what it would have done."""

    __pydantic_config__: ClassVar[dict[str, Any]] = ANSWERED

    dry_run: bool
    """Whether it was a dry run: then nothing was changed."""
    since_us: int
    """When it was set, in microseconds since the epoch."""
    reason: str
    """Why it was set."""
    decided_us: int | None
    """When its bound was last decided, in microseconds since the epoch; null before the first time."""
    because: str | None
    """What decided it, as one sentence; null before the first time."""
    steps: list[StepAnswer]
    """How that decision came about, first step to last."""
    in_use: ShadowOutcome
    """What the bounds in use did over all days, by the ledger."""
    shadow: ShadowOutcome
    """What the shadow's bounds would have done over them, had each been in effect as soon as it was recommended."""
    days: list[ShadowDay]
    """The same by day, the newest first; days that are older than history is kept are left out."""
    notes: list[str]
    """What limits the comparison."""
