"""Jobs: nothing of their own is stored, a job is known by its streams."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import StreamRow
from tidemark.controller.errors import JobNotFoundError


def list_jobs(session: Session, after: str | None, limit: int) -> Sequence[str]:
    """Return up to ``limit`` names of jobs in their order, those after ``after``."""
    wanted = select(StreamRow.job).distinct().order_by(StreamRow.job).limit(limit)
    if after is not None:
        wanted = wanted.where(StreamRow.job > after)
    return session.scalars(wanted).all()


def streams_of_job(session: Session, job: str) -> Sequence[StreamRow]:
    """Return the streams of a job by name.

    Raises:
        JobNotFoundError: when none is known.
    """
    rows = session.scalars(select(StreamRow).where(StreamRow.job == job).order_by(StreamRow.stream)).all()
    if not rows:
        raise JobNotFoundError(
            f"nothing is known of job {job!r}: no report came, no SLO or policy was set; GET /v1/jobs lists the jobs"
        )
    return rows
