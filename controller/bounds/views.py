"""Published and acknowledged bounds as the API answers them."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tidemark.controller.api import schemas
from tidemark.controller.bounds.publication import NO_REPORT, OFF, answer_of, last_published
from tidemark.controller.db.tables import AcknowledgementRow, PublishedRow, StreamRow
from tidemark.controller.specs.pins import StoredPin, pin_in_force
from tidemark.models.protocol.messages import BoundAnswer


def bound_answer(session: Session, job: str, stream: str, row: StreamRow | None) -> BoundAnswer:
    """Return what is published to a job; ``row`` is None for an unknown stream."""
    published = None if row is None else last_published(session, row.id)
    # A generation has its pin; before the first one, the pin in force counts.
    pin = pin_in_force(session, job, stream) if published is None else None
    return bound_answer_of(job, stream, row, published, pin)


def bound_answer_of(
    job: str, stream: str, row: StreamRow | None, published: PublishedRow | None, pin: StoredPin | None
) -> BoundAnswer:
    """Return what is published to a job.

    Args:
        job: name of the job.
        stream: name of the stream.
        row: the stream; None for an unknown one.
        published: the newest generation; None before the first.
        pin: the pin in force; None for none.
    """
    if published is None:
        known = row is not None and row.registered_us is not None
        reason = OFF if known else NO_REPORT
        return BoundAnswer(
            job=job,
            stream=stream,
            mode="Off",
            generation=0,
            bound_ms=None,
            reason=reason if pin is None else f"pinned to {pin.to} ({pin.why}): {reason}",
            pin=None if pin is None else pin.to,
        )
    answer = answer_of(published)
    return BoundAnswer(
        job=job,
        stream=stream,
        mode=answer.mode,
        generation=published.generation,
        bound_ms=answer.bound_ms,
        reason=answer.reason,
        envelope=answer.envelope,
        pin=answer.pin,
    )


def published_answer(
    row: StreamRow, published: PublishedRow | None, pin: StoredPin | None
) -> schemas.Published:
    """Return what is published to a job as the status has it; the arguments are those of ``bound_answer_of``."""
    answer = bound_answer_of(row.job, row.stream, row, published, pin)
    return schemas.Published.of(answer, published_us=None if published is None else published.published_us)


def applied_answer(row: AcknowledgementRow) -> schemas.Applied:
    """Return an acknowledgement as the status has it."""
    return schemas.Applied.of(row)
