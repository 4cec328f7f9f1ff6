"""Corrects needs that were counted against too low a base: an earlier batch came late and raised it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import bindparam, func, or_, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import ReportBodyRow, ReportRow
from tidemark.controller.reports.stored_bodies import clocks_of, stored_report
from tidemark.models.evidence.needs import Needs, needs_against
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.set_aside import behind_us
from tidemark.models.protocol.messages import Report


@dataclass(frozen=True, slots=True)
class Corrected:
    """A stored report whose needs were counted again."""

    report_id: int
    seen_us: int
    """When its batch was seen, in microseconds."""
    before: Needs
    """Its needs as they were counted."""
    after: Needs
    """Its needs now."""
    added: Mapping[str, int]
    """What is added to its facts that follow from its needs, by column of ``ReportRow``."""


def raise_later_bases(session: Session, stream_id: int, report: Report, max_ms: int) -> list[Corrected]:
    """Count the needs of stored batches that follow ``report`` again where their base was below its maximum.

    A report whose body is deleted keeps the needs that it was counted with.

    Args:
        session: the session; the stream is locked.
        max_ms: its maximum event time in milliseconds.

    Returns:
        Those that changed.
    """
    too_low = session.execute(
        select(ReportRow, ReportBodyRow)
        .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
        .where(
            ReportRow.stream_id == stream_id,
            ReportRow.query_id == report.query_id,
            ReportRow.batch_id >= report.batch_id + 2,
            ReportRow.excessive_rows + ReportRow.replayed_rows == 0,
            or_(ReportRow.need_base_ms.is_(None), ReportRow.need_base_ms < max_ms),
        )
        .order_by(ReportRow.id)
    ).all()
    corrected = []
    for row, stored in too_low:
        sent = stored_report(stored.body)
        replayed = is_replayed(session, stream_id, sent, max_ms, row.seen_us)
        base_ms = None if replayed else max_ms
        before, after = (
            needs_against(sent, of_ms, clocks=clocks_of(row)) for of_ms in (row.need_base_ms, base_ms)
        )
        added = {"replayed_rows": sent.rows - sent.null_rows} if replayed else {}
        row.replayed_rows += added.get("replayed_rows", 0)
        for column, name in _COLUMNS.items():
            added[column] = getattr(after, name) - getattr(before, name)
            setattr(row, column, getattr(row, column) + added[column])
        row.need_base_ms = base_ms
        stored.needs = sketch_of(PartitionNeeds.counted(after))
        corrected.append(Corrected(row.id, row.seen_us, before, after, added))
    return corrected


def is_replayed(session: Session, stream_id: int, report: Report, base_ms: int | None, seen_us: int) -> bool:
    """Return whether all rows of a batch are behind newer ones, and were there before its query was."""
    behind = behind_us(report, base_ms)
    if not behind:
        return False
    first_us = session.connection().scalar(_FIRST, {"stream": stream_id, "query": report.query_id})
    return behind > seen_us - (seen_us if first_us is None else first_us)


_FIRST = select(func.min(ReportRow.seen_us)).where(
    ReportRow.stream_id == bindparam("stream"), ReportRow.query_id == bindparam("query")
)

_COLUMNS = {
    "need_pairs": "pairs",
    "need_unknown_rows": "unknown_rows",
    "early_rows": "early_rows",
    "misdated_rows": "misdated_rows",
    "misdated_late": "misdated_late",
    "misdated_pairs": "misdated_pairs",
}
"""The columns of a report that follow from its needs, and which field of ``Needs`` each has."""


def sketch_of(needs: PartitionNeeds) -> bytes | None:
    """Return ``ReportBodyRow.needs`` of a report."""
    return needs.whole.to_bytes() if needs.names else None
