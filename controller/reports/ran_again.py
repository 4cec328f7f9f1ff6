"""Batches that a query ran again with other rows, as from a checkpoint that was restored from a backup.

Spark runs the newest batch of a checkpoint again with the rows that its offset log names, so the same number stands for
the same rows. Where it does not, the checkpoint was set back: the batches from there on are of a new life of the query,
and are counted beside those of the one before under a name of their own. Rows that were read twice count twice.
"""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import ReportRow
from tidemark.models.protocol.messages import Report

_MARK = "~"
"""Between the id of a query and the run that ran its batches again; no id of Spark's has it."""

_ID_LENGTH, _RUN_LENGTH = 36, 8
"""Characters of both: an id of Spark's whole, and enough of a run to tell it from others of the query."""


def is_ran_again(query_id: str) -> bool:
    """Return whether what is stored under this name are batches that a query ran again."""
    return _MARK in query_id


def in_its_life(session: Session, stream_id: int, report: Report) -> Report | None:
    """Return a report of a batch that was reported before with other content, under the name of its query's life.

    Returns:
        The report as it is where the same run reported the batch before; None where another run reported the same
        rows, so that the batch is counted already.
    """
    again = tuple(getattr(report, column.key) for column in _FACTS)
    newest_us = report.max_event_time_us
    columns = (ReportRow.query_id, ReportRow.run_id, ReportRow.max_event_time_us, ReportRow.latest_us)
    batches = select(*columns, *_FACTS).where(
        ReportRow.stream_id == stream_id,
        ReportRow.batch_id == report.batch_id,
        or_(
            ReportRow.query_id == report.query_id,
            ReportRow.query_id.startswith(_name(report, ""), autoescape=True),
        ),
    )
    stored = session.connection().execute(batches).all()
    for query_id, run_id, *_ in stored:
        if run_id == report.run_id:
            return replace(report, query_id=query_id)
    for _, _, stored_us, latest_us, *facts in stored:
        # Of rows of wrong clocks the newest time is not stored.
        if tuple(facts) == again and (newest_us == stored_us or (newest_us or 0) > latest_us):
            return None
    return replace(report, query_id=_name(report, report.run_id))


_FACTS = (
    ReportRow.rows,
    ReportRow.null_rows,
    ReportRow.late_watermark_ms,
    ReportRow.watermark_ms,
)
"""What tells batches of one number apart, beside their newest event time; how long a batch took and when it ran says
nothing of its rows."""


def _name(report: Report, run_id: str) -> str:
    return f"{report.query_id[:_ID_LENGTH]}{_MARK}{run_id[:_RUN_LENGTH]}"
