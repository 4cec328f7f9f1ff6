"""What the store holds on how a stream is getting on, and on what a change of its bound would meet."""

from __future__ import annotations

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import LedgerKeyRow, PartitionRow, ReportBodyRow, ReportRow
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.intake.stored_bodies import stored_report
from tidemark.models.curve import Curve
from tidemark.models.defaults import PACE_BATCHES, SAMPLED_BATCHES
from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.late_base import needs_against
from tidemark.models.operators import TimeWindow
from tidemark.models.progress import PartitionTimes, Progress, progress_of
from tidemark.models.transition import CutBucket, Situation

__all__ = ["progress_in", "share_below", "situation_in"]


def progress_in(session: Session, horizon: Horizon, now_us: int) -> Progress:
    """Return how the stream has been getting on, from the newest batches of its newest query."""
    newest = horizon.newest
    batches = session.execute(
        select(
            ReportRow.started_us, ReportRow.duration_ms, ReportRow.late_base_ms, ReportRow.max_event_time_us
        )
        .where(*horizon.batches, ReportRow.query_id == newest.query_id)
        .order_by(ReportRow.batch_id.desc())
        .limit(PACE_BATCHES)
    ).all()
    partitions = session.execute(
        select(PartitionRow.first_seen_us, PartitionRow.last_seen_us, PartitionRow.batches).where(
            PartitionRow.stream_id == horizon.stream_id, PartitionRow.last_seen_us >= horizon.from_us
        )
    )
    return progress_of(
        batches[::-1],
        [PartitionTimes(*row) for row in partitions],
        # By the controller's own clock: a driver's may be wrong.
        silent_us=now_us - newest.received_us,
    )


def situation_in(
    session: Session, horizon: Horizon, curve: Curve, progress: Progress, confidence_ppm: int
) -> Situation:
    """Return the stream after its newest batch, as far as a change of its bound depends on it."""
    newest = horizon.newest
    operator = stored_report(session.get_one(ReportBodyRow, newest.id).body).operator
    windows = (
        session.execute(
            select(LedgerKeyRow.key_us, LedgerKeyRow.rows - LedgerKeyRow.late_max)
            .where(
                LedgerKeyRow.stream_id == horizon.stream_id,
                LedgerKeyRow.key_us > newest.watermark_ms * SPARK_TICK_US,
            )
            .order_by(LedgerKeyRow.key_us)
        ).all()
        if isinstance(operator, TimeWindow) and newest.watermark_ms
        else []
    )
    ended_us = newest.started_us + newest.duration_ms * 1_000
    return Situation(
        at_us=ended_us,
        bound_us=newest.bound_ms * 1_000,
        watermark_us=newest.watermark_ms * SPARK_TICK_US or None,
        # The base of the newest batch is what it lags the clock by.
        base_us=None if progress.lag_us is None else ended_us - progress.lag_us,
        pace_ppm=progress.pace_ppm,
        batch_gap_us=progress.batch_gap_us,
        operator=operator,
        drops_state=newest.output_mode != "complete",
        state_rows=newest.state_rows,
        state_bytes=newest.state_bytes,
        open_end_us=np.array([key for key, _ in windows], np.int64),
        open_rows=np.array([rows for _, rows in windows], np.int64),
        curve=curve,
        confidence_ppm=confidence_ppm,
    )


def share_below(session: Session, horizon: Horizon, cut: CutBucket, bound_us: int) -> float | None:
    """Return the share of the pairs of a bucket of needs that a bound admits, from the newest reports; None of none."""
    stored = session.execute(
        select(ReportRow.need_base_ms, ReportBodyRow.body)
        .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
        .where(*horizon.batches, ReportRow.need_base_ms.is_not(None))
        .order_by(ReportRow.seen_us.desc())
        .limit(SAMPLED_BATCHES)
    )
    inside = below = 0
    for base_ms, body in stored:
        needs = needs_against(stored_report(body), base_ms)
        in_bucket = (needs.need_us > cut.low_us) & (needs.need_us <= cut.high_us)
        inside += int(needs.counts[in_bucket].sum())
        below += int(needs.counts[in_bucket & (needs.need_us <= bound_us)].sum())
    return below / inside if inside else None
