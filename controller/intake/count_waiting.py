"""Counts waiting reports by partition: many of a stream at once, since each touches hundreds of rows.

A report's facts and its sums over all partitions are counted when it is stored. Needs by partition and the series
follow later, from the stored reports in order. ``RollupRow.split_report_id`` moves in the same transaction,
so each report is counted once. Readers by partition add the waiting reports themselves.
"""

from __future__ import annotations

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import ReportBodyRow, ReportRow, RollupRow
from tidemark.controller.evidence import needs
from tidemark.controller.evidence.series import add_to_series
from tidemark.controller.intake.report_counts import ReportCountsCache, counts_of
from tidemark.controller.intake.stored_bodies import stored_report
from tidemark.models.evidence.partition_needs import PartitionNeeds

MANY_REPORTS = 500
"""How many waiting reports are many."""

_AT_ONCE = 100
"""How many reports are counted at once: it takes some hundredths of a second, for which new ones wait."""

_MAX_BYTES = 32 * 1024 * 1024
"""Size of the counts that are in memory at once, unless one report has more; those of one may have a megabyte."""


def count_waiting(session: Session, rollup: RollupRow, cache: ReportCountsCache) -> bool:
    """Count the next reports of a locked stream by partition and in the series; return whether more wait."""
    after = {"stream": rollup.stream_id, "after": rollup.split_report_id}
    reports = session.scalars(_WAITING, after).all()
    if not reports:
        return False
    counted: list[tuple[int, PartitionNeeds]] = []
    size = 0
    for report in reports[:_AT_ONCE]:
        added = _needs_of(session, report, cache)
        counted.append((report.seen_us, added))
        size += added.size
        if size > _MAX_BYTES:
            break
    done = reports[: len(counted)]
    add_to_series(session, needs.levels_of(rollup), done)
    needs.add_by_partition(session, rollup, counted)
    rollup.split_report_id = done[-1].id
    return len(done) < len(reports)


# Built once: building them takes longer than running them.
_WAITING = (
    select(ReportRow)
    .where(ReportRow.stream_id == bindparam("stream"), ReportRow.id > bindparam("after"))
    .order_by(ReportRow.id)
    .limit(_AT_ONCE + 1)
)
_BODY = select(ReportBodyRow.body).where(ReportBodyRow.report_id == bindparam("report"))


def _needs_of(session: Session, report: ReportRow, cache: ReportCountsCache) -> PartitionNeeds:
    """Return what a report adds."""
    found = cache.take(report.id, report.fingerprint, report.need_base_ms)
    if found is None:
        body = session.connection().execute(_BODY, {"report": report.id}).scalar_one()
        found = counts_of(stored_report(body), report.need_base_ms)
    return found.needs
