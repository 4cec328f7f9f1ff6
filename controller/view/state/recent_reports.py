"""What the newest reports say: of one stream by query, and summed up for all streams at once, for alerts on rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, zip_longest

from sqlalchemy import Label, RowMapping, bindparam, case, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from tidemark.controller.base.db.tables import OffsetRow, ReportRow, RollupRow, StreamRow
from tidemark.controller.evidence.rollups import cover
from tidemark.controller.reports.store import newest_report_query
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.evidence.slots import HOUR_US, SLOT_US, Levels, edge_us

RECENT_US = 900_000_000
"""How far back from the newest batch, in microseconds: a quarter of an hour."""

STANDSTILL_BATCHES = 10
"""Batches with rows after which a watermark that has not moved stands still; Spark moves it with the third."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentQuery:
    """What one query reported of a stream of late. Times are in microseconds."""

    query_id: str
    first_us: int
    """When its first batch was triggered."""
    last_us: int
    """When its last batch was triggered."""
    rows: int
    """Rows that reached its tap."""
    busy: int
    """Batches with rows that have an event time."""
    watermarks_ms: tuple[int, int]
    """The lowest and the highest watermark of its batches, in milliseconds; 0 before the first."""
    bound_ms: int
    """Its widest bound, in milliseconds."""
    event_us: tuple[int, int] | None
    """The lowest and the highest of the maximum event times of its batches; None without any."""
    driver_ahead_us: int | None = None
    """How far the clock of its driver was ahead of the controller's, at its worst; 0 while they agreed, None when it is
    not known."""
    rows_ahead_us: int | None = None
    """How far rows of wrong clocks were dated ahead, at their worst; negative behind, None without any."""

    @property
    def stands_still(self) -> bool:
        """Whether the watermark stands still although each batch with rows should have moved it beyond where it is."""
        lowest_ms, highest_ms = self.watermarks_ms
        if self.busy < STANDSTILL_BATCHES or lowest_ms != highest_ms or self.event_us is None:
            return False
        return self.event_us[0] > (highest_ms + self.bound_ms) * SPARK_TICK_US


def read_recent_queries(session: Session, stream_id: int, newest_us: int) -> list[RecentQuery]:
    """Return the queries that reported a stream shortly before ``newest_us``, in the order in which they began."""
    recent = {"stream": stream_id, "after": newest_us - RECENT_US}
    return [
        RecentQuery(
            query_id=row.query_id,
            first_us=row.first_us,
            last_us=row.last_us,
            # PostgreSQL sums to an exact decimal.
            rows=int(row.rows),
            busy=int(row.busy),
            watermarks_ms=(row.lowest_ms, row.highest_ms),
            bound_ms=row.bound_ms,
            event_us=None if row.lowest_us is None else (row.lowest_us, row.highest_us),
            driver_ahead_us=max(row.driver_max_us, row.driver_min_us, key=lambda off: abs(off or 0)),
            rows_ahead_us=max(row.rows_max_us, row.rows_min_us, key=lambda off: abs(off or 0)),
        )
        for row in session.connection().execute(_RECENT_QUERIES, recent)
    ]


# Built once: building it takes longer than running it.
_RECENT_QUERIES = (
    select(
        ReportRow.query_id,
        func.min(ReportRow.seen_us).label("first_us"),
        func.max(ReportRow.seen_us).label("last_us"),
        func.sum(ReportRow.rows).label("rows"),
        func.sum(case((ReportRow.max_event_time_us.is_not(None), 1), else_=0)).label("busy"),
        func.min(ReportRow.watermark_ms).label("lowest_ms"),
        func.max(ReportRow.watermark_ms).label("highest_ms"),
        func.max(ReportRow.bound_ms).label("bound_ms"),
        func.min(ReportRow.max_event_time_us).label("lowest_us"),
        func.max(ReportRow.max_event_time_us).label("highest_us"),
        func.max(ReportRow.driver_ahead_us).label("driver_max_us"),
        func.min(ReportRow.driver_ahead_us).label("driver_min_us"),
        func.max(ReportRow.rows_ahead_us).label("rows_max_us"),
        func.min(ReportRow.rows_ahead_us).label("rows_min_us"),
    )
    .where(ReportRow.stream_id == bindparam("stream"), ReportRow.seen_us > bindparam("after"))
    .group_by(ReportRow.query_id)
    .order_by(func.min(ReportRow.seen_us), ReportRow.query_id)
)


def at_once(queries: Sequence[RecentQuery]) -> list[RecentQuery]:
    """Return those of ``queries``, in the order in which they began, that ran while another did."""
    together: dict[str, RecentQuery] = {}
    for before, after in pairwise(queries):
        if after.first_us < before.last_us:
            together |= {before.query_id: before, after.query_id: after}
    return list(together.values())


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
        windows_s: lengths of windows that end now, in seconds. They begin on the edge of the minute, or of the hour,
            that holds their start.
    """
    windows = sorted(set(windows_s))
    sums: defaultdict[int, dict[int, list[int]]] = defaultdict(lambda: {window: [0, 0] for window in windows})
    _add_rollups(session, sums, windows, now_us)
    _add_waiting(session, sums, windows, now_us)
    by_stream = {}
    for row in _read_quarter(session, now_us - QUARTER_US):
        # PostgreSQL sums to an exact decimal.
        counts = {name: int(number or 0) for name, number in row.items()}
        stream_id, watermark_ms = counts.pop("id"), counts.pop("watermark_ms")
        by_stream[stream_id] = RecentRows(
            by_window_s={window: JudgedRows(*counted) for window, counted in sums[stream_id].items()},
            watermark_then_ms=watermark_ms or None,
            **counts,
        )
    return by_stream


def _add_rollups(
    session: Session, sums: dict[int, dict[int, list[int]]], windows: list[int], now_us: int
) -> None:
    """Add what is rolled up.

    The windows end together, so a rollup in all of them is read once: the spans between their starts are summed.
    """
    starts = {
        window: edge_us(now_us - window * 1_000_000, SLOT_US if window <= _LONGEST_BY_MINUTE_S else HOUR_US)
        for window in windows
    }
    edges = sorted(set(starts.values()))
    for span_us, end_us in zip_longest(edges, edges[1:]):
        for width_us, from_us, until_us in cover(span_us, end_us, Levels()):
            part = {"width": width_us, "from": from_us, "until": until_us}
            for stream_id, judged, late in session.connection().execute(_PART, part):
                for window, start_us in starts.items():
                    if start_us <= span_us:
                        _add(sums[stream_id][window], judged or 0, late or 0)


# One part at a time: asked for all parts in one statement, SQLite reads the whole table once for each. Of an inner join
# newer ones (3.53) read it from end to end too, and look the streams up.
_PART = (
    select(StreamRow.id, func.sum(RollupRow.pairs), func.sum(RollupRow.late_max))
    .outerjoin(
        RollupRow,
        (RollupRow.stream_id == StreamRow.id)
        & (RollupRow.width_us == bindparam("width"))
        & RollupRow.slot_us.between(bindparam("from"), bindparam("until") - 1),
    )
    .group_by(StreamRow.id)
)


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


def _read_quarter(session: Session, from_us: int) -> Iterable[RowMapping]:
    """Return by stream with reports the watermark at ``from_us``, and the pairs and rows counted since, by name."""
    then = aliased(ReportRow)

    def since(column: InstrumentedAttribute[int], name: str) -> Label[int]:
        # At the end of an index, stream by stream.
        return (
            select(func.coalesce(func.sum(column), 0))
            .where(ReportRow.stream_id == StreamRow.id, ReportRow.seen_us >= from_us)
            .correlate(StreamRow)
            .label(name)
        )

    return session.execute(
        select(
            StreamRow.id,
            then.watermark_ms,
            since(ReportRow.pairs, "judged"),
            since(ReportRow.future_rows, "future_rows"),
            since(ReportRow.misdated_rows, "misdated_rows"),
            since(ReportRow.uncounted_rows, "uncounted_rows"),
        )
        .outerjoin(then, then.id == newest_report_query(from_us))
        .where(StreamRow.reports > 0)
    ).mappings()
