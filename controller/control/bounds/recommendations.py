"""The bounds that rows required of late, as the store has them."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.statements import upsert_many
from tidemark.controller.base.db.tables import RecentBoundRow
from tidemark.models.base.defaults import NARROW_STABILISATION_MS

_SPAN_US = NARROW_STABILISATION_MS * 1_000


def recent_bounds_ms(session: Session, stream_id: int, slo_generation: int, at_us: int) -> tuple[int, ...]:
    """Return the bounds required under the same SLO before ``at_us``, as long as they hold back a narrower bound.

    Decisions on the same newest batch do not count, so that deciding again gives the same result.
    """
    read = {"stream": stream_id, "slo": slo_generation, "from": at_us - _SPAN_US, "until": at_us}
    return tuple(bound_ms for (bound_ms,) in session.connection().execute(_RECENT, read))


def keep_bound(session: Session, stream_id: int, slo_generation: int, at_us: int, bound_ms: int) -> None:
    """Store the bound required by the batches up to ``at_us``, and delete those that are too old to count.

    It bypasses the session.
    """
    session.connection().execute(_DELETE_OLD, {"stream": stream_id, "before": at_us - _SPAN_US})
    upsert_many(
        session,
        RecentBoundRow,
        {"bound_ms": [bound_ms]},
        same={"stream_id": stream_id, "at_us": at_us, "slo_generation": slo_generation},
        replaced=("bound_ms", "slo_generation"),
    )


# Built once: building them takes longer than running them.
_RECENT = (
    select(RecentBoundRow.bound_ms)
    .where(
        RecentBoundRow.stream_id == bindparam("stream"),
        RecentBoundRow.slo_generation == bindparam("slo"),
        RecentBoundRow.at_us >= bindparam("from"),
        RecentBoundRow.at_us < bindparam("until"),
    )
    .order_by(RecentBoundRow.at_us)
)
_DELETE_OLD = delete(RecentBoundRow).where(
    RecentBoundRow.stream_id == bindparam("stream"), RecentBoundRow.at_us < bindparam("before")
)
