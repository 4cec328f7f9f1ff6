"""Sums of a stream's reports by the minute and the hour, for charts and sums over long spans.

Reports are counted in it together with the needs of their partitions (``RollupRow.split_report_id``), so readers add
the newest reports themselves. Time that is rolled up by the hour has no minutes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, func, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import ReportRow, RollupRow, SeriesRow
from tidemark.controller.evidence.horizon import effective_bound_of
from tidemark.controller.evidence.needs import Span, levels_of
from tidemark.models.evidence.slots import HOUR_US, SLOT_US, Levels, edge_us

_WIDTHS = (SLOT_US, HOUR_US)

_ADDED = ("batches", "rows", "pairs", "late_min", "late_max", "unjudged_rows", "future_rows")


@dataclass(frozen=True, slots=True)
class SeriesSums:
    """Sums of the reports of a span."""

    batches: int
    rows: int
    pairs: int
    """(Row, key) pairs that were judged."""
    late_min: int
    late_max: int
    unjudged: int
    """Upper limit of the pairs whose fate is unknown."""

    @property
    def counted(self) -> int:
        """Pairs that arrived."""
        return self.pairs + self.unjudged


def add_to_series(session: Session, levels: Levels, reports: Sequence[ReportRow]) -> None:
    """Count reports, at least one, of a stream, which is locked."""
    slots: dict[tuple[int, int], list[ReportRow]] = {}
    stream_id = reports[0].stream_id
    for report in reports:
        for width_us in _WIDTHS:
            if width_us >= levels.width_us(report.seen_us) or width_us == HOUR_US:
                slots.setdefault((width_us, edge_us(report.seen_us, width_us)), []).append(report)
    widths, starts = {width_us for width_us, _ in slots}, {slot_us for _, slot_us in slots}
    rows = session.scalars(_SLOTS, {"stream": stream_id, "widths": [*widths], "starts": [*starts]})
    held = {(row.width_us, row.slot_us): row for row in rows}
    known: dict[int, int | None] = {}
    for (width_us, slot_us), some in sorted(slots.items()):
        added = _summed(width_us, slot_us, some)
        row = held.get((width_us, slot_us))
        if row is None or row.newest_us <= added.newest_us:
            last = _newest(some)
            if last.id not in known:
                known[last.id] = effective_bound_of(session, last)
            added.effective_bound_ms = known[last.id]
        if row is None:
            session.add(added)
        else:
            _merge(row, added)


def series_in(session: Session, span: Span) -> list[SeriesRow]:
    """Return the minutes of a span, or hours where it is rolled up, with the newest reports, in order.

    The rows are read-only.
    """
    rollup = session.get(RollupRow, span.stream_id)
    until_us = levels_of(rollup).hours_until_us
    found = [
        *_stored(session, span, HOUR_US, None, until_us),
        *_stored(session, span, SLOT_US, until_us, None),
    ]
    return sorted(
        _with_rest(session, span, 0 if rollup is None else rollup.split_report_id, found),
        key=lambda row: row.slot_us,
    )


def series_sums(session: Session, span: Span) -> SeriesSums | None:
    """Return the sums of a span that ends with the newest batch; None without reports."""
    rollup = session.get(RollupRow, span.stream_id)
    hour_us = -(-span.from_us // HOUR_US) * HOUR_US
    until_us = levels_of(rollup).hours_until_us
    # Minutes up to the first whole hour, then hours: few rows for any span.
    from_hour_us = hour_us if span.from_us >= until_us else edge_us(span.from_us, HOUR_US)
    slots = (
        {"width": SLOT_US, "from": max(span.from_us, until_us), "until": hour_us},
        {"width": HOUR_US, "from": from_hour_us, "until": 2**62},
    )
    session.flush()
    connection, stream = session.connection(), {"stream": span.stream_id}
    parts = [connection.execute(_SUMS, {**stream, **which}).one() for which in slots]
    # PostgreSQL sums to exact decimals.
    counted = [[int(number) for number in part] for part in parts]
    new = {"from": span.from_us, "after": 0 if rollup is None else rollup.split_report_id}
    counted += [[1, *report] for report in connection.execute(_WAITING, {**stream, **new})]
    batches, rows, pairs, late_min, late_max, unjudged, keys = zip(*counted, strict=True)
    if not sum(batches):
        return None
    return SeriesSums(
        sum(batches), sum(rows), sum(pairs), sum(late_min), sum(late_max), sum(unjudged) * max(keys)
    )


def forget_series(session: Session, stream_id: int, width_us: int, before_us: int) -> None:
    """Delete the slots of one width before a time."""
    session.execute(
        delete(SeriesRow).where(
            SeriesRow.stream_id == stream_id, SeriesRow.width_us == width_us, SeriesRow.slot_us < before_us
        )
    )


# Built once: building them takes longer than running them.
_SUMS = select(
    *(func.coalesce(func.sum(getattr(SeriesRow, name)), 0) for name in _ADDED[:-1]),
    func.coalesce(func.max(SeriesRow.keys_per_row), 0),
).where(
    SeriesRow.stream_id == bindparam("stream"),
    SeriesRow.width_us == bindparam("width"),
    SeriesRow.slot_us >= bindparam("from"),
    SeriesRow.slot_us < bindparam("until"),
)
_SLOTS = select(SeriesRow).where(
    SeriesRow.stream_id == bindparam("stream"),
    # Not as pairs, for which SQLite would read the stream's whole series; what is too many does no harm.
    SeriesRow.width_us.in_(bindparam("widths", expanding=True)),
    SeriesRow.slot_us.in_(bindparam("starts", expanding=True)),
)
_WAITING = select(
    ReportRow.rows,
    ReportRow.pairs,
    ReportRow.late_min,
    ReportRow.late_max,
    ReportRow.unjudged_rows,
    ReportRow.keys_per_row,
).where(
    ReportRow.stream_id == bindparam("stream"),
    ReportRow.seen_us >= bindparam("from"),
    ReportRow.id > bindparam("after"),
)


def _stored(
    session: Session, span: Span, width_us: int, from_us: int | None, until_us: int | None
) -> Iterable[SeriesRow]:
    table = SeriesRow
    statement = select(table).where(
        table.stream_id == span.stream_id,
        table.width_us == width_us,
        table.slot_us >= max(edge_us(span.from_us, width_us), from_us or edge_us(span.from_us, width_us)),
    )
    ends = [end for end in (span.until_us, until_us) if end is not None]
    if ends:
        statement = statement.where(table.slot_us < min(ends))
    return session.scalars(statement).all()


def _with_rest(session: Session, span: Span, split_id: int, found: list[SeriesRow]) -> list[SeriesRow]:
    levels = levels_of(session.get(RollupRow, span.stream_id))
    by_slot = {(row.width_us, row.slot_us): row for row in found}
    waiting: dict[tuple[int, int], list[ReportRow]] = {}
    for report in session.scalars(select(ReportRow).where(*span.reports, ReportRow.id > split_id)):
        width_us = max(SLOT_US, min(levels.width_us(report.seen_us), HOUR_US))
        waiting.setdefault((width_us, edge_us(report.seen_us, width_us)), []).append(report)
    for (width_us, slot_us), some in waiting.items():
        added = _summed(width_us, slot_us, some)
        row = by_slot.get((width_us, slot_us))
        if row is None or row.newest_us <= added.newest_us:
            added.effective_bound_ms = effective_bound_of(session, _newest(some))
        if row is None:
            by_slot[width_us, slot_us] = added
        else:
            # The sum is read-only: the session must not write it.
            session.expunge(row)
            _merge(row, added)
    return list(by_slot.values())


def _newest(reports: Sequence[ReportRow]) -> ReportRow:
    return max(reports, key=lambda report: (report.seen_us, report.batch_id, report.query_id))


def _summed(width_us: int, slot_us: int, reports: Sequence[ReportRow]) -> SeriesRow:
    last = _newest(reports)
    return SeriesRow(
        stream_id=last.stream_id,
        width_us=width_us,
        slot_us=slot_us,
        batches=len(reports),
        **{name: sum(getattr(report, name) for report in reports) for name in _ADDED[1:]},
        keys_per_row=max(report.keys_per_row for report in reports),
        newest_us=last.seen_us,
        bound_ms=last.bound_ms,
        effective_bound_ms=None,
        state_rows=last.state_rows,
    )


def _merge(row: SeriesRow, added: SeriesRow) -> None:
    for name in _ADDED:
        setattr(row, name, getattr(row, name) + getattr(added, name))
    row.keys_per_row = max(row.keys_per_row, added.keys_per_row)
    if added.newest_us >= row.newest_us:
        for name in ("newest_us", "bound_ms", "effective_bound_ms", "state_rows"):
            setattr(row, name, getattr(added, name))
