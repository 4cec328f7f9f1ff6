"""The budget of a stream: what its SLO left to lose over the SLO's window, and what of it is lost."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tidemark.controller.api.schemas import Budget
from tidemark.controller.store.horizon import facts, horizon_of, open_keys
from tidemark.controller.store.windows import closed_windows
from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.slo import Slo
from tidemark.models.target import PPM

__all__ = ["budget_of"]


def budget_of(session: Session, stream_id: int, slo: Slo) -> Budget | None:
    """Return the budget of a stream; None without reports."""
    horizon = horizon_of(session, stream_id, slo.window_ms)
    if horizon is None:
        return None
    known = facts(session, horizon)
    if slo.objective == "timeslices":
        until_us = horizon.newest.watermark_ms * SPARK_TICK_US
        windows = closed_windows(
            session, stream_id, slo.target_ppm, until_us - slo.window_ms * 1_000, until_us
        )
        counted, share_ppm = windows.closed, slo.slices_ppm
        least, most = windows.closed - windows.maybe_good, windows.closed - windows.good
    else:
        told = known.completeness
        unjudged = told.unjudged_rows * told.keys_per_row
        counted, share_ppm = told.rows + unjudged, slo.target_ppm
        least, most = told.late_least, told.late_most + unjudged
    allowed = counted * (PPM - share_ppm) // PPM
    return Budget(
        objective=slo.objective,
        window_ms=slo.window_ms,
        from_us=known.from_us,
        counted=counted,
        bad_least=least,
        bad_most=most,
        least_ppm=(counted - most) * PPM // counted if counted else None,
        most_ppm=(counted - least) * PPM // counted if counted else None,
        allowed=allowed,
        remaining_ppm=(allowed - most) * PPM // allowed if allowed else None,
        missing_batches=known.missing_batches,
        provisional=open_keys(session, horizon.newest),
    )
