"""Stores a report: the batch's facts, its ledger rows and its needs, in the caller's transaction.

Reports may come in any order and repeatedly. The ledger is a sum, so their order does not matter to it. Needs are
counted against a base that earlier batches determine. When an earlier batch comes late and raises the base, the needs
counted against the old base are subtracted and counted again, so that the result does not depend on the order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from sqlalchemy import ColumnElement, Table, bindparam, func, insert, or_, select, update
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import QueryRow, ReportBodyRow, ReportRow, StreamRow
from tidemark.controller.db.upsert import Excluded, greater, lesser, upsert_many
from tidemark.controller.errors import ReportConflictError, ReportTooOldError
from tidemark.controller.evidence.hourly_sums import add_to_hours, move_in_hours
from tidemark.controller.evidence.ledger import add_by_key
from tidemark.controller.evidence.needs import add_needs, move_needs
from tidemark.controller.intake.canonical_json import canonical_json, fingerprint
from tidemark.controller.intake.limits import NO_LIMITS, Limits, check_room_for_partitions
from tidemark.controller.intake.report_counts import ReportCounts
from tidemark.controller.intake.stored_bodies import packed, stored_report
from tidemark.controller.intake.stored_facts import StoredFacts, stored_facts
from tidemark.controller.partitions.store import add_partitions, arrived_in, base_after_us
from tidemark.controller.stream_state.live import keep_live
from tidemark.controller.streams.store import add_event, lock_stream
from tidemark.models.cells import cells_of
from tidemark.models.horizon import ReportFacts, report_facts
from tidemark.models.late_base import floor_ms, late_base_ms, needs_against
from tidemark.models.ledger import judge
from tidemark.models.partition_needs import PartitionNeeds
from tidemark.models.wire import Report


@dataclass(frozen=True, slots=True)
class StoredReceipt:
    """Confirms that a report or an acknowledgement is stored."""

    received_us: int
    """When it was first received, in microseconds since the epoch."""
    duplicate: bool
    """Whether it was received before; then nothing was changed."""
    first: bool = False
    """Whether it is the stream's first report, which changes what is published to its job."""
    counted: Mapping[int, tuple[str, ReportCounts]] = field(default_factory=dict)
    """What ``ReportCountsCache`` is to keep of it once it is committed."""


def take_report(session: Session, report: Report, now_us: int, limits: Limits = NO_LIMITS) -> StoredReceipt:
    """Store a report and what follows from it, once.

    It bypasses the session, which may hold no unflushed changes.

    Raises:
        ReportConflictError: when the batch was reported before with other content; the first report stays.
        ReportTooOldError: when reports of its time are deleted, so that it might be counted twice.
    """
    content = canonical_json(report)
    digest = fingerprint(content)
    stream_id, registered = _locked(session, report, limits)
    known = stored_facts(session, stream_id, report)
    if known.received_us is not None:
        if known.fingerprint != digest:
            raise ReportConflictError(
                f"batch {report.batch_id} of query {report.query_id} was reported before with other content; "
                "the first report stays"
            )
        session.connection().execute(_COUNT_DUPLICATE, {"which": stream_id})
        return StoredReceipt(known.received_us, duplicate=True)
    if report.started_us < known.reports_from_us:
        raise ReportTooOldError(
            f"/started_us: batch {report.batch_id} of query {report.query_id} started before "
            f"{known.reports_from_us}, and older reports are deleted: whether it came before is no longer known; "
            "drop it (TIDEMARK_RETENTION_REPORTS_DAYS)"
        )
    if not registered:
        add_event(session, stream_id, now_us, kind="StreamRegistered", reason="its first report was received")
        session.flush()
    report_id, counted = _store(
        session, stream_id, report, known, content=content, digest=digest, now_us=now_us, limits=limits
    )
    return StoredReceipt(
        now_us, duplicate=False, first=not registered, counted={report_id: (digest, counted)}
    )


# Statements are built once: building one takes longer than running it.
_STREAMS = cast("Table", StreamRow.__table__)
_LOCK = (
    select(_STREAMS.c.id, _STREAMS.c.registered_us)
    .where(_STREAMS.c.job == bindparam("job"), _STREAMS.c.stream == bindparam("stream"))
    .with_for_update()
)
_COUNT_DUPLICATE = (
    update(_STREAMS).where(_STREAMS.c.id == bindparam("which")).values(duplicates=_STREAMS.c.duplicates + 1)
)
_TOTALS = ("pairs", "late_min", "late_max", "unjudged_rows")
_COUNT = (
    update(_STREAMS)
    .where(_STREAMS.c.id == bindparam("which"))
    .values(
        registered_us=func.coalesce(_STREAMS.c.registered_us, bindparam("now")),
        reports=_STREAMS.c.reports + 1,
        **{name: _STREAMS.c[name] + bindparam(f"more_{name}") for name in _TOTALS},
    )
)
_INSERT_REPORT = insert(cast("Table", ReportRow.__table__))
_INSERT_BODY = insert(cast("Table", ReportBodyRow.__table__))


def _locked(session: Session, report: Report, limits: Limits) -> tuple[int, bool]:
    """Lock the stream; return its id, and whether a report was received before."""
    named = {"job": report.job, "stream": report.stream}
    found = session.connection().execute(_LOCK, named).one_or_none()
    if found is None:
        return lock_stream(session, report.job, report.stream, limits).id, False
    return found.id, found.registered_us is not None


def _store(
    session: Session,
    stream_id: int,
    report: Report,
    known: StoredFacts,
    *,
    content: bytes,
    digest: str,
    now_us: int,
    limits: Limits,
) -> tuple[int, ReportCounts]:
    """Store a report; return its id, and what it adds by partition."""
    cells, levels, connection = cells_of(report), known.levels, session.connection()
    judgement = judge(report, cells)
    needs = needs_against(report, late_base_ms(report.late_base_ms, known.late_max_us), cells)
    counted = ReportCounts(report.operator, judgement, needs.base_ms, PartitionNeeds.counted(needs))
    facts = report_facts(report, cells, judgement, needs, now_us)
    arrived = arrived_in(report, cells)
    check_room_for_partitions(session, stream_id, arrived.names, known.partitions, limits)
    values = _report_values(stream_id, report, facts, needs.base_ms, now_us)
    values["fingerprint"] = digest
    inserted: Any = connection.execute(_INSERT_REPORT, values)
    (report_id,) = inserted.inserted_primary_key
    connection.execute(_INSERT_BODY, {"report_id": report_id, "body": packed(content)})
    add_by_key(session, stream_id, (report.operator, judgement), known.ledger_from_us)
    add_needs(session, stream_id, levels, facts.seen_us, counted.needs)
    if facts.seen_us < levels.hours_until_us:
        add_to_hours(session, [ReportRow(id=report_id, **values)])
        session.flush()
    base_us = base_after_us(report, late_base_ms(report.late_base_ms, known.before_max_us))
    add_partitions(session, stream_id, arrived, facts.seen_us, base_us)
    keep_live(session, stream_id, report_id, report)
    upsert_many(
        session,
        QueryRow,
        {"query_id": [report.query_id]},
        same={
            "stream_id": stream_id,
            "first_batch": report.batch_id,
            "last_batch": report.batch_id,
            "reports": 1,
        },
        added=("reports",),
        changes=_batches,
    )
    totals = {f"more_{name}": getattr(facts, name) for name in _TOTALS}
    connection.execute(_COUNT, {"which": stream_id, "now": now_us, **totals})
    # Only batches that are stored already can have been counted against too low a base.
    later = known.last_batch is not None and known.last_batch >= report.batch_id + 2
    if later and report.max_event_time_us is not None:
        # The session may hold rows as they were before one of these statements.
        session.expire_all()
        _raise_later_bases(session, stream_id, report, floor_ms(report.max_event_time_us), known)
        session.flush()
    return report_id, counted


def _batches(new: Excluded) -> dict[str, ColumnElement[Any]]:
    return {
        "first_batch": lesser(QueryRow.first_batch, new.first_batch),
        "last_batch": greater(QueryRow.last_batch, new.last_batch),
    }


def _report_values(
    stream_id: int, report: Report, facts: ReportFacts, need_base_ms: int | None, now_us: int
) -> dict[str, Any]:
    return {
        **asdict(facts),
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
        "dropped_reports": report.dropped_reports,
        "future_rows": sum(part.future_rows for part in report.partitions),
        "need_base_ms": need_base_ms,
    }


def _raise_later_bases(
    session: Session, stream_id: int, report: Report, max_ms: int, known: StoredFacts
) -> None:
    # A report whose body is deleted keeps the needs that it was counted with.
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
    levels = known.levels
    for row, body in too_low:
        stored = stored_report(body)
        before, after = needs_against(stored, row.need_base_ms), needs_against(stored, max_ms)
        if row.seen_us < levels.hours_until_us:
            move_in_hours(session, row, before, after)
        move_needs(session, row, levels, before, after, split=row.id <= known.split_report_id)
        row.need_base_ms = max_ms
        row.need_pairs, row.need_unknown_rows, row.early_rows = (
            after.pairs,
            after.unknown_rows,
            after.early_rows,
        )
