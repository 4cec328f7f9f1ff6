"""What the newest reports of each stream add up to, read for all streams at once. Alerts on rows rest on it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sqlalchemy import ColumnElement, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session

from tidemark.controller.db.tables import ReportRow, RollupRow, SeriesRow, StreamRow
from tidemark.controller.reports.store import newest_report_query
from tidemark.models.evidence.slots import HOUR_US, SLOT_US, edge_us

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
    short = [window for window in windows if window <= _LONGEST_BY_MINUTE_S]
    long = [window for window in windows if window > _LONGEST_BY_MINUTE_S]
    for some, width_us in ((short, SLOT_US), (long, HOUR_US)):
        _add_series(session, sums, some, width_us, now_us)
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


def _add_series(
    session: Session, sums: dict[int, dict[int, list[int]]], windows: list[int], width_us: int, now_us: int
) -> None:
    """Add what is counted in slots of one width."""
    if not windows:
        return
    starts = {window: edge_us(now_us - window * 1_000_000, width_us) for window in windows}
    table = SeriesRow
    rows = session.execute(
        select(
            table.stream_id,
            *(
                func.sum(case((table.slot_us >= start, column), else_=0))
                for start in starts.values()
                for column in (table.pairs, table.late_max)
            ),
        )
        .where(table.width_us == width_us, table.slot_us >= min(starts.values()))
        .group_by(table.stream_id)
    )
    for stream_id, *counted in rows:
        for number, window in enumerate(windows):
            _add(sums[stream_id][window], counted[2 * number], counted[2 * number + 1])


def _add_waiting(
    session: Session, sums: dict[int, dict[int, list[int]]], windows: list[int], now_us: int
) -> None:
    """Add the reports that are not counted in slots yet."""
    table = ReportRow
    rows = session.execute(
        select(table.stream_id, table.seen_us, table.pairs, table.late_max)
        .join(StreamRow, StreamRow.id == table.stream_id)
        .outerjoin(RollupRow, RollupRow.stream_id == table.stream_id)
        .where(table.id > func.coalesce(RollupRow.split_report_id, 0))
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
