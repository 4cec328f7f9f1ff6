"""Counting by partition what waits for it, as upkeep does in time."""

from __future__ import annotations

from sqlalchemy import select

from tidemark.controller.db.database import Database
from tidemark.controller.db.tables import StreamRow
from tidemark.controller.evidence.rollups import locked_rollup
from tidemark.controller.intake.count_waiting import count_waiting

__all__ = ["count_by_partition"]


def count_by_partition(database: Database) -> None:
    """Count all reports of all streams by partition."""
    with database.write() as session:
        for stream_id in session.scalars(select(StreamRow.id).order_by(StreamRow.id)).all():
            found = locked_rollup(session, stream_id)
            while found is not None and count_waiting(session, found[0], database.counted):
                pass
