"""Quarantine: a report whose event times are far ahead is stored and acknowledged, but not counted.

It ends after ``AGREED_US`` of nothing but batches that agree: then the stream is really there, or the store's clock is
behind. Batches are ordered by the ids that the store gave them, since their times are what is in doubt.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.orm import Session

from tidemark.controller.base.db.limits import check_room_for_pairs
from tidemark.controller.base.db.tables import QuarantinedRow, ReportRow, StreamRow
from tidemark.controller.base.errors import ReportConflictError
from tidemark.controller.reports.stored_bodies import is_stored, packed
from tidemark.models.evidence.ledger import judge
from tidemark.models.evidence.misdated import (
    AGREED_US,
    MAX_AHEAD_US,
    QUARANTINE_US,
    Reached,
    limit_us,
    reached_us,
)
from tidemark.models.protocol.messages import Report


@dataclass(frozen=True, slots=True)
class Held:
    """Confirms that a report is in quarantine."""

    received_us: int
    """When it was first received, in microseconds since the epoch."""
    duplicate: bool
    """Whether it was there before."""


def quarantine(
    session: Session, stream_id: int, report: Report, now_us: int, *, content: bytes, digest: str
) -> Held | None:
    """Put a report whose event times are far ahead into quarantine; return None when it is to be counted.

    Args:
        session: the session; the stream is locked.
        stream_id: the stream.
        report: the report, which is not counted yet.
        now_us: the store's clock, in microseconds.
        content: the report as canonical JSON.
        digest: the fingerprint of that.

    Raises:
        ReportConflictError: when the batch is in quarantine with other content.
        TooManyPairsError: when the reports in quarantine would hold more late pairs than can be counted exactly.
    """
    event_time_us = reached_us(report.max_event_time_us, report.late_base_ms, report.watermark_ms)
    # Nearly every report ends here.
    if event_time_us is None or event_time_us <= now_us + MAX_AHEAD_US:
        return None
    after_id, last = last_counted(session, stream_id)
    highest_us = limit_us(last, now_us)
    if event_time_us <= highest_us:
        return None
    before = session.scalars(
        select(QuarantinedRow).where(
            QuarantinedRow.stream_id == stream_id,
            QuarantinedRow.query_id == report.query_id,
            QuarantinedRow.batch_id == report.batch_id,
        )
    ).one_or_none()
    if before is not None:
        if digest != before.fingerprint and not is_stored(before.body, content):
            raise ReportConflictError(
                f"batch {report.batch_id} of query {report.query_id} was reported before with other content, and is "
                "in quarantine; the first report stays"
            )
        return Held(before.received_us, duplicate=True)
    agreed_from_us = _agreed_from_us(session, stream_id, after_id, Reached(event_time_us, now_us))
    if report.max_event_time_us is not None and report.max_event_time_us <= highest_us:
        agreed_from_us = now_us  # its rows contradict its watermark
    if now_us - agreed_from_us >= AGREED_US:
        return None
    session.execute(
        delete(QuarantinedRow).where(
            QuarantinedRow.stream_id == stream_id, QuarantinedRow.received_us < now_us - QUARANTINE_US
        )
    )
    late = judge(report).total.late_min
    held = quarantines(session, [stream_id]).get(stream_id)
    check_room_for_pairs(0 if held is None else held.late, late)
    session.execute(
        insert(QuarantinedRow).values(
            stream_id=stream_id,
            query_id=report.query_id,
            batch_id=report.batch_id,
            received_us=now_us,
            event_time_us=event_time_us,
            after_report_id=after_id,
            agreed_from_us=agreed_from_us,
            late=late,
            fingerprint=digest,
            body=packed(content),
        )
    )
    session.execute(
        update(StreamRow)
        .where(StreamRow.id == stream_id)
        .values(
            quarantined=StreamRow.quarantined + 1,
            registered_us=func.coalesce(StreamRow.registered_us, now_us),
        )
        .execution_options(synchronize_session=False)
    )
    return Held(now_us, duplicate=False)


def last_counted(session: Session, stream_id: int) -> tuple[int, Reached | None]:
    """Return the id of the report counted last, 0 without any, and what it reached; None before the first row."""
    found = session.execute(
        select(
            ReportRow.id,
            ReportRow.received_us,
            ReportRow.max_event_time_us,
            ReportRow.late_base_ms,
            ReportRow.watermark_ms,
        )
        .where(ReportRow.stream_id == stream_id)
        .order_by(ReportRow.id.desc())
        .limit(1)
    ).one_or_none()
    if found is None:
        return 0, None
    event_time_us = reached_us(found.max_event_time_us, found.late_base_ms, found.watermark_ms)
    return found.id, None if event_time_us is None else Reached(event_time_us, found.received_us)


def _agreed_from_us(session: Session, stream_id: int, after_id: int, batch: Reached) -> int:
    """Return when the batches began that agree with ``batch``, with none counted since."""
    last = session.scalars(
        select(QuarantinedRow)
        .where(QuarantinedRow.stream_id == stream_id)
        .order_by(QuarantinedRow.id.desc())
        .limit(1)
    ).one_or_none()
    if last is None or last.after_report_id != after_id:
        return batch.received_us
    if not Reached(last.event_time_us, last.received_us).agrees(batch):
        return batch.received_us
    return min(last.agreed_from_us, batch.received_us)


@dataclass(frozen=True, slots=True)
class Quarantine:
    """The reports of a stream that are in quarantine."""

    reports: int
    """How many, at least 1."""
    late: int
    """(Row, key) pairs of them that were certainly late: lost, and in no ledger."""
    ahead_us: int
    """How far the one furthest ahead was ahead of the store's clock when it came, in microseconds."""
    newest_us: int
    """When the newest one was received, in microseconds."""


def quarantines(session: Session, stream_ids: Collection[int] | None = None) -> dict[int, Quarantine]:
    """Return what is in quarantine by stream, of these streams or of all."""
    wanted, given = (_HELD, {}) if stream_ids is None else (_SOME_HELD, {"ids": [*stream_ids]})
    return {
        stream_id: Quarantine(reports, int(late), ahead, newest_us)
        for stream_id, reports, late, ahead, newest_us in session.connection().execute(wanted, given)
    }


# Built once: building them takes longer than running them.
_HELD = select(
    QuarantinedRow.stream_id,
    func.count(),
    func.sum(QuarantinedRow.late),
    func.max(QuarantinedRow.event_time_us - QuarantinedRow.received_us),
    func.max(QuarantinedRow.received_us),
).group_by(QuarantinedRow.stream_id)
_SOME_HELD = _HELD.where(QuarantinedRow.stream_id.in_(bindparam("ids", expanding=True)))
