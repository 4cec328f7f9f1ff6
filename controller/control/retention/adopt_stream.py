"""Lets a stream go on as another one of its job: with its SLO, policy, approvals and history, under its own name."""

from __future__ import annotations

from dataclasses import replace

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import Limits
from tidemark.controller.base.db.tables import AcknowledgementRow, ReportBodyRow, ReportRow, StreamRow
from tidemark.controller.base.errors import StreamReportsError, TidemarkError
from tidemark.controller.control.retention.delete_stream import delete_stream
from tidemark.controller.control.rollout.actions import republish
from tidemark.controller.evidence.follow_reports import StreamEvidence
from tidemark.controller.reports.stored_bodies import stored_report
from tidemark.controller.reports.take_reports import take_reports
from tidemark.controller.specs.pins import delete_pin, get_pin, put_pin
from tidemark.controller.specs.store import check_not_joined, get_policy, get_slo, horizon_ms_of
from tidemark.controller.specs.streams import add_event
from tidemark.models.protocol.messages import Report
from tidemark.models.specs.pin import PinScope

MAX_REPORTS = 2_000
"""How many reports a stream may bring along: they are taken once more, within the request."""


def adopt_stream(  # noqa: PLR0917 - what is adopted, and by which rules
    session: Session, stream: StreamRow, former: StreamRow, reason: str, now_us: int, limits: Limits
) -> int:
    """Let a locked stream go on as another one of its job, which is no more; return how many reports it brings along.

    The row of the other one takes its name, so that all that hangs on it stays; and its reports, each once more.

    Raises:
        StreamReportsError: when both report, or the stream has a history of its own.
        StreamJoinedError: when one is a side of a join.
    """
    name, before = stream.stream, former.stream
    for side in (stream, former):
        check_not_joined(session, get_slo(session, side.id))
    newest_us = session.scalar(
        select(ReportRow.received_us)
        .where(ReportRow.stream_id == former.id)
        .order_by(ReportRow.id.desc())
        .limit(1)
    )
    if stream.id == former.id or (newest_us or 0) >= (stream.registered_us or now_us):
        raise StreamReportsError(
            f"stream {before!r} has reported since {name!r} began: they are not one stream"
        )
    reports = _reports_of(session, stream)
    pin = get_pin(session, PinScope(stream.job, name)) or get_pin(session, PinScope(stream.job, before))
    delete_pin(session, PinScope(stream.job, before))
    of_stream = AcknowledgementRow.stream_id == stream.id
    session.execute(update(AcknowledgementRow).where(of_stream).values(stream_id=former.id))
    former.downstream, former.late = stream.downstream, stream.late
    delete_stream(session, stream, f"{reason} (it goes on as {before!r})", now_us)
    former.stream = name
    session.flush()
    if pin is not None:
        put_pin(session, replace(pin, stream=name))
    for taken in take_reports(session, reports, now_us, StreamEvidence(horizon_ms_of), limits):
        if isinstance(taken, TidemarkError):
            raise taken
    add_event(session, former.id, now_us, kind="StreamAdopted", reason=reason, before=before, after=name)
    session.flush()
    republish(session, former.id, get_policy(session, former.id).value, now_us)
    return len(reports)


def _reports_of(session: Session, stream: StreamRow) -> list[Report]:
    """Return the reports of a stream.

    Raises:
        StreamReportsError: when they are too many, or some are gone.
    """
    bodies = session.scalars(
        select(ReportBodyRow.body)
        .join(ReportRow, ReportRow.id == ReportBodyRow.report_id)
        .where(ReportRow.stream_id == stream.id)
        .order_by(ReportRow.id)
        .limit(MAX_REPORTS + 1)
    )
    reports = [stored_report(body) for body in bodies]
    if not stream.reports <= len(reports) <= MAX_REPORTS:
        raise StreamReportsError(
            f"stream {stream.stream!r} has a history of its own: more than {MAX_REPORTS:,} reports, or some are gone"
        )
    return reports
