"""The needs of the newest minutes of every stream, for the metric of that name."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import and_, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.db.tables import NeedSlotRow, StreamRow
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import merge_all

_NEED_SLOTS = 2
"""How many of the newest slots are merged: the newest one alone may have begun with the newest batch."""


def load_needs(session: Session) -> dict[int, Sketch]:
    """Return by stream the needs of its newest slots; streams without any are left out."""
    slot = aliased(NeedSlotRow)
    of_stream = select(slot.slot_us).where(slot.stream_id == StreamRow.id).order_by(slot.slot_us.desc())
    wanted = [of_stream.limit(1).offset(n).scalar_subquery() for n in range(_NEED_SLOTS)]
    slots: defaultdict[int, list[Sketch]] = defaultdict(list)
    for stream_id, blob in session.execute(
        # An outer join makes SQLite begin with the streams; else it reads the slots of all time.
        select(StreamRow.id, NeedSlotRow.sketch).outerjoin(
            NeedSlotRow, and_(NeedSlotRow.stream_id == StreamRow.id, NeedSlotRow.slot_us.in_(wanted))
        )
    ):
        if blob is not None:
            slots[stream_id].append(Sketch.from_bytes(blob))
    return {stream_id: merge_all(sketches) for stream_id, sketches in slots.items()}
