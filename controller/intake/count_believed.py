"""Counts reports that leave quarantine: those that the clock or the stream's counted batches have caught up with."""

from __future__ import annotations

import logging

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tidemark.controller.db.database import Limits
from tidemark.controller.db.tables import QuarantinedRow
from tidemark.controller.errors import TidemarkError
from tidemark.controller.intake.quarantine import last_counted
from tidemark.controller.intake.stored_bodies import stored_report
from tidemark.controller.intake.take_reports import take_report
from tidemark.models.evidence.misdated import limit_us

_log = logging.getLogger(__name__)

_MAX_REPORTS = 50
"""How many reports are counted at once; each may take some hundredths of a second."""


def count_believed(session: Session, stream_id: int, now_us: int, limits: Limits) -> bool:
    """Count the next quarantined reports of a locked stream that are believed by now; return False without any."""
    _, last = last_counted(session, stream_id)
    rows = session.execute(
        select(QuarantinedRow.id, QuarantinedRow.body)
        .where(QuarantinedRow.stream_id == stream_id, QuarantinedRow.event_time_us <= limit_us(last, now_us))
        .order_by(QuarantinedRow.id)
        .limit(_MAX_REPORTS)
    ).all()
    for row in rows:
        session.execute(delete(QuarantinedRow).where(QuarantinedRow.id == row.id))
        report = stored_report(row.body)
        try:
            # By the clock of now: the one that they were received by may have been behind.
            take_report(session, report, now_us, limits, believed=True)
        except TidemarkError as error:
            # It was raised before anything was written, and would be raised again at every try.
            _log.warning(
                "batch %d of query %s is not counted: %s", report.batch_id, report.query_id, error.detail
            )
    return bool(rows)
