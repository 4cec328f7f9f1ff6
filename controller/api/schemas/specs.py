"""SLOs and policies as they are set, and what follows from setting them."""

from __future__ import annotations

from tidemark.controller.api.schemas.answer import Answer
from tidemark.controller.api.schemas.bounds import Published
from tidemark.controller.api.schemas.predictions import TransitionAnswer
from tidemark.controller.api.schemas.recommended import RecommendationAnswer
from tidemark.models.slo import Approval, Day, Direction, Objective, OnConflict, OnNoData
from tidemark.models.wire import Mode

__all__ = ["Consequences", "Freeze", "PolicyAnswer", "PolicySet", "SloAnswer", "SloSet"]


class SloAnswer(Answer):
    """The SLO of a stream as it stands."""

    target: str
    """Share of (row, window) pairs to be admitted, as the shortest decimal string."""
    target_ppm: int
    """The same in parts per million."""
    latency_cap_ms: int | None
    """Greatest mean emit latency allowed, in milliseconds; null for no cap."""
    on_conflict: OnConflict | None
    """Which constraint gives way when no bound meets all; null: none."""
    confidence_ppm: int
    """Confidence with which the target must be certified, in parts per million."""
    horizon_ms: int
    """How far back evidence counts, in milliseconds."""
    objective: Objective
    """occurrences: the target is a share of all rows; timeslices: a share of the windows must reach it, each."""
    good_windows_ppm: int
    """Under timeslices: share of the windows that must reach the target, in parts per million."""
    window_ms: int
    """Rolling window over which the budget counts, in milliseconds."""
    state_cap_rows: int | None
    """Most rows of state allowed; null for no cap."""
    worst_window_ppm: int | None
    """Least completeness that every single window must keep, in parts per million; null for no floor."""
    generation: int
    """How often the SLO was changed; also its ETag."""
    updated_us: int | None
    """When it was last changed, in microseconds since the epoch."""


class Freeze(Answer):
    """Minutes of a week, in UTC, in which nothing is narrowed."""

    days: list[Day]
    """Days of the week."""
    from_minute: int
    """First minute of the day, 0 being midnight UTC."""
    to_minute: int
    """Minute of the day at which it ends, itself not in it."""


class PolicyAnswer(Answer):
    """The policy of a stream as it stands."""

    mode: Mode
    """Off watches only; OnRestart gives the job its bound when it next starts; Restart has the runner start it again;
    Live steers it without a restart."""
    min_bound_ms: int
    """The bound is never narrower than this, in milliseconds."""
    max_bound_ms: int | None
    """The bound is never wider than this, in milliseconds; null for no limit."""
    directions: list[Direction]
    """Which ways the bound may be changed."""
    margin_ppm: int
    """What is added to the bound that rows ask for, as a share of it, in parts per million."""
    cooldown_ms: int
    """Least time between two published narrowings, in milliseconds."""
    max_narrowings_a_day: int | None
    """Most narrowings that are published within any 24 hours; null for no limit."""
    max_narrowing_ppm: int | None
    """Most by which one rollout narrows, as a share of the bound in use, in parts per million; null for no limit."""
    evidence_ms: int
    """Event time that reports must cover before a stream's first narrowing, in milliseconds; 0 for none."""
    evidence_windows: int
    """Windows of event time that they must cover before it; 0 for none."""
    freeze_windows: list[Freeze]
    """When nothing is narrowed, in UTC."""
    paused: bool
    """Whether nothing new is rolled."""
    on_no_data: OnNoData
    """What a job whose reports stopped is told: hold the bound, the greatest bound, or its own."""
    approval: Approval
    """Which rollouts wait for a person: none, the first of the stream, those that narrow, or all."""
    generation: int
    """How often the policy was changed, 0 for the default; also its ETag."""
    updated_us: int | None
    """When it was last changed, in microseconds since the epoch; null for the default."""


class Consequences(Answer):
    """What follows from a write for what the job is told."""

    dry_run: bool
    """Whether the write was only tried: then nothing was changed, and this is what would follow."""
    recommended: RecommendationAnswer | None
    """The recommendation after it; null while there is none."""
    transition: TransitionAnswer | None
    """What going from the bound in use to the recommended one will do; null without a recommended bound."""
    published: Published
    """What a job that asks is told after it."""


class SloSet(Consequences, SloAnswer):
    """The SLO as it was set, and what follows."""


class PolicySet(Consequences, PolicyAnswer):
    """The policy as it was set, and what follows."""
