"""Rolling up what waits, as upkeep does in time."""

from __future__ import annotations

from sqlalchemy import select

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.tables import StreamRow
from tidemark.controller.evidence.roll_up import TailNeeds, locked_offset, roll_up

__all__ = ["roll_up_all"]


def roll_up_all(database: Database) -> None:
    """Roll up all reports of all streams."""
    with database.write() as session:
        for stream_id in session.scalars(select(StreamRow.id).order_by(StreamRow.id)).all():
            found = locked_offset(session, stream_id)
            while found is not None and roll_up(session, found[0], TailNeeds()):
                pass
