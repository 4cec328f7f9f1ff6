"""How every stream stands, read all at once: what metrics and notifications are made of.

One statement a table, however many streams there are; what is found is handed on as plain values, so that nobody holds
the store while it is written out. What is unknown is None, never 0.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import and_, func, literal, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.db.tables import (
    AcknowledgementRow,
    LiveRow,
    NeedSlotRow,
    OverviewRow,
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
from tidemark.controller.decide.stored_steps import steps_of
from tidemark.controller.specs.store import policy_of, slo_of
from tidemark.controller.stream_state.live import KeptLive, live_of
from tidemark.controller.stream_state.partition_standing import future_rows_by_stream
from tidemark.models.adoption import AppliedState, has_applied
from tidemark.models.defaults import RECENT_BATCHES
from tidemark.models.late_base import effective_bound_ms, late_base_ms
from tidemark.models.live_defaults import CEILING_ALARM_PPM
from tidemark.models.need_slots import merge_all
from tidemark.models.recommend.steps import StepKind
from tidemark.models.sketch import Sketch
from tidemark.models.slo import Objective
from tidemark.models.wire import Mode

__all__ = ["Newest", "Predicted", "Standing", "Told", "Wish", "rollouts_by_state", "standings"]

NEED_SLOTS = 2
"""Newest slots of needs that are merged: the newest one alone may have begun with the newest batch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Newest:
    """The newest batch of a stream."""

    report_id: int
    """Its report."""
    seen_us: int
    """Its trigger time, but not after its report was received."""
    started_us: int
    """Its trigger time by the driver's clock."""
    ended_us: int
    """When it ended by the driver's clock."""
    received_us: int
    """When its report was received."""
    bound_ms: int
    """The bound in its plan."""
    watermark_ms: int | None
    """The watermark after it; None while there is none."""
    base_ms: int | None
    """The greatest event time that the watermark after it could know; None when it is not known."""
    effective_bound_ms: int | None
    """How far the watermark trails that."""
    gap_us: int | None
    """Mean time between the triggers of the newest batches, ``RECENT_BATCHES`` at the most; None of fewer than two."""
    state_rows: int
    """Rows of state."""
    state_bytes: int
    """Bytes of state."""
    dropped_reports: int
    """Reports that its driver has dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """The newest recommendation."""

    bound_ms: int | None
    """The bound recommended; None to keep the one in use."""
    wanted_ms: int | None
    """The bound that the rows ask for, before any guard rail or limit; None when there is too little evidence."""
    saturated: bool
    """Whether the policy's greatest bound holds it."""
    conflict: bool
    """Whether completeness and a cap could not both be met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What the job is told, and what it said to that."""

    generation: int
    """Generation of what it is told."""
    mode: Mode
    """Mode that it is told."""
    bound_ms: int | None
    """The bound; None: its own."""
    published_us: int
    """When it was published."""
    before_ms: int | None
    """The bound of the generation before; None without one."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """What was predicted of a published bound, and how it came out."""

    rows: int
    """Pairs that it rests on."""
    late: int
    """How many of them would have been late."""
    realised_ppm: int | None
    """Share of the judged pairs that were admitted; None while too few are."""
    error_ppm: int | None
    """That less the predicted share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one stream stands."""

    stream_id: int
    """The stream."""
    job: str
    """Its job."""
    stream: str
    """Its name."""
    mode: Mode
    """Its mode."""
    paused: bool
    """Whether the policy is paused."""
    max_bound_ms: int | None
    """The policy's greatest bound; None for no limit."""
    objective: Objective | None
    """What the SLO is about; None without an SLO."""
    target_ppm: int | None
    """The SLO's target."""
    window_ms: int | None
    """The SLO's window."""
    horizon_ms: int | None
    """How far back evidence counts, by the SLO."""
    reports: int
    """Reports stored."""
    duplicates: int
    """Reports received again."""
    pairs: int
    """(Row, key) pairs judged."""
    late_max: int
    """Pairs of these that were late, or may have been."""
    unjudged_rows: int
    """Rows whose fate is unknown."""
    future_rows: int
    """Rows that were dated ahead of the clock."""
    remaining_ppm: int | None
    """What was left of the budget when the stream was looked at last."""
    missing_batches: int | None
    """Batches never reported; None before the first report."""
    newest: Newest | None
    """The newest batch."""
    live: KeptLive | None
    """What the fast policy did in it; None when the job does not run in Live."""
    wish: Wish | None
    """What is recommended."""
    told: Told | None
    """What the job is told; None before the first generation."""
    applied_bound_ms: int | None
    """The bound last acknowledged."""
    applied_generation: int | None
    """Generation last acknowledged; None when the job said that it uses its own bound, or nothing."""
    applied_mode: Mode | None
    """Mode in which it was acknowledged."""
    ceiling_ms: int | None
    """The ceiling last acknowledged; None when the run cannot be steered live."""
    rollout: str | None
    """State of the newest rollout."""
    predicted: Predicted | None
    """What was predicted of the bound published last that has a prediction."""
    needs: Sketch | None
    """Needs of the newest minutes that hold any."""

    @property
    def saturated(self) -> bool | None:
        """Whether the rows ask for more than the policy's greatest bound or the ceiling allow; None without a wish."""
        near = self.live is not None and self.live.ceiling_used_ppm >= CEILING_ALARM_PPM
        if self.wish is None:
            return near if self.live is not None else None
        return self.wish.saturated or near

    @property
    def adopted(self) -> bool | None:
        """Whether the job applies what is published to it, as far as it said; None when nothing is published."""
        found = self.told
        if found is None or (found.bound_ms is None and found.mode != "Live"):
            return None
        last_contact_us = None if self.live is None else self.live.last_contact_us
        return has_applied(
            AppliedState(self.applied_generation, self.applied_bound_ms, self.applied_mode, last_contact_us),
            generation=found.generation,
            mode=found.mode,
            bound_ms=found.bound_ms,
            published_us=found.published_us,
        )


def standings(session: Session) -> list[Standing]:
    """Return how every stream stands, in the order of (job, stream)."""
    newest = _newest(session)
    missing = dict(
        session.execute(
            select(
                QueryRow.stream_id,
                func.sum(QueryRow.last_batch - QueryRow.first_batch + 1 - QueryRow.reports),
            ).group_by(QueryRow.stream_id)
        ).all()
    )
    future = future_rows_by_stream(session)
    result, applied, live = _told(session), _applied(session), _live(session)
    rollouts, predictions, needs = _rollouts(session), _predictions(session), _needs(session)
    found = []
    for row in session.execute(
        select(StreamRow, SloRow, PolicyRow, RecommendationRow, OverviewRow.remaining_ppm)
        .outerjoin(SloRow, SloRow.stream_id == StreamRow.id)
        .outerjoin(PolicyRow, PolicyRow.stream_id == StreamRow.id)
        .outerjoin(RecommendationRow, RecommendationRow.stream_id == StreamRow.id)
        .outerjoin(OverviewRow, OverviewRow.stream_id == StreamRow.id)
        .order_by(StreamRow.job, StreamRow.stream)
    ):
        stream: StreamRow = row[0]
        slo_row: SloRow | None = row[1]
        policy_row: PolicyRow | None = row[2]
        slo = None if slo_row is None else slo_of(slo_row)
        policy = None if policy_row is None else policy_of(policy_row)
        wish: RecommendationRow | None = row[3]
        batch, acknowledged = newest.get(stream.id), applied.get(stream.id)
        said = live.get(stream.id)
        found.append(
            Standing(
                stream_id=stream.id,
                job=stream.job,
                stream=stream.stream,
                mode="Off" if policy is None else policy.mode,
                paused=policy is not None and policy.paused,
                max_bound_ms=None if policy is None else policy.max_bound_ms,
                objective=None if slo is None else slo.objective,
                target_ppm=None if slo is None else slo.target_ppm,
                window_ms=None if slo is None else slo.window_ms,
                horizon_ms=None if slo is None else slo.horizon_ms,
                reports=stream.reports,
                duplicates=stream.duplicates,
                pairs=stream.pairs,
                late_max=stream.late_max,
                unjudged_rows=stream.unjudged_rows,
                future_rows=future.get(stream.id, 0),
                remaining_ppm=row[4],
                # PostgreSQL sums to an exact decimal.
                missing_batches=None if batch is None else int(missing.get(stream.id, 0)),
                newest=batch,
                live=None if batch is None or said is None or said[0] != batch.report_id else said[1],
                wish=None if wish is None else _wish(wish),
                told=result.get(stream.id),
                applied_bound_ms=None if acknowledged is None else acknowledged.bound_ms,
                applied_generation=None if acknowledged is None else acknowledged.generation,
                applied_mode=None if acknowledged is None else acknowledged.mode,
                ceiling_ms=None if acknowledged is None else acknowledged.ceiling_ms,
                rollout=rollouts.get(stream.id),
                predicted=predictions.get(stream.id),
                needs=needs.get(stream.id),
            )
        )
    return found


def rollouts_by_state(session: Session) -> dict[str, int]:
    """Return how many rollouts there are in each state that any is in."""
    return dict(session.execute(select(RolloutRow.state, func.count()).group_by(RolloutRow.state)).all())


def _newest(session: Session) -> dict[int, Newest]:
    """Return the newest batch of each stream."""
    report = aliased(ReportRow)
    newest_id = (
        select(report.id)
        .where(report.stream_id == StreamRow.id)
        .order_by(report.seen_us.desc(), report.batch_id.desc(), report.query_id.desc())
        .limit(1)
        .scalar_subquery()
    )
    newest = (
        select(ReportRow)
        .join(StreamRow, and_(StreamRow.id == ReportRow.stream_id, ReportRow.id == newest_id))
        .subquery()
    )
    row = aliased(ReportRow, newest)
    earlier = aliased(ReportRow)
    base_us = (
        select(earlier.max_event_time_us)
        .where(
            earlier.stream_id == row.stream_id,
            earlier.query_id == row.query_id,
            earlier.batch_id < row.batch_id,
            earlier.max_event_time_us.is_not(None),
        )
        .order_by(earlier.max_event_time_us.desc())
        .limit(1)
        .scalar_subquery()
    )
    found = {}
    since = _since(session)
    for batch, stored_us, gone_batch, gone_us in session.execute(
        select(row, base_us, QueryRow.gone_batch, QueryRow.gone_max_event_time_us).outerjoin(
            QueryRow, and_(QueryRow.stream_id == row.stream_id, QueryRow.query_id == row.query_id)
        )
    ):
        known = [stored_us]
        if gone_batch is not None and gone_batch < batch.batch_id:
            known.append(gone_us)
        before_us = max((time_us for time_us in known if time_us is not None), default=None)
        base_ms = late_base_ms(batch.late_base_ms, before_us)
        found[batch.stream_id] = Newest(
            report_id=batch.id,
            seen_us=batch.seen_us,
            started_us=batch.started_us,
            ended_us=batch.started_us + batch.duration_ms * 1_000,
            received_us=batch.received_us,
            bound_ms=batch.bound_ms,
            watermark_ms=batch.watermark_ms or None,
            base_ms=base_ms,
            effective_bound_ms=effective_bound_ms(base_ms, batch.watermark_ms),
            gap_us=_mean_gap_us(batch.seen_us, since.get(batch.stream_id)),
            state_rows=batch.state_rows,
            state_bytes=batch.state_bytes,
            dropped_reports=batch.dropped_reports,
        )
    return found


def _since(session: Session) -> dict[int, tuple[int, int]]:
    """Return by stream the trigger time of a batch some way back, and how many batches that is."""
    report = aliased(ReportRow)
    trigger_us = select(report.seen_us).where(report.stream_id == StreamRow.id)
    recent = trigger_us.order_by(report.seen_us.desc()).limit(1).offset(RECENT_BATCHES).scalar_subquery()
    first = trigger_us.order_by(report.seen_us).limit(1).scalar_subquery()
    rows = session.execute(select(StreamRow.id, StreamRow.reports, recent, first))
    return {
        stream_id: (first_us, reports - 1) if recent_us is None else (recent_us, RECENT_BATCHES)
        for stream_id, reports, recent_us, first_us in rows
        if first_us is not None
    }


def _mean_gap_us(seen_us: int, since: tuple[int, int] | None) -> int | None:
    if since is None or since[1] < 1:
        return None
    return (seen_us - since[0]) // since[1] or None


def _told(session: Session) -> dict[int, Told]:
    generation = aliased(PublishedRow)
    newest = (
        select(func.max(generation.generation))
        .where(generation.stream_id == PublishedRow.stream_id)
        .scalar_subquery()
    )
    by_stream: defaultdict[int, list[Any]] = defaultdict(list)
    for row in session.execute(
        select(
            PublishedRow.stream_id,
            PublishedRow.generation,
            PublishedRow.mode,
            PublishedRow.bound_ms,
            PublishedRow.published_us,
        )
        .where(PublishedRow.generation >= newest - literal(1))
        .order_by(PublishedRow.stream_id, PublishedRow.generation)
    ):
        by_stream[row.stream_id].append(row)
    return {
        stream_id: Told(
            generation=rows[-1].generation,
            mode=cast("Mode", rows[-1].mode),
            bound_ms=rows[-1].bound_ms,
            published_us=rows[-1].published_us,
            before_ms=rows[0].bound_ms if len(rows) > 1 else None,
        )
        for stream_id, rows in by_stream.items()
    }


def _applied(session: Session) -> dict[int, Any]:
    said = aliased(AcknowledgementRow)
    newest = (
        select(said.id)
        .where(said.stream_id == StreamRow.id)
        .order_by(said.applied_us.desc(), said.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    rows = session.execute(
        select(
            AcknowledgementRow.stream_id,
            AcknowledgementRow.bound_ms,
            AcknowledgementRow.generation,
            AcknowledgementRow.mode,
            AcknowledgementRow.ceiling_ms,
        ).join(StreamRow, and_(StreamRow.id == AcknowledgementRow.stream_id, AcknowledgementRow.id == newest))
    )
    return {row.stream_id: row for row in rows}


def _live(session: Session) -> dict[int, tuple[int, KeptLive]]:
    rows = session.execute(
        select(LiveRow.stream_id, LiveRow.report_id, LiveRow.live).where(LiveRow.live.is_not(None))
    )
    return {stream_id: (report_id, live_of(live)) for stream_id, report_id, live in rows if live is not None}


def _rollouts(session: Session) -> dict[int, str]:
    other = aliased(RolloutRow)
    newest = select(func.max(other.id)).group_by(other.stream_id)
    return dict(
        session.execute(select(RolloutRow.stream_id, RolloutRow.state).where(RolloutRow.id.in_(newest))).all()
    )


def _predictions(session: Session) -> dict[int, Predicted]:
    other = aliased(PredictionRow)
    newest = (
        select(func.max(other.generation)).where(other.stream_id == PredictionRow.stream_id).scalar_subquery()
    )
    rows = session.execute(
        select(
            PredictionRow.stream_id,
            PredictionRow.rows,
            PredictionRow.late,
            PredictionRow.realised_ppm,
            PredictionRow.error_ppm,
        ).where(PredictionRow.generation == newest)
    )
    return {row.stream_id: Predicted(row.rows, row.late, row.realised_ppm, row.error_ppm) for row in rows}


def _needs(session: Session) -> dict[int, Sketch]:
    """Return the needs of the newest slots of each stream."""
    slot = aliased(NeedSlotRow)
    of_stream = select(slot.slot_us).where(slot.stream_id == StreamRow.id).order_by(slot.slot_us.desc())
    wanted = [of_stream.limit(1).offset(n).scalar_subquery() for n in range(NEED_SLOTS)]
    slots: defaultdict[int, list[Sketch]] = defaultdict(list)
    for stream_id, blob in session.execute(
        select(NeedSlotRow.stream_id, NeedSlotRow.sketch).join(
            StreamRow, and_(StreamRow.id == NeedSlotRow.stream_id, NeedSlotRow.slot_us.in_(wanted))
        )
    ):
        slots[stream_id].append(Sketch.from_bytes(blob))
    return {stream_id: merge_all(sketches) for stream_id, sketches in slots.items()}


def _wish(row: RecommendationRow) -> Wish:
    wanted_ms = before_ms = None
    saturated = False
    for step in steps_of(row):
        if step.kind is StepKind.ROUND_UP:
            wanted_ms = step.bound_ms
        elif step.kind is StepKind.LIMITS:
            saturated = before_ms is not None and step.bound_ms is not None and step.bound_ms < before_ms
        before_ms = step.bound_ms
    return Wish(bound_ms=row.bound_ms, wanted_ms=wanted_ms, saturated=saturated, conflict=row.conflict)
