"""The needs of the newest minutes of every stream, for the metric of that name."""

from __future__ import annotations

from collections import defaultdict

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.db.tables import OffsetRow, ReportBodyRow, ReportRow, RollupRow, StreamRow
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import SLOT_US, merge_all, slot_of_us

_NEED_SLOTS = 2
"""How many of the newest slots are merged: the newest one alone may have begun with the newest batch."""


def load_needs(session: Session) -> dict[int, Sketch]:
    """Return by stream the needs of its newest slots; streams without any are left out."""
    slot = aliased(RollupRow)
    minute = (slot.stream_id == StreamRow.id, slot.width_us == SLOT_US, slot.need_pairs > 0)
    of_stream = select(slot.slot_us).where(*minute).order_by(slot.slot_us.desc())
    wanted = [of_stream.limit(1).offset(n).scalar_subquery() for n in range(_NEED_SLOTS)]
    rolled_up = and_(
        RollupRow.stream_id == StreamRow.id, RollupRow.width_us == SLOT_US, RollupRow.slot_us.in_(wanted)
    )
    in_tail = and_(
        ReportRow.stream_id == StreamRow.id, ReportRow.id > func.coalesce(OffsetRow.last_report_id, 0)
    )
    # Outer joins make SQLite begin with the streams; else it reads the slots, or the reports, of all time.
    tail = (
        select(StreamRow.id, ReportRow.seen_us, ReportBodyRow.needs)
        .outerjoin(OffsetRow, OffsetRow.stream_id == StreamRow.id)
        .outerjoin(ReportRow, in_tail)
        .outerjoin(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
    )
    found: defaultdict[int, dict[int, list[Sketch]]] = defaultdict(lambda: defaultdict(list))
    for query in (
        select(StreamRow.id, RollupRow.slot_us, RollupRow.needs).outerjoin(RollupRow, rolled_up),
        tail,
    ):
        for stream_id, seen_us, blob in session.execute(query):
            if blob is not None:
                found[stream_id][slot_of_us(seen_us)].append(Sketch.from_bytes(blob))
    return {
        stream_id: merge_all(sketch for slot_us in sorted(slots)[-_NEED_SLOTS:] for sketch in slots[slot_us])
        for stream_id, slots in found.items()
    }
