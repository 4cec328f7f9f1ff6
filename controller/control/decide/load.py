"""Loading what a decision about a stream depends on, in one read of the store."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import (
    LedgerKeyRow,
    PartitionRow,
    PolicyRow,
    RecommendationRow,
    ReportBodyRow,
    ReportRow,
    SloRow,
    StreamRow,
)
from tidemark.controller.control.bounds.publication import SteeredStream, last_published
from tidemark.controller.control.bounds.recommendations import recent_bounds_ms
from tidemark.controller.control.decide.join_sides import side_of
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.evidence.horizon import Horizon, horizon_of
from tidemark.controller.evidence.windows import windows_in
from tidemark.controller.reports.live import newest_state
from tidemark.controller.reports.stored_bodies import NEEDS_BY, stored_needs
from tidemark.controller.specs.store import get_specs
from tidemark.models.base.defaults import SAMPLED_BATCHES
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s, TimeWindow
from tidemark.models.evidence.curve import Curve
from tidemark.models.evidence.horizon import HorizonFacts, shortest_enough
from tidemark.models.evidence.progress import PartitionTimes, Progress, progress_of_table
from tidemark.models.protocol.downstream import Downstream
from tidemark.models.recommend.bound_in_use import UNCHANGED, BoundInUse
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.transition import CutBucket, Situation
from tidemark.models.specs.slo import Slo


@dataclass(frozen=True, slots=True)
class HorizonEvidence:
    """The evidence on a stream over a horizon."""

    horizon: Horizon
    facts: HorizonFacts
    curve: Curve
    """Their completeness and latency by bound."""


def read_evidence(
    session: Session, stream_id: int, horizon_ms: int, cache: EvidenceCache
) -> HorizonEvidence | None:
    """Return the evidence on a stream over ``horizon_ms``; None without reports."""
    horizon = horizon_of(session, stream_id, horizon_ms)
    return None if horizon is None else HorizonEvidence(horizon, *cache.everything(session, horizon)[:2])


@dataclass(frozen=True, slots=True)
class Version:
    """What a recommendation depends on: while it stays the same, so does the recommendation."""

    newest_report_id: int
    slo_generation: int
    policy_generation: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """All that a decision is made from."""

    version: Version
    horizon: Horizon
    inputs: Inputs
    situation: Situation
    """The stream after its newest batch."""
    in_use: BoundInUse
    """The bound in use as of its newest batch."""


def read_shortest(
    session: Session, slo: Slo, newest: ReportRow, cache: EvidenceCache
) -> tuple[Horizon, HorizonFacts, Curve, Int64s]:
    """Return the shortest horizon with the evidence that an SLO needs, and what is known over it."""
    horizons = (Horizon(newest.stream_id, length_ms, newest) for length_ms in slo.horizons_ms)
    read = ((horizon, *cache.everything(session, horizon)) for horizon in horizons)
    return shortest_enough(((one, one[2].events(slo.target_ppm)) for one in read), slo.events_needed)


def load(stream: SteeredStream, version: Version, cache: EvidenceCache) -> Loaded | None:
    """Return all that a decision is made from; None without an SLO or without reports."""
    session, newest = stream.session, stream.newest
    slo, policy = get_specs(session, stream.id)
    if slo is None or newest is None:
        return None
    horizon, facts, curve, pace = read_shortest(session, slo.value, newest, cache)
    progress = progress_from(pace, _read_times(session, horizon), horizon, stream.now_us)
    join = side_of(session, slo.join_id, stream.id, cache.joins)
    situation = read_situation(
        session,
        horizon,
        curve,
        progress,
        target_ppm=slo.value.target_ppm,
        confidence_ppm=slo.value.confidence_ppm,
        downstream=stream.downstream,
    )
    situation = replace(situation, join=join)
    replaced = read_replaced_bound(session, horizon)
    in_use = _read_in_use(session, stream.id, slo.generation).in_batch(newest.bound_ms, newest.seen_us)
    inputs = Inputs(
        curve=curve,
        slo=slo.value,
        policy=stream.policy_in_force(policy.value),
        evidence=facts.evidence(curve.needs),
        horizon_ms=horizon.length_ms,
        in_use_bound_ms=replaced.bound_ms,
        bound_is_published=replaced.is_published,
        progress=progress,
        recent_bounds_ms=recent_bounds_ms(session, stream.id, slo.generation, newest.seen_us),
        # In the other modes no change restarts a job.
        changes=in_use if policy.value.mode in {"Off", "Restart"} else UNCHANGED,
        situation=situation,
        windows=windows_in(session, horizon, slo.value),
        downstream=stream.downstream,
        join=join,
    )
    return Loaded(version, horizon, inputs, situation, in_use)


def _read_in_use(session: Session, stream_id: int, slo_generation: int) -> BoundInUse:
    """Return the bound in use as of the newest recommendation under the same SLO: another one asks for other bounds."""
    read = {"stream": stream_id, "slo": slo_generation}
    stored: BoundInUse | None = session.connection().execute(_IN_USE, read).scalar_one_or_none()
    return stored or UNCHANGED


# Built once: that takes longer than running it.
_IN_USE = select(RecommendationRow.in_use).where(
    RecommendationRow.stream_id == bindparam("stream"), RecommendationRow.slo_generation == bindparam("slo")
)


def read_version(session: Session, stream_id: int) -> Version:
    """Return what a recommendation for a stream depends on now."""
    numbers = session.execute(_VERSION, {"stream": stream_id}).mappings().one()
    return Version(**{name: number or 0 for name, number in numbers.items()})


# Built once: that takes longer than running it.
_VERSION = (
    select(
        select(func.max(ReportRow.id))
        .where(ReportRow.stream_id == StreamRow.id)
        .correlate(StreamRow)
        .scalar_subquery()
        .label("newest_report_id"),
        SloRow.generation.label("slo_generation"),
        PolicyRow.generation.label("policy_generation"),
    )
    .select_from(StreamRow)
    .outerjoin(SloRow, SloRow.stream_id == StreamRow.id)
    .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
    .where(StreamRow.id == bindparam("stream"))
)


def is_current(session: Session, row: RecommendationRow) -> bool:
    """Return whether a stored recommendation rests on the newest report, SLO and policy."""
    return Version(row.newest_report_id, row.slo_generation, row.policy_generation) == read_version(
        session, row.stream_id
    )


@dataclass(frozen=True, slots=True)
class ReplacedBound:
    """The bound that another one would replace."""

    bound_ms: int
    """It, in milliseconds."""
    is_published: bool
    """Whether it is the published bound, as in Live, where the plan has the ceiling; else it is the bound in use."""


def read_replaced_bound(session: Session, horizon: Horizon) -> ReplacedBound:
    """Return the bound that another one would replace."""
    newest = horizon.newest
    live = newest_state(session, newest).live
    if live is None or newest.bound_ms < live.ceiling_ms:
        return ReplacedBound(newest.bound_ms, is_published=False)
    published = last_published(session, horizon.stream_id, pinned=False)
    if published is None or published.bound_ms is None:
        return ReplacedBound(newest.bound_ms, is_published=False)
    return ReplacedBound(published.bound_ms, is_published=True)


def read_progress(session: Session, horizon: Horizon, now_us: int, cache: EvidenceCache) -> Progress:
    """Return the stream's progress, from the newest batches of its newest query."""
    return progress_from(cache.pace(session, horizon), _read_times(session, horizon), horizon, now_us)


def progress_from(
    pace: Int64s, partitions: Iterable[PartitionTimes], horizon: Horizon, now_us: int
) -> Progress:
    """Return the stream's progress.

    Args:
        pace: ``PACE_COLUMNS`` of the newest batches of its newest query.
    """
    # By the controller's clock: a driver's may be wrong.
    return progress_of_table(pace, partitions, silent_us=now_us - horizon.newest.received_us)


# Built once: building it takes longer than running it.
_PARTITIONS = select(PartitionRow.first_seen_us, PartitionRow.last_seen_us, PartitionRow.batches).where(
    PartitionRow.stream_id == bindparam("stream"), PartitionRow.last_seen_us >= bindparam("from")
)


def _read_times(session: Session, horizon: Horizon) -> list[PartitionTimes]:
    """Return when each partition with a row within the horizon was seen."""
    read = {"stream": horizon.stream_id, "from": horizon.from_us}
    rows = session.connection().execute(_PARTITIONS, read)
    return [PartitionTimes(row.first_seen_us, row.last_seen_us, row.batches) for row in rows]


def read_situation(
    session: Session,
    horizon: Horizon,
    curve: Curve,
    progress: Progress,
    *,
    target_ppm: int,
    confidence_ppm: int,
    downstream: Downstream | None,
) -> Situation:
    """Return what a change of the stream's bound depends on, as of its newest batch."""
    newest = horizon.newest
    open_keys = {"stream": horizon.stream_id, "after": newest.watermark_ms * SPARK_TICK_US}
    windows = (
        session.connection().execute(_OPEN, open_keys).all()
        if isinstance(newest.operator, TimeWindow) and newest.watermark_ms
        else []
    )
    ended_us = newest.started_us + newest.duration_ms * 1_000
    return Situation(
        at_us=ended_us,
        bound_us=newest.bound_ms * 1_000,
        watermark_us=newest.watermark_ms * SPARK_TICK_US or None,
        # The base of the newest batch lags the clock by this.
        base_us=None if progress.lag_us is None else ended_us - progress.lag_us,
        pace_ppm=progress.pace_ppm,
        batch_gap_us=progress.batch_gap_us,
        operator=newest.operator,
        drops_state=newest.output_mode != "complete",
        state_rows=newest.state_rows,
        state_bytes=newest.state_bytes,
        open_end_us=np.array([key for key, _ in windows], np.int64),
        open_rows=np.array([rows for _, rows in windows], np.int64),
        curve=curve,
        confidence_ppm=confidence_ppm,
        rows_per_event=curve.rows_per_event(target_ppm),
        downstream=downstream,
    )


# Built once: building it takes longer than running it.
_OPEN = (
    select(LedgerKeyRow.key_us, LedgerKeyRow.rows - LedgerKeyRow.late_max)
    .where(LedgerKeyRow.stream_id == bindparam("stream"), LedgerKeyRow.key_us > bindparam("after"))
    .order_by(LedgerKeyRow.key_us)
)


def read_share_below(session: Session, horizon: Horizon, cut: CutBucket, bound_us: int) -> float | None:
    """Return the share of a bucket's pairs that a bound admits, from the newest reports; None without pairs."""
    stored = session.execute(
        select(*NEEDS_BY, ReportBodyRow.body)
        .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
        .where(*horizon.batches, ReportRow.need_base_ms.is_not(None))
        .order_by(ReportRow.seen_us.desc())
        .limit(SAMPLED_BATCHES)
    )
    inside = below = 0
    for row in stored:
        needs = stored_needs(row, row.body)
        in_bucket = (needs.need_us > cut.low_us) & (needs.need_us <= cut.high_us)
        inside += int(needs.counts[in_bucket].sum())
        below += int(needs.counts[in_bucket & (needs.need_us <= bound_us)].sum())
    return below / inside if inside else None
