"""A running sum of the needs of all partitions of a stream over its horizon.

A horizon of a day has 1,440 slots of every partition; reading all of them at each snapshot would take seconds. So
their sum is stored and moves with the horizon: new needs are added, old ones subtracted. It covers exactly the slots
of ``NeedSketchRow`` from ``from_us`` on; code that writes those updates it, under the stream's lock.
"""

from __future__ import annotations

from sqlalchemy import ColumnElement, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import NeedSketchRow, PartitionSumsRow
from tidemark.models.late_base import Needs
from tidemark.models.partition_needs import PartitionNeeds
from tidemark.models.sketch import Sketch


def stored_sums(session: Session, stream_id: int) -> tuple[int, PartitionNeeds] | None:
    """Return where the sum begins, and the sum; None before the first."""
    row = session.get(PartitionSumsRow, stream_id)
    return None if row is None else (row.from_us, PartitionNeeds.from_bytes(row.needs))


def needs_in_slots(session: Session, stream_id: int, *which: ColumnElement[bool]) -> PartitionNeeds:
    """Return the needs of all partitions in the slots that ``which`` picks, one by one, which is slow for many."""
    return PartitionNeeds.merged(needs_of_slots(session, stream_id, *which).values())


def needs_of_slots(
    session: Session, stream_id: int, *which: ColumnElement[bool]
) -> dict[int, PartitionNeeds]:
    """Return the needs of all partitions in each of the slots that ``which`` picks, by its start."""
    slots: dict[int, dict[str, Sketch]] = {}
    statement = select(NeedSketchRow.slot_us, NeedSketchRow.partition, NeedSketchRow.sketch)
    for slot_us, name, data in session.execute(statement.where(NeedSketchRow.stream_id == stream_id, *which)):
        slots.setdefault(slot_us, {})[name] = Sketch.from_bytes(data)
    return {slot_us: PartitionNeeds.of(sketches) for slot_us, sketches in slots.items()}


def add_to_sums(session: Session, stream_id: int, added: list[tuple[int, PartitionNeeds]]) -> None:
    """Add needs, given with the slots that they are counted in."""
    row = session.get(PartitionSumsRow, stream_id)
    if row is None:
        return
    new = [needs for slot_us, needs in added if slot_us >= row.from_us]
    if new:
        row.needs = PartitionNeeds.merged([PartitionNeeds.from_bytes(row.needs), *new]).to_bytes()


def move_in_sums(session: Session, stream_id: int, slot_us: int, before: Needs, after: Needs) -> None:
    """Replace ``before``, which was counted in a slot, by ``after``."""
    row = session.get(PartitionSumsRow, stream_id)
    if row is None or slot_us < row.from_us:
        return
    left = PartitionNeeds.from_bytes(row.needs).minus(PartitionNeeds.counted(before))
    row.needs = PartitionNeeds.merged([left, PartitionNeeds.counted(after)]).to_bytes()


def slide_sums(session: Session, stream_id: int, from_us: int) -> bool:
    """Move the start of the sum to ``from_us``, the edge of a slot; return False when it begins there already."""
    row = session.get(PartitionSumsRow, stream_id)
    slot = NeedSketchRow.slot_us
    if row is None:
        needs = needs_in_slots(session, stream_id, slot >= from_us)
        session.add(PartitionSumsRow(stream_id=stream_id, from_us=from_us, needs=needs.to_bytes()))
        return True
    if row.from_us == from_us:
        return False
    held = PartitionNeeds.from_bytes(row.needs)
    if from_us < row.from_us:
        more = needs_in_slots(session, stream_id, slot >= from_us, slot < row.from_us)
        row.needs = PartitionNeeds.merged([held, more]).to_bytes()
    else:
        gone = needs_in_slots(session, stream_id, slot >= row.from_us, slot < from_us)
        if gone.names:
            row.needs = held.minus(gone).to_bytes()
    row.from_us = from_us
    return True
