"""What the newest reports of each stream add up to, read for all streams at once. Alerts on rows rest on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import BigInteger, ColumnElement, and_, func, select, true
from sqlalchemy.orm import InstrumentedAttribute, Session

from tidemark.controller.db.statements import given, given_rows
from tidemark.controller.db.tables import OffsetRow, ReportRow, RollupRow, StreamRow
from tidemark.controller.evidence.rollups import cover
from tidemark.controller.reports.store import newest_report_query
from tidemark.models.evidence.slots import HOUR_US, SLOT_US, Levels, edge_us

QUARTER_US = 900_000_000
"""A quarter of an hour, in microseconds."""

_LONGEST_BY_MINUTE_S = 21_600
"""Maximum length of a window that is added up from minutes, in seconds; longer ones are added up from hours."""


@dataclass(frozen=True, slots=True)
class JudgedRows:
    """The (row, key) pairs of a span of time."""

    judged: int
    """How many were judged."""
    late: int
    """How many of them were late, or may have been."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentRows:
    """What the newest reports of a stream add up to."""

    by_window_s: Mapping[int, JudgedRows]
    """By length of a window that ends now, in seconds."""
    watermark_then_ms: int | None
    """The watermark a quarter of an hour ago; None when there was none."""
    judged: int
    """Pairs judged in the last quarter of an hour."""
    future_rows: int
    """Future-dated rows of it."""
    misdated_rows: int
    """Rows of it whose event time no delay explains."""
    uncounted_rows: int
    """Rows of it that could not be counted."""


NO_RECENT_ROWS = RecentRows(
    by_window_s={}, watermark_then_ms=None, judged=0, future_rows=0, misdated_rows=0, uncounted_rows=0
)
"""Of a stream without reports."""


def load_recent_rows(session: Session, windows_s: Iterable[int], now_us: int) -> dict[int, RecentRows]:
    """Return by stream what its newest reports add up to; streams without reports are left out.

    Args:
        session: the session.
        windows_s: lengths of windows that end now, in seconds. They begin on the edge of the minute, or of the hour,
            that holds their start.
        now_us: the wall time, in microseconds.
    """
    windows = sorted(set(windows_s))
    sums: defaultdict[int, dict[int, list[int]]] = defaultdict(lambda: {window: [0, 0] for window in windows})
    _add_rollups(session, sums, windows, now_us)
    _add_waiting(session, sums, windows, now_us)
    then = _watermarks(session, now_us - QUARTER_US)
    found = {}
    for stream_id, judged, future, misdated, uncounted in _of_a_quarter(session, now_us - QUARTER_US):
        found[stream_id] = RecentRows(
            by_window_s={window: JudgedRows(*counted) for window, counted in sums[stream_id].items()},
            watermark_then_ms=then.get(stream_id),
            judged=judged,
            future_rows=future,
            misdated_rows=misdated,
            uncounted_rows=uncounted,
        )
    return found


def _add_rollups(
    session: Session, sums: dict[int, dict[int, list[int]]], windows: list[int], now_us: int
) -> None:
    """Add what is rolled up."""
    columns: dict[str, list[int]] = {name: [] for name in ("window", "width_us", "from_us", "until_us")}
    for window in windows:
        edge = SLOT_US if window <= _LONGEST_BY_MINUTE_S else HOUR_US
        for part in cover(edge_us(now_us - window * 1_000_000, edge), None, Levels()):
            for name, value in zip(columns, (window, *part), strict=True):
                columns[name].append(value)
    dialect, table = session.get_bind().dialect.name, RollupRow
    asked = given_rows(dialect, {name: BigInteger() for name in columns})
    parts = and_(
        table.stream_id == StreamRow.id,
        table.width_us == asked.c.width_us,
        table.slot_us >= asked.c.from_us,
        table.slot_us < asked.c.until_us,
    )
    rows = session.execute(
        select(StreamRow.id, asked.c.window, func.sum(table.pairs), func.sum(table.late_max))
        .select_from(StreamRow)
        .join(asked, true())
        .join(table, parts)
        .group_by(StreamRow.id, asked.c.window),
        given(dialect, columns),
    )
    for stream_id, window, judged, late in rows:
        _add(sums[stream_id][window], judged, late)


def _add_waiting(
    session: Session, sums: dict[int, dict[int, list[int]]], windows: list[int], now_us: int
) -> None:
    """Add the reports that are not rolled up yet."""
    table = ReportRow
    rows = session.execute(
        select(table.stream_id, table.seen_us, table.pairs, table.late_max)
        .join(StreamRow, StreamRow.id == table.stream_id)
        .outerjoin(OffsetRow, OffsetRow.stream_id == table.stream_id)
        .where(table.id > func.coalesce(OffsetRow.last_report_id, 0))
    )
    for stream_id, seen_us, pairs, late in rows:
        for window in windows:
            if seen_us >= now_us - window * 1_000_000:
                _add(sums[stream_id][window], pairs, late)


def _add(into: list[int], judged: int, late: int) -> None:
    # PostgreSQL sums to an exact decimal.
    into[0] += int(judged)
    into[1] += int(late)


def _watermarks(session: Session, until_us: int) -> dict[int, int | None]:
    """Return by stream the watermark after its newest batch up to ``until_us``; None while there is none."""
    rows = session.execute(
        select(StreamRow.id, ReportRow.watermark_ms).join(
            ReportRow, ReportRow.id == newest_report_query(until_us)
        )
    )
    return {stream_id: watermark_ms or None for stream_id, watermark_ms in rows}


def _of_a_quarter(session: Session, from_us: int) -> list[tuple[int, ...]]:
    """Return by stream with reports the pairs judged, and the rows future-dated, misdated and not counted since."""

    def since(column: InstrumentedAttribute[int]) -> ColumnElement[int]:
        # At the end of an index, stream by stream.
        return (
            select(func.coalesce(func.sum(column), 0))
            .where(ReportRow.stream_id == StreamRow.id, ReportRow.seen_us >= from_us)
            .correlate(StreamRow)
            .scalar_subquery()
        )

    rows = session.execute(
        select(
            StreamRow.id,
            since(ReportRow.pairs),
            since(ReportRow.future_rows),
            since(ReportRow.misdated_rows),
            since(ReportRow.uncounted_rows),
        ).where(StreamRow.reports > 0)
    )
    return [tuple(map(int, row)) for row in rows]
