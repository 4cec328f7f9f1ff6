"""Reading the state of streams from the store: of one, of some, or of all, in two statements."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Double, Row, ScalarSelect, Select, and_, bindparam, cast, exists, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.base.db.tables import (
    KNOWN,
    AcknowledgementRow,
    LiveRow,
    OperatorRow,
    OverviewRow,
    PartitionRow,
    PolicyRow,
    PredictionRow,
    PublishedRow,
    QueryRow,
    RecommendationRow,
    ReportRow,
    RolloutRow,
    SloRow,
    StreamRow,
)
from tidemark.controller.control.bounds.acknowledgements import newest_acknowledgement_query
from tidemark.controller.control.bounds.publication import newest_generation_query
from tidemark.controller.control.decide.join_sides import miss_of
from tidemark.controller.control.decide.load import progress_from
from tidemark.controller.control.rollout.store import missed_rollout_query, newest_rollout_query
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.reports.live import state_in
from tidemark.controller.reports.store import newest_report_query, with_deleted
from tidemark.controller.specs.pins import pins_in_force
from tidemark.controller.specs.store import policy_of, slo_of
from tidemark.controller.view.state.partition_rows import (
    PartitionFacts,
    future_rows_among,
    misdated_rows_among,
    present_in,
    read_partitions,
    skew_among,
)
from tidemark.controller.view.state.recent_reports import read_recent_queries
from tidemark.controller.view.state.state import HorizonState, NewestBatch, Room, StreamState
from tidemark.models.base.defaults import RECENT_BATCHES
from tidemark.models.evidence.needs import late_base_ms
from tidemark.models.evidence.partition_counts import SkewCost
from tidemark.models.specs.pin import StoredPin


def load_states(session: Session, stream_ids: Collection[int] | None = None) -> list[StreamState]:
    """Return the states of some streams, by default of all, in the order of (job, stream)."""
    wanted, parameters = (_STATES, {}) if stream_ids is None else (_SOME_STATES, {"ids": [*stream_ids]})
    rows = session.execute(wanted, parameters).all()
    pins = pins_in_force(session, [(row.StreamRow.job, row.StreamRow.stream) for row in rows])
    return [_state(row, pins.get((row.StreamRow.job, row.StreamRow.stream))) for row in rows]


def load_state(session: Session, stream_id: int) -> StreamState:
    """Return the state of a stream that is known."""
    (state,) = load_states(session, [stream_id])
    return state


def load_horizon(
    session: Session,
    state: StreamState,
    now_us: int,
    cache: EvidenceCache,
    skewed: Sequence[SkewCost] | None = None,
) -> HorizonState | None:
    """Return what a stream's reports add up to over its horizon; None without reports.

    Args:
        skewed: the partitions that are skewed now; None for those of the newest snapshot.
    """
    horizon = state.horizon
    if horizon is None:
        return None
    facts, overdispersion, pace = cache.facts(session, horizon)
    partitions = read_partitions(session, state.id)
    progress = progress_from(pace, present_in(partitions, horizon), horizon, now_us)
    return HorizonState(
        horizon=horizon,
        facts=facts,
        overdispersion=overdispersion,
        progress=progress,
        skew=skew_among(partitions, horizon, progress.batch_gap_us),
        future=future_rows_among(partitions, horizon, facts.future_rows),
        misdated=misdated_rows_among(partitions, horizon, facts.misdated_rows),
        partitions=partitions,
        skewed=_skewed(partitions) if skewed is None else skewed,
        queries=read_recent_queries(session, state.id, horizon.newest.seen_us),
        join_miss=miss_of(session, state.join_id),
    )


def load_room(session: Session, state: StreamState, now_us: int, cache: EvidenceCache) -> Room | None:
    """Return what a stream's ceiling has to leave room for; None while the job has acknowledged nothing."""
    horizon = state.horizon
    if horizon is None:
        return state.room(None)
    partitions = read_partitions(session, state.id)
    pace = cache.pace(session, horizon)
    batch_gap_us = progress_from(pace, present_in(partitions, horizon), horizon, now_us).batch_gap_us
    return state.room(skew_among(partitions, horizon, batch_gap_us))


def _skewed(partitions: Sequence[PartitionFacts]) -> list[SkewCost]:
    """Return the partitions that were skewed in the newest snapshot, the most costly first."""
    skewed = [
        SkewCost.of(partition.partition, partition.costs_ms, partition.without_bound_ms)
        for partition in partitions
        if partition.skewed
    ]
    return sorted(skewed, key=lambda cost: -cost.costs_ms)


def _state(row: Row[Any], pin: StoredPin | None) -> StreamState:
    stream, slo, policy, recommended = row.StreamRow, row.SloRow, row.PolicyRow, row.RecommendationRow
    overview: OverviewRow | None = row.OverviewRow
    return StreamState(
        row=stream,
        slo=None if slo is None else slo_of(slo),
        join_id=None if slo is None else slo.join_id,
        policy=policy_of(policy),
        paused_why=None if policy is None else policy.paused_why,
        # PostgreSQL sums to an exact decimal.
        future_rows=stream.deleted_future_rows + int(row.future_rows or 0),
        misdated_rows=stream.deleted_misdated_rows + int(row.misdated_rows or 0),
        missing_batches=None
        if row.ReportRow is None
        else stream.deleted_missing_batches + int(row.missing_batches or 0),
        newest=None if row.ReportRow is None else _newest(row),
        recommendation=recommended,
        published=row.PublishedRow,
        unpinned=row.unpinned,
        pin=pin,
        applied=row.AcknowledgementRow,
        rollout=row.RolloutRow,
        missed=row.missed,
        prediction=row.PredictionRow,
        former=row.former,
        overview=overview,
        lost=None if overview is None else overview.lost,
    )


def _newest(row: Row[Any]) -> NewestBatch:
    report, query, base_us = row.ReportRow, row.QueryRow, row.stored_base_us
    if query is not None:
        last_batch = report.batch_id - 1
        base_us = with_deleted(base_us, query.deleted_batch, query.deleted_max_event_time_us, last_batch)
    # The mean time between the newest batches, ``RECENT_BATCHES`` of them or all there are.
    since_us, gaps = row.recent_us, RECENT_BATCHES
    if since_us is None:
        since_us, gaps = row.first_us, row.StreamRow.reports - 1
    return NewestBatch(
        report=report,
        base_ms=late_base_ms(report.late_base_ms, base_us),
        gap_us=None if since_us is None or gaps < 1 else (report.seen_us - since_us) // gaps or None,
        driver=state_in(row.LiveRow),
    )


def _stored_base_us() -> ScalarSelect[int | None]:
    """Return the query for the maximum event time of the stored batches before the newest one of its query."""
    earlier = aliased(ReportRow)
    return (
        select(earlier.max_event_time_us)
        .where(
            earlier.stream_id == ReportRow.stream_id,
            earlier.query_id == ReportRow.query_id,
            earlier.batch_id < ReportRow.batch_id,
            earlier.max_event_time_us.is_not(None),
        )
        .order_by(earlier.max_event_time_us.desc())
        .limit(1)
        .correlate(ReportRow)
        .scalar_subquery()
    )


def _former() -> ScalarSelect[str | None]:
    """Return the query for the stream of the same job that it may have been.

    That is one that read the same, for the same operator, and has been silent since this one began.
    """
    other, former, since = aliased(StreamRow), aliased(AcknowledgementRow), aliased(ReportRow)
    its, own = aliased(OperatorRow), aliased(OperatorRow)
    later = select(since.id).where(since.stream_id == other.id, since.seen_us >= StreamRow.registered_us)
    reports = exists(later.correlate(other, StreamRow))
    last = select(since.operator_number).where(since.stream_id == other.id).order_by(since.seen_us.desc())
    return (
        select(other.stream)
        .join(former, former.stream_id == other.id)
        .join(its, its.stream_id == other.id)
        .join(own, own.operator == its.operator)
        .where(
            its.number == last.limit(1).correlate(other).scalar_subquery(),
            own.stream_id == ReportRow.stream_id,
            own.number == ReportRow.operator_number,
            former.reads == AcknowledgementRow.reads,
            other.job == StreamRow.job,
            other.deleted_us.is_(None),
            other.registered_us < StreamRow.registered_us,
            ~reports,
        )
        .order_by(other.registered_us.desc())
        .limit(1)
        .correlate(StreamRow, AcknowledgementRow, ReportRow)
        .scalar_subquery()
    )


def _seen_us(batch: int) -> ScalarSelect[int | None]:
    """Return the query for the trigger time of the batch that many before the newest one; -1 for the first batch."""
    report = aliased(ReportRow)
    wanted = select(report.seen_us).where(report.stream_id == StreamRow.id).limit(1)
    wanted = (
        wanted.order_by(report.seen_us) if batch < 0 else wanted.order_by(report.seen_us.desc()).offset(batch)
    )
    return wanted.correlate(StreamRow).scalar_subquery()


def _statement() -> Select[*tuple[Any, ...]]:
    """Return the statement for all states. Each newest row is found at the end of an index, stream by stream."""
    of_stream = StreamRow.id
    query = aliased(QueryRow)
    unpinned, missed = aliased(PublishedRow, name="unpinned"), aliased(RolloutRow, name="missed")
    other_prediction = aliased(PredictionRow)
    predicted = select(func.max(other_prediction.generation)).where(other_prediction.stream_id == of_stream)
    # As floating point: SQLite fails where a sum of integers overflows, as that over many queries may.
    batches = cast(query.last_batch - query.first_batch + 1, Double)
    missing = select(func.sum(batches - query.reports)).where(query.stream_id == of_stream)
    future, misdated = (
        select(func.sum(rows)).where(PartitionRow.stream_id == of_stream)
        for rows in (PartitionRow.future_rows, PartitionRow.misdated_rows)
    )
    return (
        select(
            StreamRow,
            SloRow,
            PolicyRow,
            RecommendationRow,
            OverviewRow,
            PublishedRow,
            unpinned,
            AcknowledgementRow,
            RolloutRow,
            missed,
            PredictionRow,
            ReportRow,
            LiveRow,
            QueryRow,
            _former().label("former"),
            _stored_base_us().label("stored_base_us"),
            _seen_us(RECENT_BATCHES).label("recent_us"),
            _seen_us(-1).label("first_us"),
            missing.correlate(StreamRow).scalar_subquery().label("missing_batches"),
            future.correlate(StreamRow).scalar_subquery().label("future_rows"),
            misdated.correlate(StreamRow).scalar_subquery().label("misdated_rows"),
        )
        .outerjoin(SloRow, SloRow.stream_id == of_stream)
        .outerjoin(PolicyRow, PolicyRow.stream_id == of_stream)
        .outerjoin(RecommendationRow, RecommendationRow.stream_id == of_stream)
        .outerjoin(OverviewRow, OverviewRow.stream_id == of_stream)
        .outerjoin(
            PublishedRow,
            and_(PublishedRow.stream_id == of_stream, PublishedRow.generation == newest_generation_query()),
        )
        .outerjoin(
            unpinned,
            and_(
                unpinned.stream_id == of_stream,
                unpinned.generation == newest_generation_query(pinned=False),
            ),
        )
        .outerjoin(AcknowledgementRow, AcknowledgementRow.id == newest_acknowledgement_query())
        .outerjoin(RolloutRow, RolloutRow.id == newest_rollout_query())
        .outerjoin(missed, missed.id == missed_rollout_query(unpinned))
        .outerjoin(
            PredictionRow,
            and_(
                PredictionRow.stream_id == of_stream,
                PredictionRow.generation == predicted.correlate(StreamRow).scalar_subquery(),
            ),
        )
        .outerjoin(ReportRow, ReportRow.id == newest_report_query())
        # What an older report says is past.
        .outerjoin(LiveRow, and_(LiveRow.stream_id == of_stream, LiveRow.report_id == ReportRow.id))
        .outerjoin(QueryRow, and_(QueryRow.stream_id == of_stream, QueryRow.query_id == ReportRow.query_id))
        .where(KNOWN)
        .order_by(StreamRow.job, StreamRow.stream)
    )


# Built once: that takes longer than running them for one stream.
_STATES = _statement()
_SOME_STATES = _STATES.where(StreamRow.id.in_(bindparam("ids", expanding=True)))
