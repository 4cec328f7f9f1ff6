"""Taking a report: the batch's facts, its ledger rows and its needs, in the caller's one transaction.

Reports may come in any order and more than once. The ledger adds up, so order does not matter to it. Needs are
counted against a base that earlier batches make; when one of those comes late and raises it, the needs that were
counted against too low a base are counted again from the stored reports, so that the result is the same in any order.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass

from pydantic import TypeAdapter
from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from tidemark.controller.errors import ReportConflictError
from tidemark.controller.store.database import ANSWERS_CHANGED
from tidemark.controller.store.ledger import add_judgement
from tidemark.controller.store.live import keep_live
from tidemark.controller.store.needs import add_needs, clear_slot
from tidemark.controller.store.partitions import add_partitions
from tidemark.controller.store.streams import add_event, lock_stream
from tidemark.controller.store.tables import QueryRow, ReportBodyRow, ReportRow, StreamRow
from tidemark.models.horizon import batch_facts
from tidemark.models.late_base import Needs, floor_ms, late_base_ms, needs_against
from tidemark.models.ledger import Judgement, judge
from tidemark.models.need_slots import SLOT_US, slot_of_us
from tidemark.models.wire import Acknowledgement, Report, to_json_object

__all__ = ["Receipt", "canonical_json", "fingerprint", "stored_report", "take_report"]

_REPORT = TypeAdapter(Report)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a report."""

    received_us: int
    """When it was first received, in microseconds since the epoch."""
    duplicate: bool
    """Whether it had been received before; then nothing was changed."""


def canonical_json(value: Report | Acknowledgement) -> bytes:
    """Return the one JSON text of ``value``: sorted keys, no spaces."""
    return json.dumps(
        to_json_object(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode()


def fingerprint(content: bytes) -> str:
    """Return a digest of ``content`` by which equal contents are told, 64 characters."""
    return hashlib.sha256(content).hexdigest()


def take_report(session: Session, report: Report, now_us: int) -> Receipt:
    """Store a report and what follows from it, once.

    Raises:
        ReportConflictError: when the batch was reported before with other content; the first report stays.
    """
    content = canonical_json(report)
    digest = fingerprint(content)
    stream = lock_stream(session, report.job, report.stream, now_us)
    before = session.execute(
        select(ReportRow.received_us, ReportRow.fingerprint).where(
            ReportRow.stream_id == stream.id,
            ReportRow.query_id == report.query_id,
            ReportRow.batch_id == report.batch_id,
        )
    ).one_or_none()
    if before is not None:
        if before.fingerprint != digest:
            raise ReportConflictError(
                f"batch {report.batch_id} of query {report.query_id} was reported before with other content; "
                "the first report stays"
            )
        stream.duplicates += 1
        return Receipt(before.received_us, duplicate=True)
    if stream.registered_us is None:
        stream.registered_us = now_us
        add_event(session, stream.id, now_us, kind="StreamRegistered", reason="its first report was received")
        session.info[ANSWERS_CHANGED] = True
    _store(session, stream, report, content, now_us)
    return Receipt(now_us, duplicate=False)


def stored_report(body: bytes) -> Report:
    """Return the report whose stored body is ``body``."""
    return _REPORT.validate_json(zlib.decompress(body))


def _store(session: Session, stream: StreamRow, report: Report, content: bytes, now_us: int) -> None:
    judgement = judge(report)
    needs = needs_against(
        report, late_base_ms(report.late_base_ms, _stored_base_us(session, stream.id, report))
    )
    row = _report_row(stream.id, report, judgement, needs, now_us)
    row.fingerprint = fingerprint(content)
    session.add(row)
    session.flush()
    session.add(ReportBodyRow(report_id=row.id, body=zlib.compress(content, 6)))
    add_judgement(session, stream.id, report.operator, judgement)
    add_needs(session, stream.id, slot_of_us(row.seen_us), needs)
    add_partitions(session, row, report)
    keep_live(session, row, report)
    _add_to_query(session, stream.id, report)
    stream.reports += 1
    stream.pairs += row.pairs
    stream.late_least += row.late_least
    stream.late_most += row.late_most
    stream.unjudged_rows += row.unjudged_rows
    if report.max_event_time_us is not None:
        _raise_later_bases(session, stream.id, report, floor_ms(report.max_event_time_us))


def _stored_base_us(session: Session, stream_id: int, report: Report) -> int | None:
    return session.scalars(
        select(ReportRow.max_event_time_us)
        .where(
            ReportRow.stream_id == stream_id,
            ReportRow.query_id == report.query_id,
            ReportRow.batch_id <= report.batch_id - 2,
            ReportRow.max_event_time_us.is_not(None),
        )
        .order_by(ReportRow.max_event_time_us.desc())
        .limit(1)
    ).one_or_none()


def _report_row(stream_id: int, report: Report, judgement: Judgement, needs: Needs, now_us: int) -> ReportRow:
    return ReportRow(
        **asdict(batch_facts(report, judgement, needs, now_us)),
        stream_id=stream_id,
        query_id=report.query_id,
        run_id=report.run_id,
        batch_id=report.batch_id,
        received_us=now_us,
        started_us=report.started_us,
        duration_ms=report.duration_ms,
        operator=report.operator.kind,
        output_mode=report.output_mode,
        bound_ms=report.bound_ms,
        generation=report.generation,
        late_watermark_ms=report.late_watermark_ms,
        watermark_ms=report.watermark_ms,
        late_base_ms=report.late_base_ms,
        max_event_time_us=report.max_event_time_us,
        null_rows=report.null_rows,
        state_rows=report.state_rows,
        state_bytes=report.state_bytes,
        dropped_by_spark=report.dropped_by_spark,
        given_up_reports=report.given_up_reports,
        future_rows=sum(part.future_rows for part in report.partitions),
        need_base_ms=needs.base_ms,
    )


def _add_to_query(session: Session, stream_id: int, report: Report) -> None:
    query = session.get(QueryRow, (stream_id, report.query_id))
    if query is None:
        session.add(
            QueryRow(
                stream_id=stream_id,
                query_id=report.query_id,
                first_batch=report.batch_id,
                last_batch=report.batch_id,
                reports=1,
            )
        )
        return
    query.first_batch = min(query.first_batch, report.batch_id)
    query.last_batch = max(query.last_batch, report.batch_id)
    query.reports += 1


def _raise_later_bases(session: Session, stream_id: int, report: Report, max_ms: int) -> None:
    too_low = session.scalars(
        select(ReportRow).where(
            ReportRow.stream_id == stream_id,
            ReportRow.query_id == report.query_id,
            ReportRow.batch_id >= report.batch_id + 2,
            or_(ReportRow.need_base_ms.is_(None), ReportRow.need_base_ms < max_ms),
        )
    ).all()
    for row in too_low:
        row.need_base_ms = max_ms
    for slot_us in sorted({slot_of_us(row.seen_us) for row in too_low}):
        _count_needs_again(session, stream_id, slot_us)


def _count_needs_again(session: Session, stream_id: int, slot_us: int) -> None:
    clear_slot(session, stream_id, slot_us)
    in_slot = (
        select(ReportRow, ReportBodyRow.body)
        .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
        .where(
            ReportRow.stream_id == stream_id,
            ReportRow.seen_us >= slot_us,
            ReportRow.seen_us < slot_us + SLOT_US,
        )
        .order_by(ReportRow.id)
    )
    for row, body in session.execute(in_slot).all():
        needs = needs_against(stored_report(body), row.need_base_ms)
        row.need_pairs, row.need_unknown_rows, row.early_rows = (
            needs.pairs,
            needs.unknown_rows,
            needs.early_rows,
        )
        add_needs(session, stream_id, slot_us, needs)
