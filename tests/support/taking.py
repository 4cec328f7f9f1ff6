"""Taking reports as the service does: with the evidence that follows from them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import NO_LIMITS, Limits
from tidemark.controller.base.errors import TidemarkError
from tidemark.controller.evidence.follow_reports import StreamEvidence
from tidemark.controller.reports import take_reports as intake
from tidemark.controller.reports.take_reports import StoredReceipt
from tidemark.controller.specs.store import horizon_ms_of
from tidemark.models.protocol.messages import Report

__all__ = ["EVIDENCE", "take_report", "take_reports"]

EVIDENCE = StreamEvidence(horizon_ms_of)
"""What follows from reports, as in the service."""


def take_reports(
    session: Session,
    reports: Sequence[Report],
    now_us: int,
    limits: Limits = NO_LIMITS,
) -> list[StoredReceipt | TidemarkError]:
    """Take reports; return the receipt of each, or why it is refused."""
    return intake.take_reports(session, reports, now_us, EVIDENCE, limits)


def take_report(session: Session, report: Report, now_us: int, limits: Limits = NO_LIMITS) -> StoredReceipt:
    """Take one report.

    Raises:
        TidemarkError: when it is refused.
    """
    (taken,) = take_reports(session, [report], now_us, limits)
    if isinstance(taken, TidemarkError):
        raise taken
    return taken
