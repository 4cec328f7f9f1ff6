"""Completeness of single windows, from the ledger: how many reached the target, and the worst one."""

from __future__ import annotations

from sqlalchemy import case, func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import LedgerKeyRow, ReportRow
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.evidence.rollups import Span, rollups_in, sums_of
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.target import PPM
from tidemark.models.recommend.inputs import WindowCounts, Windows
from tidemark.models.specs.slo import Slo


def windows_in(session: Session, horizon: Horizon, slo: Slo) -> Windows | None:
    """Return the results of the horizon's windows; None when the SLO has no requirement on single windows."""
    if slo.objective == "occurrences" and slo.worst_window_ppm is None:
        return None
    until_us = passed_us(horizon.newest)
    from_us = until_us - horizon.length_ms * 1_000
    whole = closed_windows(session, horizon.stream_id, slo.target_ppm, from_us, until_us)
    since_us = max(_in_use_since_us(session, horizon), from_us)
    return Windows(whole, closed_windows(session, horizon.stream_id, slo.target_ppm, since_us, until_us))


def passed_us(newest: ReportRow) -> int:
    """Return the end of the last windows that the watermark has passed; none ends later than rows can be dated."""
    return min(newest.watermark_ms * SPARK_TICK_US, newest.latest_us)


def closed_windows(
    session: Session, stream_id: int, target_ppm: int, from_us: int, until_us: int
) -> WindowCounts:
    """Return the results of the windows that end in (``from_us``, ``until_us``], which the watermark has passed.

    Rows of unknown fate are in no window of the ledger: each may have spoiled another one.
    """
    # Sums even of single rows: PostgreSQL returns exact decimals, whose products do not overflow.
    rows, late_min, late_max = (
        func.sum(column) for column in (LedgerKeyRow.rows, LedgerKeyRow.late_min, LedgerKeyRow.late_max)
    )
    by_window = (
        select(rows.label("rows"), late_min.label("late_min"), late_max.label("late_max"))
        .where(
            LedgerKeyRow.stream_id == stream_id,
            LedgerKeyRow.key_us > from_us,
            LedgerKeyRow.key_us <= until_us,
        )
        .group_by(LedgerKeyRow.key_us)
        .subquery()
    )
    window = by_window.c
    closed, good, maybe_good = session.execute(
        select(
            func.count(),
            func.sum(case(((window.rows - window.late_max) * PPM >= target_ppm * window.rows, 1), else_=0)),
            func.sum(case(((window.rows - window.late_min) * PPM >= target_ppm * window.rows, 1), else_=0)),
        )
    ).one()
    # The worst window is found by its share; that share is then computed from whole numbers.
    worst = session.execute(
        select(window.rows, window.late_max)
        .order_by(((window.rows - window.late_max) * PPM / window.rows).asc(), window.rows.desc())
        .limit(1)
    ).one_or_none()
    arrived = sums_of(rollups_in(session, Span(stream_id, max(from_us, 0))))
    return WindowCounts(
        closed=closed,
        good=max(int(good or 0) - (0 if arrived is None else arrived.unjudged), 0),
        maybe_good=int(maybe_good or 0),
        worst_ppm=None if worst is None else int(worst.rows - worst.late_max) * PPM // int(worst.rows),
    )


def _in_use_since_us(session: Session, horizon: Horizon) -> int:
    """Return the watermark when the bound in use took effect, in microseconds; far in the past without another one."""
    before_ms = session.scalars(
        select(ReportRow.watermark_ms)
        .where(*horizon.batches, ReportRow.bound_ms != horizon.newest.bound_ms)
        .order_by(ReportRow.seen_us.desc(), ReportRow.batch_id.desc())
        .limit(1)
    ).one_or_none()
    return -(2**62) if before_ms is None else before_ms * SPARK_TICK_US
