"""Acknowledgements: what runs of a job said they applied."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.store.intake import Receipt, canonical_json, fingerprint
from tidemark.controller.store.tables import AcknowledgementRow, ReportRow
from tidemark.models.wire import Acknowledgement

__all__ = ["last_acknowledgement", "own_bound_ms", "take_acknowledgement"]


def take_acknowledgement(session: Session, stream_id: int, told: Acknowledgement, now_us: int) -> Receipt:
    """Store an acknowledgement of a locked stream, once."""
    digest = fingerprint(canonical_json(told))
    before = session.scalars(
        select(AcknowledgementRow.received_us).where(
            AcknowledgementRow.stream_id == stream_id, AcknowledgementRow.fingerprint == digest
        )
    ).one_or_none()
    if before is not None:
        return Receipt(before, duplicate=True)
    session.add(
        AcknowledgementRow(stream_id=stream_id, received_us=now_us, fingerprint=digest, **asdict(told))
    )
    return Receipt(now_us, duplicate=False)


def last_acknowledgement(session: Session, stream_id: int) -> AcknowledgementRow | None:
    """Return the acknowledgement of the run that applied its bound last, None without any."""
    return session.scalars(
        select(AcknowledgementRow)
        .where(AcknowledgementRow.stream_id == stream_id)
        .order_by(AcknowledgementRow.applied_us.desc(), AcknowledgementRow.id.desc())
        .limit(1)
    ).one_or_none()


def own_bound_ms(session: Session, stream_id: int) -> int | None:
    """Return the job's own bound in milliseconds, as it last ran with it; None when it never said."""
    told = session.scalars(
        select(AcknowledgementRow.bound_ms)
        .where(AcknowledgementRow.stream_id == stream_id, AcknowledgementRow.generation.is_(None))
        .order_by(AcknowledgementRow.applied_us.desc(), AcknowledgementRow.id.desc())
        .limit(1)
    ).one_or_none()
    if told is not None:
        return told
    return session.scalars(
        select(ReportRow.bound_ms)
        .where(ReportRow.stream_id == stream_id, ReportRow.generation.is_(None))
        .order_by(ReportRow.seen_us.desc())
        .limit(1)
    ).one_or_none()
