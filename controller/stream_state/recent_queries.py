"""The queries that reported a stream of late: whether several do at once, and whether the watermark moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import ReportRow
from tidemark.models.base.granules import SPARK_TICK_US

RECENT_US = 900_000_000
"""How far back from the newest batch, in microseconds: a quarter of an hour."""

STANDSTILL_BATCHES = 10
"""Batches with rows after which a watermark that has not moved stands still; Spark moves it with the third."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecentQuery:
    """What one query reported of a stream of late. Times are in microseconds."""

    query_id: str
    """Its id."""
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

    @property
    def stands_still(self) -> bool:
        """Whether the watermark stands still although each batch with rows should have moved it beyond where it is."""
        lowest_ms, highest_ms = self.watermarks_ms
        if self.busy < STANDSTILL_BATCHES or lowest_ms != highest_ms or self.event_us is None:
            return False
        return self.event_us[0] > (highest_ms + self.bound_ms) * SPARK_TICK_US


def recent_queries(session: Session, stream_id: int, newest_us: int) -> list[RecentQuery]:
    """Return the queries that reported a stream shortly before ``newest_us``, in the order in which they began."""
    row = ReportRow
    lowest, highest = func.min(row.max_event_time_us), func.max(row.max_event_time_us)
    found = session.execute(
        select(
            row.query_id,
            func.min(row.seen_us),
            func.max(row.seen_us),
            func.sum(row.rows),
            func.sum(case((row.max_event_time_us.is_not(None), 1), else_=0)),
            func.min(row.watermark_ms),
            func.max(row.watermark_ms),
            func.max(row.bound_ms),
            lowest,
            highest,
        )
        .where(row.stream_id == stream_id, row.seen_us > newest_us - RECENT_US)
        .group_by(row.query_id)
        .order_by(func.min(row.seen_us), row.query_id)
    )
    return [
        RecentQuery(
            query_id=query_id,
            first_us=first_us,
            last_us=last_us,
            # PostgreSQL sums to an exact decimal.
            rows=int(rows),
            busy=int(busy),
            watermarks_ms=(from_ms, to_ms),
            bound_ms=bound_ms,
            event_us=None if from_us is None else (from_us, to_us),
        )
        for query_id, first_us, last_us, rows, busy, from_ms, to_ms, bound_ms, from_us, to_us in found
    ]


def at_once(queries: Sequence[RecentQuery]) -> list[RecentQuery]:
    """Return those of ``queries``, in the order in which they began, that ran while another did."""
    found: dict[str, RecentQuery] = {}
    for before, after in pairwise(queries):
        if after.first_us < before.last_us:
            found |= {before.query_id: before, after.query_id: after}
    return list(found.values())
