"""Sketches of needs in time slots of a minute, by partition and for the whole stream."""

from __future__ import annotations

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tidemark.controller.bases import Needs
from tidemark.controller.store.tables import NeedSketchRow, NeedSlotRow
from tidemark.controller.store.upsert import insert_into
from tidemark.models.sketch import Sketch

__all__ = ["SLOT_US", "SketchCache", "add_needs", "clear_slot", "partition_sketches", "slot_of_us"]

SLOT_US = 60_000_000
"""Width of a time slot in microseconds."""


def slot_of_us(time_us: int) -> int:
    """Return the start of the slot that holds ``time_us``."""
    return time_us // SLOT_US * SLOT_US


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
    every = Sketch.from_bytes(whole.sketch)
    rows = []
    for partition, (need_us, count) in sorted(needs.by_partition.items()):
        sketch = Sketch.from_bytes(stored[partition]) if partition in stored else Sketch()
        sketch.add(need_us, count)
        every.add(need_us, count)
        rows.append(
            {"stream_id": stream_id, "slot_us": slot_us, "partition": partition, "sketch": sketch.to_bytes()}
        )
    whole.sketch, whole.version = every.to_bytes(), whole.version + 1
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
        merged = Sketch()
        for slot in sorted(held):
            merged.merge(held[slot][1])
        return merged


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
