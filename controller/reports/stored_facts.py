"""What the store knows about the streams, queries and batches of reports, in one statement that bypasses the session.

Loading rows as objects and writing their changes back would cost more than counting the report.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Row, ScalarSelect, Select, String, and_, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.base.db.limits import count_of_partitions
from tidemark.controller.base.db.statements import given, given_rows
from tidemark.controller.base.db.tables import OffsetRow, OperatorRow, QueryRow, ReportRow, StreamRow
from tidemark.controller.base.db.tables.columns import AsJson
from tidemark.controller.reports.store import max_up_to, with_deleted
from tidemark.models.base.operators import Operator
from tidemark.models.protocol.messages import Report


@dataclass(frozen=True, slots=True)
class StoredFacts:
    """What the store knows about a stream, one of its queries, and a batch of that."""

    received_us: int | None
    """When the batch was received before; None when it was not."""
    fingerprint: str | None
    """The digest of the report received then."""
    deleted_batch: int | None
    """Highest id of the query's batches whose reports are deleted; None without any."""
    ledger_from_us: int | None
    """Keys below are deleted from the ledger; None while none is."""
    last_batch: int | None
    """Greatest id of the query's batches; None without any."""
    late_max_us: int | None
    """Greatest event time of the batches that its late filter had seen."""
    before_max_us: int | None
    """Greatest event time of all batches before it."""
    early_us: int | None
    """Maximum event time of the query's rows that were dated ahead by a wrong clock; None without any."""
    lead_us: int | None
    """How far all batches of the query so far were dated ahead, on purpose; None before its first row."""
    newest_us: int | None
    """When the stream's report that was stored last was received; None without any."""
    partitions: int
    """Number of the stream's partitions."""
    pairs: int
    """(Row, key) pairs that the stream has counted since it was first seen."""
    unjudged_rows: int
    """Rows of unknown fate since then."""
    operator_number: int | None
    """That of the report's operator; None when the stream had it never before."""


@lru_cache(4_096)
def _stored_operator(operator: Operator) -> str | None:
    """Return an operator as it is stored; kept, since nearly every report of a stream has the same."""
    return AsJson[Operator](Operator).process_bind_param(operator, None)


@cache
def _facts(dialect: str) -> Select[Any]:
    # Built once: building it takes longer than running it.
    whole, word = BigInteger(), String()
    asked = given_rows(dialect, {"stream_id": whole, "query_id": word, "batch_id": whole, "operator": word}).c
    return (
        select(
            asked.stream_id,
            ReportRow.received_us,
            ReportRow.fingerprint,
            OffsetRow.ledger_from_us,
            QueryRow.last_batch,
            QueryRow.deleted_batch,
            QueryRow.deleted_max_event_time_us,
            max_up_to(asked.stream_id, asked.query_id, asked.batch_id - 2).label("late_max_us"),
            max_up_to(asked.stream_id, asked.query_id, asked.batch_id - 1).label("before_max_us"),
            QueryRow.early_us,
            QueryRow.lead_us,
            _newest_us(asked.stream_id).label("newest_us"),
            count_of_partitions(asked.stream_id).label("partitions"),
            StreamRow.pairs,
            StreamRow.unjudged_rows,
            OperatorRow.number,
        )
        .join(StreamRow, StreamRow.id == asked.stream_id)
        .outerjoin(
            ReportRow,
            and_(
                ReportRow.stream_id == asked.stream_id,
                ReportRow.query_id == asked.query_id,
                ReportRow.batch_id == asked.batch_id,
            ),
        )
        .outerjoin(OffsetRow, OffsetRow.stream_id == asked.stream_id)
        .outerjoin(QueryRow, and_(QueryRow.stream_id == asked.stream_id, QueryRow.query_id == asked.query_id))
        .outerjoin(
            OperatorRow,
            and_(OperatorRow.stream_id == asked.stream_id, OperatorRow.operator == asked.operator),
        )
    )


def _newest_us(stream_id: ColumnElement[int]) -> ScalarSelect[int | None]:
    newest = aliased(ReportRow)
    of_stream = select(newest.received_us).where(newest.stream_id == stream_id)
    return of_stream.order_by(newest.id.desc()).limit(1).scalar_subquery()


def stored_facts(session: Session, reports: Mapping[int, Report]) -> dict[int, StoredFacts]:
    """Return what the store knows about the batch of a report of each stream, by stream; the streams are locked."""
    dialect = session.get_bind().dialect.name
    asked = given(
        dialect,
        {
            "stream_id": list(reports),
            "query_id": [report.query_id for report in reports.values()],
            "batch_id": [report.batch_id for report in reports.values()],
            "operator": [_stored_operator(report.operator) for report in reports.values()],
        },
    )
    return {
        row.stream_id: _facts_of(row, reports[row.stream_id].batch_id)
        for row in session.connection().execute(_facts(dialect), asked)
    }


def _facts_of(row: Row[Any], batch_id: int) -> StoredFacts:
    gone = row.deleted_batch, row.deleted_max_event_time_us
    return StoredFacts(
        received_us=row.received_us,
        fingerprint=row.fingerprint,
        deleted_batch=row.deleted_batch,
        ledger_from_us=row.ledger_from_us,
        last_batch=row.last_batch,
        late_max_us=with_deleted(row.late_max_us, *gone, batch_id - 2),
        before_max_us=with_deleted(row.before_max_us, *gone, batch_id - 1),
        early_us=row.early_us,
        lead_us=row.lead_us,
        newest_us=row.newest_us,
        partitions=row.partitions,
        pairs=row.pairs,
        unjudged_rows=row.unjudged_rows,
        operator_number=row.number,
    )
