"""The bounds that rows required at recent decisions, by the time of the stream's own batches."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import RecentBoundRow
from tidemark.models.defaults import NARROW_STABILISATION_MS

_SPAN_US = NARROW_STABILISATION_MS * 1_000


def recent_bounds_ms(session: Session, stream_id: int, slo_generation: int, at_us: int) -> tuple[int, ...]:
    """Return the bounds required under the same SLO before ``at_us``, as long as they hold back a narrower bound.

    Decisions on the same newest batch do not count, so that deciding again gives the same result.
    """
    found = session.scalars(
        select(RecentBoundRow.bound_ms)
        .where(
            RecentBoundRow.stream_id == stream_id,
            RecentBoundRow.slo_generation == slo_generation,
            RecentBoundRow.at_us >= at_us - _SPAN_US,
            RecentBoundRow.at_us < at_us,
        )
        .order_by(RecentBoundRow.at_us)
    )
    return tuple(found)


def keep_bound(session: Session, stream_id: int, slo_generation: int, at_us: int, bound_ms: int) -> None:
    """Store the bound required by the batches up to ``at_us``, and delete those that are too old to count."""
    session.execute(
        delete(RecentBoundRow).where(
            RecentBoundRow.stream_id == stream_id, RecentBoundRow.at_us < at_us - _SPAN_US
        )
    )
    session.merge(
        RecentBoundRow(stream_id=stream_id, at_us=at_us, slo_generation=slo_generation, bound_ms=bound_ms)
    )
