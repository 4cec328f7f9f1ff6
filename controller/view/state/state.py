"""The state of one stream: what conditions, alerts, metrics, the fleet and the status are computed from.

``load`` reads it, for one stream or for many at once. Unknown and absent values are None, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from tidemark.controller.base.alert_table import MIN_LATE_ROWS
from tidemark.controller.base.db.tables import (
    AcknowledgementRow,
    OverviewRow,
    PredictionRow,
    PublishedRow,
    RecommendationRow,
    ReportRow,
    RolloutRow,
    StreamRow,
)
from tidemark.controller.control.decide.join_sides import JoinMiss
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.reports.live import NewestState
from tidemark.controller.reports.partitions import FutureRows, MisdatedRows, Skew
from tidemark.controller.specs.store import Spec, horizon_ms_under
from tidemark.controller.view.state.partition_rows import PartitionFacts
from tidemark.controller.view.state.recent_reports import RecentQuery
from tidemark.models.base.duration import format_about, format_duration
from tidemark.models.base.target import PPM
from tidemark.models.evidence.events import Overdispersion
from tidemark.models.evidence.horizon import HorizonFacts
from tidemark.models.evidence.ledger import effective_bound_ms
from tidemark.models.evidence.losses import LostSummary
from tidemark.models.evidence.partition_counts import SkewCost
from tidemark.models.evidence.progress import Progress
from tidemark.models.live.kept import KeptLive
from tidemark.models.protocol.late_policy import LateTreatment
from tidemark.models.protocol.messages import AppliedState, Mode, has_applied
from tidemark.models.recommend.steps import DecisionStep, StepKind
from tidemark.models.rollout.gate import frozen_until_us
from tidemark.models.specs.pin import StoredPin
from tidemark.models.specs.slo import Policy, Slo


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestBatch:
    """The newest batch of a stream."""

    report: ReportRow
    base_ms: int | None
    """The maximum event time that the watermark after it could know."""
    gap_us: int | None
    """Mean time between the triggers of the newest batches, at most ``RECENT_BATCHES``; None of fewer than two."""
    driver: NewestState
    """What its report says of live control, the append delay and the operator."""

    @property
    def watermark_ms(self) -> int | None:
        """The watermark after it; None while there is none."""
        return self.report.watermark_ms or None

    @property
    def effective_bound_ms(self) -> int | None:
        """How far the watermark trails the base."""
        return effective_bound_ms(self.base_ms, self.report.watermark_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamState:
    """The state of one stream, as far as it can be read for all streams at once."""

    row: StreamRow
    slo: Spec[Slo] | None
    join_id: int | None
    """The join whose output decides about its bound; None without one."""
    policy: Spec[Policy]
    paused_why: str | None
    """Why it is paused; None when it is not, or when the policy was set so."""
    future_rows: int
    """Future-dated rows since it was first seen."""
    misdated_rows: int
    """Rows since then whose event time no delay explains."""
    missing_batches: int | None
    """Batches never reported; None before the first report."""
    newest: NewestBatch | None
    recommendation: RecommendationRow | None
    published: PublishedRow | None
    """What is published to the job; None before the first generation."""
    unpinned: PublishedRow | None
    pin: StoredPin | None
    applied: AcknowledgementRow | None
    rollout: RolloutRow | None
    missed: RolloutRow | None
    """The rollout that missed its target after it was verified, while its bound is the published one."""
    prediction: PredictionRow | None
    """The newest prediction of a published bound."""
    former: str | None = None
    """The stream of its job that read the same and has been silent since it began; None without any."""
    overview: OverviewRow | None
    lost: LostSummary | None
    """Who is lost, as of that; None without a dimension."""

    @property
    def id(self) -> int:
        """The stream's id."""
        return self.row.id

    @property
    def mode(self) -> Mode:
        """Its mode."""
        return self.policy.value.mode

    @property
    def late(self) -> LateTreatment | None:
        """What its job does with late rows; None before it acknowledged."""
        return self.row.late

    @property
    def steps(self) -> Sequence[DecisionStep]:
        """The steps of its recommendation; empty without one."""
        return () if self.recommendation is None else self.recommendation.steps

    @property
    def paused(self) -> bool:
        """Whether its policy is paused."""
        return self.policy.value.paused

    def frozen_until_us(self, now_us: int) -> int | None:
        """Return when the freeze that holds at ``now_us`` ends; None when none does, and in mode Off."""
        return None if self.mode == "Off" else frozen_until_us(self.policy.value.freeze_windows, now_us)

    @property
    def horizon_ms(self) -> int:
        """How far back evidence counts."""
        slo, recommended = self.slo, self.recommendation
        return horizon_ms_under(
            None if slo is None else slo.value, None if recommended is None else recommended.horizon_ms
        )

    @property
    def horizon(self) -> Horizon | None:
        """The batches that count; None before the first report."""
        if self.newest is None:
            return None
        return Horizon(self.id, self.horizon_ms, self.newest.report)

    @property
    def live(self) -> KeptLive | None:
        """What the fast policy did in the newest batch; None unless it ran in Live."""
        return None if self.newest is None else self.newest.driver.live

    @property
    def required_ms(self) -> int | None:
        """The bound that the rows require, before any guard rail or limit; None when there is too little evidence."""
        return next((step.bound_ms for step in self.steps if step.kind is StepKind.ROUND_UP), None)

    @property
    def saturated(self) -> bool | None:
        """Whether the rows require more than the limits of the bound or the ceiling allow; None when unknown."""
        near = self.live is not None and self.live.near_ceiling
        if self.recommendation is None:
            return near if self.live is not None else None
        return near or _limited(self.steps)

    @property
    def missed_window_us(self) -> int | None:
        """End of the newest closed window, if it is below the target for sure by rows that matter; else None."""
        windows = None if self.overview is None else self.overview.windows
        if windows is None or self.slo is None or windows.late_min < MIN_LATE_ROWS:
            return None
        slo = self.slo.value
        target_ppm = slo.target_ppm if slo.worst_window_ppm is None else slo.worst_window_ppm
        counted = windows.rows - windows.late_min
        return windows.closed_us if counted * PPM < target_ppm * windows.rows else None

    @property
    def adopted(self) -> bool | None:
        """Whether the job applies what is published to it; None when nothing is published."""
        published, applied = self.published, self.applied
        if published is None or (published.bound_ms is None and published.mode != "Live"):
            return None
        last_contact_us = None if self.live is None else self.live.last_contact_us
        acknowledged = (
            AppliedState(last_contact_us=last_contact_us)
            if applied is None
            else AppliedState(
                applied.generation, applied.bound_ms, cast("Mode", applied.mode), last_contact_us
            )
        )
        return has_applied(
            acknowledged,
            generation=published.generation,
            mode=published.mode,
            bound_ms=published.bound_ms,
            published_us=published.published_us,
        )

    def room(self, skew: Skew | None) -> Room | None:
        """Return what the ceiling has to leave room for; None while the job has acknowledged nothing.

        Args:
            skew: how far apart the partitions are; None when that is not known.
        """
        if self.applied is None:
            return None
        ceiling_ms = self.applied.ceiling_ms
        if self.newest is None:
            return Room(ceiling_ms, self.applied.bound_ms)
        bound_ms = self.newest.report.bound_ms
        if self.live is not None and bound_ms >= self.live.ceiling_ms:
            # The plan of a live run holds its ceiling; what partitions keep to is what was published.
            bound_ms = 0 if self.unpinned is None else self.unpinned.bound_ms or 0
        if skew is None:
            return Room(ceiling_ms, bound_ms)
        return Room(ceiling_ms, bound_ms, -(-skew.behind_us // 1_000), skew.partition)


def _limited(steps: Sequence[DecisionStep]) -> bool:
    """Return whether the policy's limits, or the SLO's window, made the bound narrower."""
    before_ms = None
    limited = False
    for step in steps:
        if step.kind is StepKind.LIMITS:
            limited = before_ms is not None and step.bound_ms is not None and step.bound_ms < before_ms
        before_ms = step.bound_ms
    return limited


@dataclass(frozen=True, slots=True, kw_only=True)
class HorizonState:
    """What a stream's reports add up to over its horizon: too costly to read for all streams at once."""

    horizon: Horizon
    facts: HorizonFacts
    overdispersion: Overdispersion
    """How unevenly late rows came."""
    progress: Progress
    """Its pace, gaps and silences."""
    skew: Skew | None
    """How far apart its partitions are."""
    future: FutureRows
    misdated: MisdatedRows
    """Rows whose event time no delay explains."""
    partitions: Sequence[PartitionFacts]
    """All partitions, those that are gone too, by name."""
    skewed: Sequence[SkewCost]
    """Partitions that are skewed, the most costly first."""
    queries: Sequence[RecentQuery]
    """The queries that reported it of late, in the order in which they began."""
    join_miss: JoinMiss | None
    """By what the output of its join misses the target for sure; None without a join, or when it may meet it."""


NO_CEILING = "the job cannot be steered: over Spark Connect, with late=revise, or without its classes in Java"
"""Why a job cannot run in Live."""


@dataclass(frozen=True, slots=True)
class Room:
    """A ceiling and what it has to leave room for. Times are in milliseconds.

    In Live, Spark always takes the greater of the watermark by the ceiling and the one by live control. When the
    controller or that which steers is gone, only the ceiling holds the watermark back. So it has to be at least the
    bound plus how far the slowest partition is behind: a lower one closes windows that live control would hold open.
    """

    ceiling_ms: int | None
    """The ceiling that the job last acknowledged; None when it cannot be steered."""
    bound_ms: int = 0
    """The bound in use; 0 when none is known."""
    skew_ms: int = 0
    """How far the slowest partition is behind the stream's maximum event time; 0 when it is not known."""
    partition: str | None = None
    """Name of the slowest partition; None when it is not known."""

    @property
    def needed_ms(self) -> int:
        """The minimum ceiling."""
        return self.bound_ms + self.skew_ms

    @property
    def too_low(self) -> bool:
        """Whether there is a ceiling and it is too low."""
        return self.ceiling_ms is not None and self.ceiling_ms < self.needed_ms

    @property
    def needed(self) -> str:
        """How the minimum ceiling is made up, in words."""
        reason = f"{_about(self.bound_ms)} of bound"
        if self.partition is None:
            return reason
        behind = f"{_about(self.skew_ms)} by which partition {self.partition!r} is behind"
        return f"{_about(self.needed_ms)}: {reason} and {behind}"


def _about(duration_ms: int) -> str:
    # Short ones to the millisecond, since people copy a ceiling from here.
    return (
        format_duration(duration_ms * 1_000) if duration_ms < 120_000 else format_about(duration_ms * 1_000)
    )
