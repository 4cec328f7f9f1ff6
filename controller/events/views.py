"""Events as the API answers them."""

from __future__ import annotations

from tidemark.controller.api.schemas.rollouts import Event, EventEvidence
from tidemark.controller.db.tables import EventRow, StreamRow


def event_answer(row: EventRow, stream: StreamRow) -> Event:
    """Return an event as the API answers it."""
    return Event.of(
        row,
        job=stream.job,
        stream=stream.shown_name,
        last_us=row.at_us if row.last_us is None else row.last_us,
        evidence=EventEvidence(rows=row.rows, newest_report=row.report_id, rollout=row.rollout_id),
    )
