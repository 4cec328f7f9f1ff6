"""What the reports of a store add up to, to be compared with what the same reports add up to when each is sent once."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sqlalchemy import select

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.tables import KNOWN, LedgerKeyRow, ReportRow, StreamRow
from tidemark.controller.evidence.rollups import Span, needs_of, partition_needs, rollups_in
from tidemark.models.protocol.messages import Report

from support.empty_store import open_empty
from support.taking import take_report
from support.waiting import roll_up_all

__all__ = ["compared_totals", "totals", "totals_of"]


def totals(database: Database) -> dict[str, Any]:
    """Return everything that the reports of a store add up to, by stream."""
    found: dict[str, Any] = {}
    roll_up_all(database)
    with database.read() as session:
        for row in session.scalars(select(StreamRow).where(KNOWN)):
            ledger = session.execute(
                select(LedgerKeyRow.key_us, LedgerKeyRow.rows, LedgerKeyRow.late_min, LedgerKeyRow.late_max)
                .where(LedgerKeyRow.stream_id == row.id)
                .order_by(LedgerKeyRow.key_us)
            ).all()
            batches = session.scalars(
                select(ReportRow.batch_id).where(ReportRow.stream_id == row.id).order_by(ReportRow.batch_id)
            ).all()
            parts = partition_needs(session, Span(row.id, 0))
            found[row.stream] = {
                "totals": (row.reports, row.pairs, row.late_min, row.late_max, row.unjudged_rows),
                "batches": list(batches),
                "ledger": [tuple(each) for each in ledger],
                "needs": needs_of(rollups_in(session, Span(row.id, 0))).to_bytes(),
                "needs of partitions": parts.to_bytes(),
            }
    return found


def totals_of(reports: Iterable[Report], folder: Path) -> dict[str, Any]:
    """Return what reports add up to that are stored once each, in this order, in a store of their own."""
    alone = open_empty(f"sqlite:///{folder / 'alone.db'}")
    for report in reports:
        with alone.write() as session:
            take_report(session, report, report.started_us + 60_000_000)
    found = totals(alone)
    alone.close()
    return found


def compared_totals(found: dict[str, Any], wanted: dict[str, Any]) -> dict[str, int]:
    """Return how many rows there should be and are lost, and how many windows of the ledger and differ."""
    windows = {(stream, window) for stream in wanted for window in wanted[stream]["ledger"]}
    there = {(stream, window) for stream in found for window in found[stream]["ledger"]}
    _, rows, *_ = map(sum, zip(*(each["totals"] for each in wanted.values()), strict=True))
    _, stored, *_ = map(sum, zip(*(each["totals"] for each in found.values()), strict=True))
    return {"rows": rows, "lost": rows - stored, "verdicts": len(windows), "wrong": len(windows ^ there)}
