"""Counts waiting reports by partition: many of a stream at once, since each touches hundreds of rows.

A report's facts and its sums over all partitions are counted when it is stored. Counts by partition (needs, ledger) and
the series follow later, from the stored reports in order. ``RollupRow.split_report_id`` moves in the same transaction,
so each report is counted once. Readers by partition add the waiting reports themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import ReportBodyRow, ReportRow, RollupRow
from tidemark.controller.evidence import ledger, needs
from tidemark.controller.evidence.series import add_to_series
from tidemark.controller.intake.report_counts import ReportCounts, ReportCountsCache, counts_of
from tidemark.controller.intake.stored_bodies import stored_report

MAX_REPORTS = 500
"""How many reports are counted at once; it takes some tenths of a second."""

_MAX_BODIES = 50
"""How many bodies are read at once; each may have megabytes."""


def count_waiting(session: Session, rollup: RollupRow, cache: ReportCountsCache) -> bool:
    """Count the next reports of a locked stream by partition and in the series; return False without any."""
    reports = session.scalars(
        select(ReportRow)
        .where(ReportRow.stream_id == rollup.stream_id, ReportRow.id > rollup.split_report_id)
        .order_by(ReportRow.id)
        .limit(MAX_REPORTS)
    ).all()
    if not reports:
        return False
    counted = _counted(session, reports, cache)
    add_to_series(session, needs.levels_of(rollup), reports)
    ledger.add_by_partition(
        session,
        rollup.stream_id,
        [
            (each.operator, each.judgement)
            for report, each in zip(reports, counted, strict=True)
            if report.id > rollup.ledger_report_id
        ],
        rollup.ledger_from_us,
    )
    needs.add_by_partition(
        session,
        rollup,
        [(report.seen_us, each.needs) for report, each in zip(reports, counted, strict=True)],
    )
    rollup.split_report_id = reports[-1].id
    return True


def _counted(session: Session, reports: Sequence[ReportRow], cache: ReportCountsCache) -> list[ReportCounts]:
    """Return what each report adds, in the order of the reports."""
    found: dict[int, ReportCounts] = {}
    for report in reports:
        cached = cache.take(report.id, report.fingerprint, report.need_base_ms)
        if cached:
            found[report.id] = cached
    missing = {report.id: report for report in reports if report.id not in found}
    for first in range(0, len(missing), _MAX_BODIES):
        some = list(missing)[first : first + _MAX_BODIES]
        bodies = select(ReportBodyRow.report_id, ReportBodyRow.body).where(ReportBodyRow.report_id.in_(some))
        for report_id, body in session.execute(bodies):
            found[report_id] = counts_of(stored_report(body), missing[report_id].need_base_ms)
    return [found[report.id] for report in reports]
