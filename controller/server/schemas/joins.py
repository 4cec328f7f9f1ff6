"""Joins: the SLO on the joined output of several streams, and what it asks of each."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.controller.base.answer import Answer, Page
from tidemark.models.specs.slo import JoinSlo


class JoinSideAnswer(Answer):
    """One stream of a join."""

    stream: str
    """Name of the stream."""
    bound_ms: int | None
    """What the joined output needs of it, in milliseconds; null while that is not known."""
    in_use_bound_ms: int | None
    """The bound in the plan of its newest batch, in milliseconds; null before its first report."""
    rows: int
    """Rows that the needed bound rests on."""
    late: int | None
    """How many of them would be late under the bounds of all sides, at most; null without bounds."""
    judged_rows: int
    """Rows judged by Spark's late rule over the SLO's window."""
    late_min: int
    """How many of those were late for sure."""
    late_max: int
    """How many of those may have been late."""
    reason: str
    """Why this bound, or why none."""


class JoinStateAnswer(Answer):
    """How a join is doing."""

    query_id: str | None
    """Spark's persistent id of the query that reports all of its streams; null when no single one does."""
    batches: int
    """Batches that the bounds rest on: those that every stream reported."""
    missing_batches: int
    """Batches between them that some stream did not report, or whose reports are not kept: nothing is narrowed."""
    from_us: int | None
    """Trigger time of the first of them, in microseconds since the epoch; null without any."""
    to_us: int | None
    """Trigger time of the last."""
    unknown_rows: int
    """Rows in them whose need is not known; they do not count."""
    common_bound_ms: int | None
    """The lowest bound that meets the target when every stream has it, in milliseconds; null without bounds."""
    provisional_bound_ms: int | None
    """The same as an estimate, while too few rows are known to choose bounds: the lowest such bound by the rows seen so
    far, in milliseconds; null with bounds, and without rows of each stream."""
    lost_min_ppm: int | None
    """Minimum share of the joined pairs lost over the SLO's window, in parts per million; null while not known."""
    lost_max_ppm: int | None
    """Maximum share of them: the streams' shares of late rows added up."""
    remaining_ppm: int | None
    """Minimum share of the budget that is left; negative when overdrawn, null while not known."""
    sides: list[JoinSideAnswer]
    """The streams by name."""


@dataclass(frozen=True, kw_only=True)
class JoinAnswer(JoinSlo):
    """The SLO of a join, and how the join is doing."""

    updated_us: int
    """When it was last changed, in microseconds since the epoch."""
    dry_run: bool
    """Whether it was a dry run: then nothing was changed."""
    state: JoinStateAnswer
    """How the join is doing; after a write, or a dry run of one, under the new SLO."""


@dataclass(frozen=True, kw_only=True)
class NamedJoin(JoinAnswer):
    """A join in a list."""

    join: str
    """Name of the join."""


class JoinPage(Page):
    """A page of joins, by name."""

    joins: list[NamedJoin]
    """The joins."""
