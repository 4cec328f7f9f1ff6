"""Sets back the times of what was stored while the controller's clock was ahead.

A batch of that time would stay a stream's newest for as long as the clock was ahead, and a rollout would hold every
other for as long. They are set back when the batches after them, by the store's sequence, say for an hour that it is
earlier, and the driver's clock agrees with the store's: a single clock that is behind must not pull good times back.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, delete, exists, func, or_, select, update
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import (
    AcknowledgementRow,
    Base,
    FailedBoundRow,
    OffsetRow,
    PartitionRow,
    PredictionRow,
    PublishedRow,
    RecentBoundRow,
    ReportBodyRow,
    ReportRow,
    RolloutRow,
)
from tidemark.controller.evidence.roll_up import move_hour
from tidemark.controller.reports.stored_bodies import stored_report
from tidemark.models.evidence.misdated import AGREED_US, MAX_AHEAD_US
from tidemark.models.evidence.slots import HOUR_US, edge_us

_TIMES: dict[type[Base], tuple[str, ...]] = {
    PublishedRow: ("published_us",),
    AcknowledgementRow: ("applied_us", "received_us"),
    RolloutRow: (
        "changed_us",
        "created_us",
        "approved_us",
        "published_us",
        "acknowledged_us",
        "effective_us",
        "missed_us",
        "ended_us",
    ),
    FailedBoundRow: ("until_us",),
    PredictionRow: ("made_us", "became_effective_us"),
    PartitionRow: ("first_seen_us", "last_seen_us", "last_future_us", "skewed_us"),
    ReportRow: ("received_us",),
}
"""Times of a stream that others are compared with, beside those of its batches and their sums."""

_TELLING: tuple[tuple[type[Base], str], ...] = (
    (ReportRow, "seen_us"),
    (PublishedRow, "published_us"),
    (AcknowledgementRow, "applied_us"),
    (RolloutRow, "changed_us"),
)
"""The times that tell whether any is ahead."""


def set_back(session: Session, offset: OffsetRow, now_us: int) -> bool:
    """Set back the next times of a locked stream that are ahead for sure; return False without any.

    Args:
        offset: how far the stream is rolled up.
        now_us: the store's clock, in microseconds.
    """
    stream_id = offset.stream_id
    ahead_us = edge_us(now_us + 2 * HOUR_US, HOUR_US)
    telling = [exists().where(*_ahead(table, name, stream_id, ahead_us)) for table, name in _TELLING]
    if not session.scalars(select(or_(*telling))).one():
        return False
    right_us = _right_again_us(session, stream_id, ahead_us, now_us)
    if right_us is None:
        return False
    first_us: int | None = session.scalars(
        select(func.min(ReportRow.seen_us)).where(*_ahead(ReportRow, "seen_us", stream_id, ahead_us))
    ).one()
    if first_us is not None:
        # Never into a time whose minutes are aged out.
        to_us = max(right_us - 1, offset.hours_until_us)
        _move_reports(session, offset, edge_us(first_us, HOUR_US), to_us)
    for table, names in _TIMES.items():
        for name in names:
            wrong = _ahead(table, name, stream_id, ahead_us)
            session.execute(update(table).where(*wrong).values({name: right_us - 1}))
    session.execute(delete(RecentBoundRow).where(*_ahead(RecentBoundRow, "at_us", stream_id, ahead_us)))
    session.flush()
    session.expire_all()
    return True


def _ahead(table: type[Base], name: str, stream_id: int, ahead_us: int) -> tuple[ColumnElement[bool], ...]:
    columns = table.__table__.c
    return columns.stream_id == stream_id, columns[name] >= ahead_us


def _right_again_us(session: Session, stream_id: int, ahead_us: int, now_us: int) -> int | None:
    """Return since when both clocks have agreed that it is earlier; None while that is not for long."""
    last_wrong: int | None = session.scalars(
        select(func.max(ReportRow.id)).where(*_ahead(ReportRow, "received_us", stream_id, ahead_us))
    ).one()
    after = (ReportRow.stream_id == stream_id, ReportRow.id > (last_wrong or 0))
    right_us: int | None = now_us - AGREED_US
    if last_wrong is not None:
        right_us = session.scalars(select(func.min(ReportRow.seen_us)).where(*after)).one()
    newest = session.execute(
        select(ReportRow.received_us, ReportBodyRow.body)
        .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
        .where(*after)
        .order_by(ReportRow.id.desc())
        .limit(1)
    ).one_or_none()
    if newest is None or right_us is None or now_us - right_us < AGREED_US:
        return None
    received_us: int = newest.received_us
    apart_us = abs(received_us - stored_report(newest.body).started_us)
    return right_us if apart_us <= MAX_AHEAD_US else None


def _move_reports(session: Session, offset: OffsetRow, hour_us: int, to_us: int) -> None:
    """Move an hour's reports, and what is rolled up of them, to another time."""
    session.execute(
        update(ReportRow)
        .where(
            ReportRow.stream_id == offset.stream_id,
            ReportRow.seen_us >= hour_us,
            ReportRow.seen_us < hour_us + HOUR_US,
        )
        .values(seen_us=to_us, started_us=to_us)
    )
    move_hour(session, offset, hour_us, to_us)
