"""Hourly sums of reports, which make sums over a month fast.

They cover what was seen before ``RollupRow.hours_until_us``; newer reports are summed directly.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import ReportHourRow, ReportRow, RollupRow
from tidemark.controller.evidence.needs import Span, levels_of
from tidemark.models.evidence.coverage import Range, merge_ranges
from tidemark.models.evidence.horizon import SUMMED
from tidemark.models.evidence.needs import Needs
from tidemark.models.evidence.slots import HOUR_US, edge_us


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of the reports of a span."""

    batches: int
    """Number of batches, at least 1."""
    from_us: int
    """Trigger time of the first batch, in microseconds."""
    to_us: int
    """Trigger time of the newest batch, in microseconds."""
    keys_per_row: int
    """The maximum number of keys of one row."""
    sums: Mapping[str, int]
    """The sum of each of ``horizon.SUMMED``."""
    batches_of: Mapping[str, list[Range]]
    """Ranges of batch ids by query."""


def sums_in(session: Session, span: Span) -> Sums | None:
    """Return the sums of a span's reports; None without any.

    The part of the span that is summed by the hour has to begin and end on edges of hours.
    """
    until_us = levels_of(session.get(RollupRow, span.stream_id)).hours_until_us
    parts = [_of_reports(session, span, max(span.from_us, until_us))]
    if span.from_us < until_us:
        if span.from_us == edge_us(span.from_us, HOUR_US):
            parts.insert(0, _of_hours(session, span, until_us))
        else:
            # It begins within an hour, whose reports are still stored.
            parts = [_of_reports(session, span, span.from_us)]
    found = [part for part in parts if part is not None]
    if not found:
        return None
    batches_of: dict[str, list[Range]] = {}
    for part in found:
        for query_id, ranges in part.batches_of.items():
            batches_of.setdefault(query_id, []).extend(ranges)
    return Sums(
        sum(part.batches for part in found),
        min(part.from_us for part in found),
        max(part.to_us for part in found),
        max(part.keys_per_row for part in found),
        {name: sum(part.sums[name] for part in found) for name in SUMMED},
        {query_id: merge_ranges(ranges) for query_id, ranges in batches_of.items()},
    )


def add_to_hours(session: Session, reports: Iterable[ReportRow]) -> None:
    """Count stored reports in their hours; the stream is locked."""
    for report in reports:
        key = report.stream_id, edge_us(report.seen_us, HOUR_US), report.query_id
        hour = session.get(ReportHourRow, key)
        if hour is None:
            hour = ReportHourRow(
                stream_id=key[0],
                slot_us=key[1],
                query_id=key[2],
                batches=0,
                batch_ranges="[]",
                from_us=report.seen_us,
                to_us=report.seen_us,
                keys_per_row=report.keys_per_row,
                **dict.fromkeys(SUMMED, 0),
            )
            session.add(hour)
        hour.batches += 1
        hour.from_us, hour.to_us = min(hour.from_us, report.seen_us), max(hour.to_us, report.seen_us)
        hour.keys_per_row = max(hour.keys_per_row, report.keys_per_row)
        for name in SUMMED:
            setattr(hour, name, getattr(hour, name) + getattr(report, name))
        ranges = [*_ranges(hour), (report.batch_id, report.batch_id)]
        hour.batch_ranges = json.dumps(merge_ranges(ranges))


def move_in_hours(session: Session, report: ReportRow, before: Needs, after: Needs) -> None:
    """Replace the needs that a report's hour was counted with by the report's corrected needs."""
    key = report.stream_id, edge_us(report.seen_us, HOUR_US), report.query_id
    hour = session.get_one(ReportHourRow, key)
    hour.need_pairs += after.pairs - before.pairs
    hour.need_unknown_rows += after.unknown_rows - before.unknown_rows
    hour.early_rows += after.early_rows - before.early_rows
    hour.misdated_rows += after.misdated_rows - before.misdated_rows
    hour.misdated_late += after.misdated_late - before.misdated_late


def _ranges(hour: ReportHourRow) -> list[Range]:
    return [(first, last) for first, last in json.loads(hour.batch_ranges)]


def _of_reports(session: Session, span: Span, from_us: int) -> Sums | None:
    which = Span(span.stream_id, from_us, span.until_us).reports
    row = session.execute(
        select(
            func.count().label("batches"),
            func.min(ReportRow.seen_us).label("from_us"),
            func.max(ReportRow.seen_us).label("to_us"),
            func.max(ReportRow.keys_per_row).label("keys_per_row"),
            *(func.sum(getattr(ReportRow, name)).label(f"sum_{name}") for name in SUMMED),
        ).where(*which)
    ).one()
    if not row.batches:
        return None
    # Consecutive ids differ from their position by the same number.
    position = func.row_number().over(partition_by=ReportRow.query_id, order_by=ReportRow.batch_id)
    ids = (
        select(ReportRow.query_id, ReportRow.batch_id, (ReportRow.batch_id - position).label("run"))
        .where(*which)
        .subquery()
    )
    batches_of: dict[str, list[Range]] = {}
    runs = select(ids.c.query_id, func.min(ids.c.batch_id), func.max(ids.c.batch_id))
    for query_id, first, last in session.execute(runs.group_by(ids.c.query_id, ids.c.run)):
        batches_of.setdefault(query_id, []).append((first, last))
    return Sums(
        row.batches,
        row.from_us,
        row.to_us,
        row.keys_per_row,
        # PostgreSQL sums to an exact decimal, SQLite to an integer.
        {name: int(getattr(row, f"sum_{name}")) for name in SUMMED},
        batches_of,
    )


def _of_hours(session: Session, span: Span, until_us: int) -> Sums | None:
    until_us = until_us if span.until_us is None else min(until_us, span.until_us)
    hours = session.scalars(
        select(ReportHourRow).where(
            ReportHourRow.stream_id == span.stream_id,
            ReportHourRow.slot_us >= span.from_us,
            ReportHourRow.slot_us < until_us,
        )
    ).all()
    if not hours:
        return None
    batches_of: dict[str, list[Range]] = {}
    for hour in hours:
        batches_of.setdefault(hour.query_id, []).extend(_ranges(hour))
    return Sums(
        sum(hour.batches for hour in hours),
        min(hour.from_us for hour in hours),
        max(hour.to_us for hour in hours),
        max(hour.keys_per_row for hour in hours),
        {name: sum(getattr(hour, name) for hour in hours) for name in SUMMED},
        batches_of,
    )
