"""A running sum of the needs of all partitions of a stream over its horizon.

A horizon of a day has 1,440 slots of every partition; reading all of them at each snapshot would take seconds. So
their sum is stored and moves with the horizon: new needs are added, old ones subtracted. It covers exactly the slots
of ``NeedSketchRow`` from ``from_us`` on; code that writes those updates it, under the stream's lock.
"""

from __future__ import annotations

from sqlalchemy import bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import NeedSketchRow, PartitionSumsRow
from tidemark.models.evidence.needs import Needs
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.sketch import Sketch

_EVER = 2**62
"""After all times, and above all widths, in microseconds."""


def stored_sums(session: Session, stream_id: int) -> tuple[int, PartitionNeeds] | None:
    """Return where the sum begins, and the sum; None before the first."""
    row = session.get(PartitionSumsRow, stream_id)
    return None if row is None else (row.from_us, PartitionNeeds.from_bytes(row.needs))


def needs_in_slots(
    session: Session, stream_id: int, from_us: int, until_us: int = _EVER, *, max_width_us: int = _EVER
) -> PartitionNeeds:
    """Return the sum of ``needs_of_slots``; reading them is slow for many."""
    found = needs_of_slots(session, stream_id, from_us, until_us, max_width_us=max_width_us)
    return PartitionNeeds.merged(found.values())


def needs_of_slots(
    session: Session, stream_id: int, from_us: int, until_us: int, *, max_width_us: int = _EVER
) -> dict[int, PartitionNeeds]:
    """Return the needs of all partitions in each slot of a span, by its start.

    Args:
        session: the session.
        stream_id: the stream.
        from_us: start of the first slot, in microseconds.
        until_us: end of the span, exclusive, in microseconds.
        max_width_us: width of the widest slot that counts, in microseconds.
    """
    if from_us >= until_us:
        return {}
    session.flush()
    span = {"stream": stream_id, "from": from_us, "until": until_us, "width": max_width_us}
    slots: dict[int, dict[str, Sketch]] = {}
    for slot_us, name, data in session.connection().execute(_SLOTS, span):
        slots.setdefault(slot_us, {})[name] = Sketch.from_bytes(data)
    return {slot_us: PartitionNeeds.of(sketches) for slot_us, sketches in slots.items()}


# Built once: building it takes longer than running it.
_SLOTS = select(NeedSketchRow.slot_us, NeedSketchRow.partition, NeedSketchRow.sketch).where(
    NeedSketchRow.stream_id == bindparam("stream"),
    NeedSketchRow.slot_us >= bindparam("from"),
    NeedSketchRow.slot_us < bindparam("until"),
    NeedSketchRow.width_us <= bindparam("width"),
)


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
    if row is None:
        needs = needs_in_slots(session, stream_id, from_us)
        session.add(PartitionSumsRow(stream_id=stream_id, from_us=from_us, needs=needs.to_bytes()))
        return True
    if row.from_us == from_us:
        return False
    held = PartitionNeeds.from_bytes(row.needs)
    if from_us < row.from_us:
        more = needs_in_slots(session, stream_id, from_us, row.from_us)
        row.needs = PartitionNeeds.merged([held, more]).to_bytes()
    else:
        gone = needs_in_slots(session, stream_id, row.from_us, from_us)
        if gone.names:
            row.needs = held.minus(gone).to_bytes()
    row.from_us = from_us
    return True
