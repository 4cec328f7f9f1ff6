"""What the rows of a query's streams need together, counted from the reports as they were sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import KNOWN, QueryRow, ReportBodyRow, ReportRow, StreamRow
from tidemark.controller.intake.stored_bodies import stored_report
from tidemark.models.joint_needs import JointNeeds

MAX_BATCHES = 1_000
"""How many of the newest batches are read at most, with two streams in some two seconds."""

_MERGED_AT_ONCE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class JointEvidence:
    """What a choice of joint bounds rests on."""

    sides: tuple[str, ...]
    """The streams of the query by name."""
    needs: JointNeeds
    """The needs of their rows."""
    batches: int = 0
    """Batches that count: those that every stream reported, and whose reports are kept."""
    from_us: int | None = None
    """Trigger time of the first of them, in microseconds; None without any."""
    to_us: int | None = None
    """Trigger time of the last."""
    unknown_rows: int = 0
    """Rows in them whose need is not known."""


@dataclass(slots=True)
class _Counted:
    """What has been counted so far, the newest batch first."""

    sides: tuple[str, ...]
    parts: list[JointNeeds] = field(default_factory=list)
    seen_us: list[int] = field(default_factory=list)
    unknown_rows: int = 0

    def add(self, rows: Sequence[tuple[ReportRow, bytes]]) -> None:
        """Count a batch, given the report of each stream in their order."""
        facts, bodies = zip(*rows, strict=True)
        reports = [stored_report(body) for body in bodies]
        self.parts.append(JointNeeds.of_batch(reports, [row.need_base_ms for row in facts]))
        self.seen_us.append(max(row.seen_us for row in facts))
        self.unknown_rows += sum(row.need_unknown_rows for row in facts)
        if len(self.parts) == _MERGED_AT_ONCE:
            self.parts = [JointNeeds.merged(self.parts)]


def streams_of_query(session: Session, job: str, query_id: str) -> Sequence[StreamRow]:
    """Return the streams of a job that a query reports on, by name, without those that it no longer runs."""
    wanted = (
        select(StreamRow, QueryRow.last_batch)
        .join(QueryRow, QueryRow.stream_id == StreamRow.id)
        .where(StreamRow.job == job, KNOWN, QueryRow.query_id == query_id)
    )
    found = session.execute(wanted.order_by(StreamRow.stream)).all()
    newest = max((last_batch for _, last_batch in found), default=0)
    return [stream for stream, last_batch in found if last_batch > newest - MAX_BATCHES]


def joint_evidence(
    session: Session, streams: Sequence[StreamRow], query_id: str, horizon_ms: int
) -> JointEvidence:
    """Return the needs of the rows of a query's streams, up to its newest batch.

    Args:
        session: the session.
        streams: the streams by name.
        query_id: the query's persistent id.
        horizon_ms: how far back to count, in milliseconds; at most ``MAX_BATCHES`` are counted.
    """
    ids, sides = [stream.id for stream in streams], tuple(stream.stream for stream in streams)
    of_query = ReportRow.query_id == query_id, ReportRow.stream_id.in_(ids)
    newest_us = session.scalar(select(func.max(ReportRow.seen_us)).where(*of_query))
    counted = _Counted(sides)
    if newest_us is not None:
        recent = *of_query, ReportRow.seen_us > newest_us - horizon_ms * 1_000
        found = session.execute(
            select(ReportRow, ReportBodyRow.body)
            .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
            .join(StreamRow, StreamRow.id == ReportRow.stream_id)
            .where(*recent)
            .order_by(ReportRow.batch_id.desc(), StreamRow.stream)
            .limit(MAX_BATCHES * len(ids))
            .execution_options(yield_per=10 * len(ids))
        )
        for _, rows in groupby(found, key=lambda one: one[0].batch_id):
            batch = [(row, body) for row, body in rows]
            if len(batch) == len(ids):
                counted.add(batch)
    return JointEvidence(
        sides=sides,
        needs=JointNeeds.merged([JointNeeds.nothing(sides), *counted.parts]),
        batches=len(counted.seen_us),
        from_us=min(counted.seen_us, default=None),
        to_us=max(counted.seen_us, default=None),
        unknown_rows=counted.unknown_rows,
    )
