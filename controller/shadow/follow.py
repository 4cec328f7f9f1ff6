"""Follows a stream's shadow: counts what its bound would have done, then decides by the same code as the stream itself.

It comes after the stream's own decision, in transactions of its own: whatever goes wrong here, that decision stands.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.db.database import Database
from tidemark.controller.db.leases import Lease, confirm
from tidemark.controller.db.tables import BY_BOUND, QueryRow, ReportBodyRow, ReportRow, ShadowRow
from tidemark.controller.decide.load import Loaded
from tidemark.controller.decide.stored_steps import steps_json
from tidemark.controller.evidence.horizon import WINDOW, keys_in, max_up_to, with_gone
from tidemark.controller.intake.stored_bodies import stored_report
from tidemark.controller.shadow.store import StoredShadow, add_days, find_shadow
from tidemark.controller.streams.store import lock_by_id
from tidemark.models.base.defaults import NARROW_STABILISATION_MS
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.evidence.needs import Needs, late_base_ms, needs_against
from tidemark.models.recommend.inputs import Inputs
from tidemark.models.recommend.recommendation import recommend
from tidemark.models.recommend.steps import Recommendation
from tidemark.models.rollout.evidence import Judged
from tidemark.models.rollout.shadow import ClosedUntil, ShadowTally, TriedBatch, tally
from tidemark.models.specs.shadow_slo import why_not_tried

_MAX_REPORTS = 500
"""How many reports are counted at once; after an outage the next decisions count the rest."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """What the newest batches add."""

    last_report_id: int
    days: dict[int, ShadowTally]
    closed: ClosedUntil | None
    in_use_bound_ms: int


def follow_shadow(database: Database, loaded: Loaded, lease: Lease, now_us: int) -> None:
    """Count what a stream's shadow would have done since the last time, and decide what it would do now.

    Args:
        database: the store.
        loaded: what the stream's own decision rests on.
        lease: allows this process to decide the stream.
        now_us: the wall time in microseconds.

    Raises:
        LeaseLostError: when another process has taken the stream over; nothing was written.
    """
    stream_id = loaded.horizon.stream_id
    with database.read() as session:
        before = find_shadow(session, stream_id)
        if before is None or why_not_shadowed(loaded) is not None:
            return
        counted = _count(session, before)
    with database.write() as session:
        shadow = None if lock_by_id(session, stream_id) is None else find_shadow(session, stream_id)
        if shadow is None or _place(shadow.row) != _place(before.row):
            return
        if counted is not None:
            _write_counted(session, shadow.row, counted)
        decide_shadow(shadow, loaded, now_us)
        session.flush()
        confirm(session, stream_id, lease)


def why_not_shadowed(loaded: Loaded) -> str | None:
    """Return why nothing can be decided beside a stream's SLO; None when it can."""
    return why_not_tried(loaded.inputs.slo, joined=loaded.inputs.join is not None)


def decide_shadow(shadow: StoredShadow, loaded: Loaded, now_us: int) -> None:
    """Decide what a shadow would do, from what the stream's own decision rests on, and note it in its row."""
    row, at_us = shadow.row, loaded.horizon.newest.seen_us
    recent = [
        (seen_us, bound_ms)
        for seen_us, bound_ms in json.loads(row.recent)
        if at_us - NARROW_STABILISATION_MS * 1_000 <= seen_us < at_us
    ]
    found = _recommended(shadow, loaded.inputs, tuple(bound_ms for _, bound_ms in recent))
    if found.required_ms is not None:
        recent.append((at_us, found.required_ms))
    row.recent = json.dumps(recent)
    row.decided_us, row.steps = now_us, steps_json(found.steps)
    if found.bound_ms is not None:
        row.bound_ms = found.bound_ms


def _recommended(shadow: StoredShadow, inputs: Inputs, recent_bounds_ms: tuple[int, ...]) -> Recommendation:
    """Return what would be recommended, had the shadow's bounds been in use since its start."""
    in_use_ms = inputs.in_use_bound_ms if shadow.row.bound_ms is None else shadow.row.bound_ms
    return recommend(
        replace(
            inputs,
            slo=shadow.tried.beside(inputs.slo),
            in_use_bound_ms=in_use_ms,
            recent_bounds_ms=recent_bounds_ms,
        )
    )


def _place(row: ShadowRow) -> tuple[int, str, int]:
    """Return what changes when another process sets the shadow or counts for it."""
    return row.since_us, row.specification, row.counted_report_id


def _write_counted(session: Session, row: ShadowRow, counted: _Counted) -> None:
    add_days(
        session,
        row.stream_id,
        counted.days,
        bound_ms=row.bound_ms,
        in_use_bound_ms=counted.in_use_bound_ms,
    )
    row.counted_report_id = counted.last_report_id
    if counted.closed is not None:
        row.query_id = counted.closed.query_id
        row.closed_us, row.in_use_closed_us = counted.closed.shadow_us, counted.closed.in_use_us


def _count(session: Session, shadow: StoredShadow) -> _Counted | None:
    """Return what the next batches add; None without any."""
    row = shadow.row
    which = {"stream": row.stream_id, "after": row.counted_report_id}
    found = session.connection().execute(_NEW, which).all()
    if not found:
        return None
    batches = [_batch(each) for each in found]
    closed = shadow.closed
    starts = [batch.watermark_us or batch.backlog_us for batch in batches]
    if closed is not None:
        starts += [closed.shadow_us, closed.in_use_us]
    marks = [max(batch.watermark_us, batch.base_us or 0) for batch in batches]
    windows = any(each.operator == WINDOW for each in found)
    # Bounds are not negative outside Live, so no window that ended after the base closes.
    ends_us = keys_in(session, row.stream_id, min(starts), max(marks) if windows else min(starts))
    days, closed = tally(batches, ends_us, closed, row.bound_ms)
    newest = max(found, key=lambda each: (each.seen_us, each.id))
    return _Counted(found[-1].id, days, closed, newest.bound_ms)


_NEW = (
    select(
        ReportRow.id,
        ReportRow.query_id,
        ReportRow.batch_id,
        ReportRow.operator,
        ReportRow.seen_us,
        ReportRow.started_us,
        ReportRow.duration_ms,
        ReportRow.watermark_ms,
        ReportRow.late_base_ms,
        ReportRow.first_key_us,
        ReportRow.bound_ms,
        ReportRow.need_base_ms,
        ReportRow.rows,
        *BY_BOUND,
        ReportRow.unjudged_rows,
        ReportRow.keys_per_row,
        ReportBodyRow.body,
        max_up_to(ReportRow.stream_id, ReportRow.query_id, ReportRow.batch_id - 1).label("before_us"),
        QueryRow.gone_batch,
        QueryRow.gone_max_event_time_us,
    )
    .outerjoin(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
    .outerjoin(
        QueryRow, (QueryRow.stream_id == ReportRow.stream_id) & (QueryRow.query_id == ReportRow.query_id)
    )
    .where(ReportRow.stream_id == bindparam("stream"), ReportRow.id > bindparam("after"))
    .order_by(ReportRow.id)
    .limit(_MAX_REPORTS)
)
"""The reports that are not counted yet, in the order in which they came."""


def _batch(row: Any) -> TriedBatch:
    before_us = with_gone(row.before_us, row.gone_batch, row.gone_max_event_time_us, row.batch_id - 1)
    base_ms = late_base_ms(row.late_base_ms, before_us)
    if row.body is None:
        # It aged out before it was counted: what it needed is not known any more.
        needs = Needs(None, unknown_rows=row.rows)
    else:
        needs = needs_against(stored_report(row.body), row.need_base_ms)
    return TriedBatch(
        query_id=row.query_id,
        seen_us=row.seen_us,
        wall_us=row.started_us + row.duration_ms * 1_000,
        watermark_us=row.watermark_ms * SPARK_TICK_US,
        base_us=None if base_ms is None else base_ms * SPARK_TICK_US,
        backlog_us=max(row.started_us, (row.first_key_us or 0) - 1),
        in_use_bound_ms=row.bound_ms,
        needs=needs,
        judged=Judged(row.pairs, row.late_min, row.late_max),
        unjudged=row.unjudged_rows * row.keys_per_row,
    )
