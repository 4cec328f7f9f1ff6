"""Taking a report: the batch's facts, its ledger rows and its needs, in the caller's one transaction.

Reports may come in any order and more than once. The ledger adds up, so order does not matter to it. Needs are
counted against a base that earlier batches make; when one of those comes late and raises it, the needs that were
counted against too low a base are taken back and counted again, so that the result is the same in any order.
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass
from typing import Any, cast

from pydantic_core import to_json
from sqlalchemy import Table, and_, bindparam, insert, or_, select
from sqlalchemy.orm import Session

from tidemark.controller.errors import ReportConflictError, ReportTooOldError
from tidemark.controller.store.bodies import packed, stored_report
from tidemark.controller.store.database import ANSWERS_CHANGED
from tidemark.controller.store.horizon import greatest_up_to, with_gone
from tidemark.controller.store.hours import add_to_hours, move_in_hours
from tidemark.controller.store.ledger import add_judgement
from tidemark.controller.store.live import keep_live
from tidemark.controller.store.needs import add_needs, levels_of, move_needs
from tidemark.controller.store.partitions import add_partitions
from tidemark.controller.store.streams import add_event, lock_stream
from tidemark.controller.store.tables import (
    NeedSlotRow,
    QueryRow,
    ReportBodyRow,
    ReportRow,
    RollupRow,
    StreamRow,
)
from tidemark.models.horizon import batch_facts
from tidemark.models.late_base import Needs, floor_ms, late_base_ms, needs_against
from tidemark.models.ledger import Judgement, judge
from tidemark.models.need_slots import SLOT_US, edge_us
from tidemark.models.wire import Acknowledgement, Report, to_json_object

__all__ = ["Receipt", "canonical_json", "fingerprint", "stored_report", "take_report"]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a report."""

    received_us: int
    """When it was first received, in microseconds since the epoch."""
    duplicate: bool
    """Whether it had been received before; then nothing was changed."""


def canonical_json(value: Report | Acknowledgement) -> bytes:
    """Return the one JSON text of ``value``: sorted keys, no spaces."""
    return to_json(_sorted(to_json_object(value)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    if isinstance(value, tuple) and value and isinstance(value[0], dict):
        return tuple(map(_sorted, value))
    return value


def fingerprint(content: bytes) -> str:
    """Return a digest of ``content`` by which equal contents are told, 64 characters."""
    return hashlib.sha256(content).hexdigest()


def take_report(session: Session, report: Report, now_us: int) -> Receipt:
    """Store a report and what follows from it, once.

    Raises:
        ReportConflictError: when the batch was reported before with other content; the first report stays.
        ReportTooOldError: when reports of its time are aged out, so that it might be counted twice.
    """
    content = canonical_json(report)
    digest = fingerprint(content)
    # Each flush costs as much as all that is counted here: what is changed waits for the commit, unless it is read.
    with session.no_autoflush:
        return _take(session, report, content, digest, now_us)


def _take(session: Session, report: Report, content: bytes, digest: str, now_us: int) -> Receipt:
    stream = lock_stream(session, report.job, report.stream, now_us)
    if stream in session.dirty:
        session.flush()
    known = _known(session, stream.id, report, min(report.started_us, now_us))
    if known.received_us is not None:
        if known.fingerprint != digest:
            raise ReportConflictError(
                f"batch {report.batch_id} of query {report.query_id} was reported before with other content; "
                "the first report stays"
            )
        stream.duplicates += 1
        return Receipt(known.received_us, duplicate=True)
    rollup = known.rollup
    if rollup is not None and report.started_us < rollup.reports_from_us:
        raise ReportTooOldError(
            f"/started_us: batch {report.batch_id} of query {report.query_id} started before "
            f"{rollup.reports_from_us}, from when on reports are kept: whether it came before cannot be told any "
            "more; drop it (TIDEMARK_RETENTION_REPORTS_DAYS)"
        )
    if stream.registered_us is None:
        stream.registered_us = now_us
        add_event(session, stream.id, now_us, kind="StreamRegistered", reason="its first report was received")
        session.info[ANSWERS_CHANGED] = True
    _store(session, stream, report, known, content=content, digest=digest, now_us=now_us)
    return Receipt(now_us, duplicate=False)


@dataclass(frozen=True, slots=True)
class _Known:
    """What the store holds that a report is taken by, read at once."""

    received_us: int | None
    """When the batch was received before; None when it was not."""
    fingerprint: str | None
    rollup: RollupRow | None
    query: QueryRow | None
    late_max_us: int | None
    """Greatest event time of the batches that its late filter knew."""
    before_max_us: int | None
    """Greatest event time of all batches before it."""
    slot: NeedSlotRow | None
    """The needs of its minute, so that the session has them when they are added to."""


# Made once: making it takes longer than running it.
_KNOWN = (
    select(
        ReportRow.received_us,
        ReportRow.fingerprint,
        RollupRow,
        QueryRow,
        NeedSlotRow,
        greatest_up_to("late").label("late_max_us"),
        greatest_up_to("before").label("before_max_us"),
    )
    .select_from(StreamRow)
    .outerjoin(
        ReportRow,
        and_(
            ReportRow.stream_id == StreamRow.id,
            ReportRow.query_id == bindparam("query"),
            ReportRow.batch_id == bindparam("batch"),
        ),
    )
    .outerjoin(RollupRow, RollupRow.stream_id == StreamRow.id)
    .outerjoin(QueryRow, and_(QueryRow.stream_id == StreamRow.id, QueryRow.query_id == bindparam("query")))
    .outerjoin(
        NeedSlotRow, and_(NeedSlotRow.stream_id == StreamRow.id, NeedSlotRow.slot_us == bindparam("slot"))
    )
    .where(StreamRow.id == bindparam("stream"))
)


def _known(session: Session, stream_id: int, report: Report, seen_us: int) -> _Known:
    row = session.execute(
        _KNOWN,
        {
            "stream": stream_id,
            "query": report.query_id,
            "batch": report.batch_id,
            "late": report.batch_id - 2,
            "before": report.batch_id - 1,
            "slot": edge_us(seen_us, SLOT_US),
        },
    ).one()
    query = row.QueryRow
    return _Known(
        row.received_us,
        row.fingerprint,
        row.RollupRow,
        query,
        with_gone(row.late_max_us, query, report.batch_id - 2),
        with_gone(row.before_max_us, query, report.batch_id - 1),
        row.NeedSlotRow,
    )


# Made once, and not by the unit of work, which would ask for each row's id by itself.
_INSERT_REPORT = insert(cast("Table", ReportRow.__table__))
_INSERT_BODY = insert(cast("Table", ReportBodyRow.__table__))


def _store(
    session: Session,
    stream: StreamRow,
    report: Report,
    known: _Known,
    *,
    content: bytes,
    digest: str,
    now_us: int,
) -> None:
    rollup = known.rollup
    levels = levels_of(rollup)
    judgement = judge(report)
    needs = needs_against(report, late_base_ms(report.late_base_ms, known.late_max_us))
    values = _report_values(stream.id, report, judgement, needs, now_us)
    values["fingerprint"] = digest
    inserted: Any = session.execute(_INSERT_REPORT, values)
    (report_id,) = inserted.inserted_primary_key
    session.execute(_INSERT_BODY, {"report_id": report_id, "body": packed(content)})
    row = ReportRow(id=report_id, **values)
    add_judgement(
        session, stream.id, report.operator, judgement, None if rollup is None else rollup.ledger_from_us
    )
    add_needs(session, stream.id, levels, row.seen_us, needs)
    if row.seen_us < levels.hours_until_us:
        add_to_hours(session, [row])
    add_partitions(session, row, report, late_base_ms(report.late_base_ms, known.before_max_us))
    keep_live(session, row, report)
    # Only batches that are stored already can have been counted without it.
    later = known.query is not None and known.query.last_batch >= report.batch_id + 2
    _add_to_query(session, stream.id, known.query, report)
    stream.reports += 1
    stream.pairs += row.pairs
    stream.late_least += row.late_least
    stream.late_most += row.late_most
    stream.unjudged_rows += row.unjudged_rows
    if later and report.max_event_time_us is not None:
        session.flush()
        _raise_later_bases(session, stream.id, report, floor_ms(report.max_event_time_us), rollup)


def _report_values(
    stream_id: int, report: Report, judgement: Judgement, needs: Needs, now_us: int
) -> dict[str, Any]:
    return {
        **asdict(batch_facts(report, judgement, needs, now_us)),
        "stream_id": stream_id,
        "query_id": report.query_id,
        "run_id": report.run_id,
        "batch_id": report.batch_id,
        "received_us": now_us,
        "started_us": report.started_us,
        "duration_ms": report.duration_ms,
        "operator": report.operator.kind,
        "output_mode": report.output_mode,
        "bound_ms": report.bound_ms,
        "generation": report.generation,
        "late_watermark_ms": report.late_watermark_ms,
        "watermark_ms": report.watermark_ms,
        "late_base_ms": report.late_base_ms,
        "max_event_time_us": report.max_event_time_us,
        "null_rows": report.null_rows,
        "state_rows": report.state_rows,
        "state_bytes": report.state_bytes,
        "dropped_by_spark": report.dropped_by_spark,
        "given_up_reports": report.given_up_reports,
        "future_rows": sum(part.future_rows for part in report.partitions),
        "need_base_ms": needs.base_ms,
    }


def _add_to_query(session: Session, stream_id: int, query: QueryRow | None, report: Report) -> None:
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


def _raise_later_bases(
    session: Session, stream_id: int, report: Report, max_ms: int, rollup: RollupRow | None
) -> None:
    # A report whose body is aged out stays counted against the base that was known while it was there.
    too_low = session.execute(
        select(ReportRow, ReportBodyRow.body)
        .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
        .where(
            ReportRow.stream_id == stream_id,
            ReportRow.query_id == report.query_id,
            ReportRow.batch_id >= report.batch_id + 2,
            or_(ReportRow.need_base_ms.is_(None), ReportRow.need_base_ms < max_ms),
        )
        .order_by(ReportRow.id)
    ).all()
    levels = levels_of(rollup)
    split_id = 0 if rollup is None else rollup.split_report_id
    for row, body in too_low:
        stored = stored_report(body)
        before, after = needs_against(stored, row.need_base_ms), needs_against(stored, max_ms)
        if row.seen_us < levels.hours_until_us:
            move_in_hours(session, row, before, after)
        move_needs(session, row, levels, before, after, split=row.id <= split_id)
        row.need_base_ms = max_ms
        row.need_pairs, row.need_unknown_rows, row.early_rows = (
            after.pairs,
            after.unknown_rows,
            after.early_rows,
        )
