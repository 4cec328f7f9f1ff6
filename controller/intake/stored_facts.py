"""What the store knows about a report's stream, query and batch, read in one statement that bypasses the session.

Loading rows as objects and writing their changes back would cost more than counting the report.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import and_, bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import QueryRow, ReportRow, RollupRow, StreamRow
from tidemark.controller.evidence.horizon import max_up_to, with_gone
from tidemark.controller.intake.limits import count_of_partitions
from tidemark.models.need_slots import Levels
from tidemark.models.wire import Report


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """What the store knows about a stream, one of its queries, and a batch of that."""

    received_us: int | None
    """When the batch was received before; None when it was not."""
    fingerprint: str | None
    """The digest of the report received then."""
    reports_from_us: int
    """Reports of batches that started earlier are deleted."""
    ledger_from_us: int | None
    """Keys below are deleted from the ledger; None while none is."""
    levels: Levels
    """How far the stream's slots have been rolled up."""
    split_report_id: int
    """Reports up to this one are counted by partition."""
    last_batch: int | None
    """Greatest id of the query's batches; None without any."""
    late_max_us: int | None
    """Greatest event time of the batches that its late filter had seen."""
    before_max_us: int | None
    """Greatest event time of all batches before it."""
    partitions: int
    """Number of the stream's partitions."""


# Built once: building it takes longer than running it.
_FACTS = (
    select(
        ReportRow.received_us,
        ReportRow.fingerprint,
        RollupRow.reports_from_us,
        RollupRow.ledger_from_us,
        RollupRow.hours_until_us,
        RollupRow.days_until_us,
        RollupRow.split_report_id,
        QueryRow.last_batch,
        QueryRow.gone_batch,
        QueryRow.gone_max_event_time_us,
        max_up_to("late").label("late_max_us"),
        max_up_to("before").label("before_max_us"),
        count_of_partitions("stream").label("partitions"),
    )
    .select_from(StreamRow)
    .outerjoin(
        ReportRow,
        and_(
            ReportRow.stream_id == StreamRow.id,
            ReportRow.query_id == bindparam("query"),
            ReportRow.batch_id == bindparam("batch"),
        ),
    )
    .outerjoin(RollupRow, RollupRow.stream_id == StreamRow.id)
    .outerjoin(QueryRow, and_(QueryRow.stream_id == StreamRow.id, QueryRow.query_id == bindparam("query")))
    .where(StreamRow.id == bindparam("stream"))
)


def stored_facts(session: Session, stream_id: int, report: Report) -> StoredFacts:
    """Return what the store knows about the batch of ``report``; its stream exists and is locked."""
    late, before = report.batch_id - 2, report.batch_id - 1
    row = (
        session.connection()
        .execute(
            _FACTS,
            {
                "stream": stream_id,
                "query": report.query_id,
                "batch": report.batch_id,
                "late": late,
                "before": before,
            },
        )
        .one()
    )
    gone = row.gone_batch, row.gone_max_event_time_us
    return StoredFacts(
        received_us=row.received_us,
        fingerprint=row.fingerprint,
        reports_from_us=row.reports_from_us or 0,
        ledger_from_us=row.ledger_from_us,
        levels=Levels(row.hours_until_us or 0, row.days_until_us or 0),
        split_report_id=row.split_report_id or 0,
        last_batch=row.last_batch,
        late_max_us=with_gone(row.late_max_us, *gone, late),
        before_max_us=with_gone(row.before_max_us, *gone, before),
        partitions=row.partitions,
    )
