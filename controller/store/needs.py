"""Sketches of needs in time slots of a minute, by partition and for the whole stream."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tidemark.controller.store.tables import NeedSketchRow, NeedSlotRow
from tidemark.controller.store.upsert import insert_into
from tidemark.models.late_base import Needs
from tidemark.models.need_slots import SlotNeeds, merge_all
from tidemark.models.sketch import Sketch

__all__ = ["SketchCache", "add_needs", "clear_slot", "partition_sketches"]


def add_needs(session: Session, stream_id: int, slot_us: int, needs: Needs) -> None:
    """Merge one report's needs into its slot."""
    if not needs.by_partition:
        return
    of_slot = (NeedSketchRow.stream_id == stream_id, NeedSketchRow.slot_us == slot_us)
    stored = dict(
        session.execute(select(NeedSketchRow.partition, NeedSketchRow.sketch).where(*of_slot)).all()
    )
    whole = session.get(NeedSlotRow, (stream_id, slot_us))
    if whole is None:
        whole = NeedSlotRow(stream_id=stream_id, slot_us=slot_us, version=0, sketch=Sketch().to_bytes())
        session.add(whole)
    slot = SlotNeeds(
        Sketch.from_bytes(whole.sketch),
        {name: Sketch.from_bytes(stored[name]) for name in needs.by_partition if name in stored},
    )
    slot.add(needs)
    whole.sketch, whole.version = slot.whole.to_bytes(), whole.version + 1
    # One order for all writers: rows are locked in it.
    rows = [
        {"stream_id": stream_id, "slot_us": slot_us, "partition": name, "sketch": sketch.to_bytes()}
        for name, sketch in sorted(slot.by_partition.items())
    ]
    session.flush()
    insert = insert_into(session, NeedSketchRow)
    session.execute(
        insert.on_conflict_do_update(
            index_elements=["stream_id", "slot_us", "partition"], set_={"sketch": insert.excluded.sketch}
        ),
        rows,
    )


def clear_slot(session: Session, stream_id: int, slot_us: int) -> None:
    """Forget the needs of a slot, so that they can be counted again; the version still grows."""
    session.execute(
        delete(NeedSketchRow).where(NeedSketchRow.stream_id == stream_id, NeedSketchRow.slot_us == slot_us)
    )
    whole = session.get(NeedSlotRow, (stream_id, slot_us))
    if whole is not None:
        whole.sketch, whole.version = Sketch().to_bytes(), whole.version + 1
        session.flush()


class SketchCache:
    """The slots of one stream as last read: only slots that changed since are read again."""

    def __init__(self) -> None:
        self._slots: dict[int, tuple[int, Sketch]] = {}

    def merged(self, session: Session, stream_id: int, from_us: int) -> Sketch:
        """Return the stream's needs in the slots from ``from_us`` on, as one sketch."""
        of_span = (NeedSlotRow.stream_id == stream_id, NeedSlotRow.slot_us >= from_us)
        versions = dict(
            session.execute(select(NeedSlotRow.slot_us, NeedSlotRow.version).where(*of_span)).all()
        )
        held = {slot: self._slots[slot] for slot in versions if slot in self._slots}
        fresh = {slot for slot, version in versions.items() if slot not in held or held[slot][0] != version}
        if fresh:
            changed = select(NeedSlotRow.slot_us, NeedSlotRow.version, NeedSlotRow.sketch).where(
                *of_span, NeedSlotRow.slot_us >= min(fresh)
            )
            for slot, version, sketch in session.execute(changed):
                if slot in fresh:
                    held[slot] = version, Sketch.from_bytes(sketch)
        self._slots = held
        return merge_all(sketch for _, (_, sketch) in sorted(held.items()))


def partition_sketches(
    session: Session, stream_id: int, from_us: int, partitions: list[str]
) -> dict[str, Sketch]:
    """Return the needs of each of ``partitions`` in the slots from ``from_us`` on; those without any are left out."""
    merged: dict[str, Sketch] = {}
    if not partitions:
        return merged
    wanted = (
        select(NeedSketchRow.partition, NeedSketchRow.sketch)
        .where(
            NeedSketchRow.stream_id == stream_id,
            NeedSketchRow.slot_us >= from_us,
            NeedSketchRow.partition.in_(partitions),
        )
        .order_by(NeedSketchRow.slot_us)
    )
    for partition, data in session.execute(wanted):
        merged.setdefault(partition, Sketch()).merge(Sketch.from_bytes(data))
    return merged
