"""Sketches of needs in time slots, by partition and for the whole stream.

A slot spans a minute, an hour or a day; older needs are in wider slots (``rollups``). Needs of the whole stream are
counted with each report. Needs of the partitions, which are many and rarely read, are counted later from the stored
reports (``count_waiting``); readers count the rest. ``partition_sums`` has their running sum over the horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from sqlalchemy import BigInteger, ColumnElement, Select, and_, bindparam, delete, select
from sqlalchemy.orm import Session

from tidemark.controller.db.statements import given, given_rows, upsert_many
from tidemark.controller.db.tables import NeedSketchRow, NeedSlotRow, ReportBodyRow, ReportRow, RollupRow
from tidemark.controller.evidence.blocks import undo_blocks
from tidemark.controller.evidence.partition_sums import (
    add_to_sums,
    move_in_sums,
    needs_in_slots,
    stored_sums,
)
from tidemark.controller.intake.stored_bodies import stored_report
from tidemark.models.evidence.needs import Needs, needs_against
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import Levels, merge_all


@dataclass(frozen=True, slots=True)
class Span:
    """A span of time that begins and ends on the edges of slots."""

    stream_id: int
    """The stream."""
    from_us: int
    """Start, in microseconds."""
    until_us: int | None = None
    """End, exclusive; None: up to the newest."""

    @property
    def slots(self) -> tuple[ColumnElement[bool], ...]:
        """Conditions on ``NeedSlotRow`` that pick the slots."""
        found = (NeedSlotRow.stream_id == self.stream_id, NeedSlotRow.slot_us >= self.from_us)
        return found if self.until_us is None else (*found, NeedSlotRow.slot_us < self.until_us)

    @property
    def reports(self) -> tuple[ColumnElement[bool], ...]:
        """Conditions on ``ReportRow`` that pick the batches."""
        found = (ReportRow.stream_id == self.stream_id, ReportRow.seen_us >= self.from_us)
        return found if self.until_us is None else (*found, ReportRow.seen_us < self.until_us)


def levels_of(row: RollupRow | None) -> Levels:
    """Return how far a stream's slots have been rolled up."""
    return Levels() if row is None else Levels(row.hours_until_us, row.days_until_us)


@dataclass(frozen=True, slots=True)
class BatchSlot:
    """Where the needs of a batch are counted."""

    stream_id: int
    """The stream."""
    levels: Levels
    """How far its slots have been rolled up."""
    seen_us: int
    """When the batch was seen, in microseconds."""

    @property
    def slot_us(self) -> int:
        """Start of the slot, in microseconds."""
        return self.levels.slot_us(self.seen_us)

    @property
    def width_us(self) -> int:
        """Width of the slot, in microseconds."""
        return self.levels.width_us(self.seen_us)


@cache
def _slots(dialect: str) -> Select[int, bytes]:
    # Built once: building it takes longer than running it. SQLite has no index for a list of pairs.
    asked = given_rows(dialect, {"stream_id": BigInteger(), "slot_us": BigInteger()})
    at = and_(NeedSlotRow.stream_id == asked.c.stream_id, NeedSlotRow.slot_us == asked.c.slot_us)
    return select(NeedSlotRow.stream_id, NeedSlotRow.sketch).join(asked, at)


def add_needs(session: Session, added: Sequence[tuple[BatchSlot, Sketch]]) -> None:
    """Merge the needs of batches of different streams, which are locked, into the slots of the whole streams."""
    _change(session, [(place, partial(_merge, needs)) for place, needs in added])


def _merge(needs: Sketch, slot: Sketch) -> None:
    slot.merge(needs)


def _change(session: Session, changes: Sequence[tuple[BatchSlot, Callable[[Sketch], None]]]) -> None:
    """Change the sketches of slots of whole streams, one of each stream, bypassing the session."""
    if not changes:
        return
    which = {
        "stream_id": [place.stream_id for place, _ in changes],
        "slot_us": [place.slot_us for place, _ in changes],
    }
    dialect = session.get_bind().dialect.name
    found = session.connection().execute(_slots(dialect), given(dialect, which))
    held = {row.stream_id: row.sketch for row in found}
    sketches = []
    for place, change in changes:
        data = held.get(place.stream_id)
        sketch = Sketch() if data is None else Sketch.from_bytes(data)
        change(sketch)
        sketches.append(sketch.to_bytes())
    upsert_many(
        session,
        NeedSlotRow,
        {
            **which,
            "width_us": [place.width_us for place, _ in changes],
            "sketch": sketches,
        },
        same={},
        replaced=("sketch",),
    )


def move_needs(
    session: Session, report: ReportRow, levels: Levels, before: Needs, after: Needs, *, split: bool
) -> None:
    """Replace ``before``, which a stored report was counted with, by ``after``.

    Args:
        session: the session; the stream is locked.
        report: the stored report.
        levels: how far its stream's slots have been rolled up.
        before: what was counted.
        after: the corrected needs.
        split: whether the report is counted by partition too.
    """

    def moved(sketch: Sketch) -> None:
        sketch.subtract(before.need_us, before.counts)
        sketch.add(after.need_us, after.counts)

    _change(session, [(BatchSlot(report.stream_id, levels, report.seen_us), moved)])
    if not split:
        return
    slot_us = levels.slot_us(report.seen_us)
    held = _partition_rows(session, report.stream_id, slot_us)
    for name, (need_us, count) in before.by_partition.items():
        held[name].subtract(need_us, count)
    for name, (need_us, count) in after.by_partition.items():
        held.setdefault(name, Sketch()).add(need_us, count)
    _write_partitions(session, report.stream_id, slot_us, levels.width_us(report.seen_us), held)
    move_in_sums(session, report.stream_id, slot_us, before, after)
    undo_blocks(session.get_one(RollupRow, report.stream_id), report.seen_us)


def move_slots(session: Session, rollup: RollupRow, from_us: int, until_us: int, to_us: int) -> None:
    """Merge the slots of a span into that of another time; the stream is locked, and its running sum is gone."""
    stream_id, levels = rollup.stream_id, levels_of(rollup)
    of = NeedSlotRow
    whole = (of.stream_id == stream_id, of.slot_us >= from_us, of.slot_us < until_us)
    added = merge_all(map(Sketch.from_bytes, session.scalars(select(of.sketch).where(*whole))))
    session.execute(delete(of).where(*whole))
    add_needs(session, [(BatchSlot(stream_id, levels, to_us), added)])
    part, slot_us = NeedSketchRow, levels.slot_us(to_us)
    parts = (part.stream_id == stream_id, part.slot_us >= from_us, part.slot_us < until_us)
    held = _partition_rows(session, stream_id, slot_us)
    for name, data in session.execute(select(part.partition, part.sketch).where(*parts)):
        held.setdefault(name, Sketch()).merge(Sketch.from_bytes(data))
    session.execute(delete(part).where(*parts))
    _write_partitions(session, stream_id, slot_us, levels.width_us(to_us), held)


def add_by_partition(session: Session, rollup: RollupRow, many: Sequence[tuple[int, PartitionNeeds]]) -> None:
    """Count the needs of reports by partition; each comes with when it was seen. The stream is locked."""
    stream_id, levels = rollup.stream_id, levels_of(rollup)
    by_slot: dict[int, list[PartitionNeeds]] = {}
    for seen_us, needs in many:
        by_slot.setdefault(levels.slot_us(seen_us), []).append(needs)
        undo_blocks(rollup, seen_us)
    sums = [(slot_us, PartitionNeeds.merged(added)) for slot_us, added in sorted(by_slot.items())]
    for slot_us, new in sums:
        held = _partition_rows(session, stream_id, slot_us)
        changed = new.sketches()
        for name, sketch in changed.items():
            if name in held:
                sketch.merge(held[name])
        _write_partitions(session, stream_id, slot_us, levels.width_us(slot_us), changed)
    add_to_sums(session, stream_id, sums)


def needs_in(session: Session, span: Span) -> Sketch:
    """Return the stream's needs over a span, as one sketch."""
    return merge_all(
        Sketch.from_bytes(data) for data in session.scalars(select(NeedSlotRow.sketch).where(*span.slots))
    )


def partition_needs(session: Session, stream_id: int, from_us: int) -> PartitionNeeds:
    """Return the needs of all partitions in the slots from ``from_us`` on."""
    stored = stored_sums(session, stream_id)
    if stored is None:
        held = needs_in_slots(session, stream_id, from_us)
    elif from_us <= stored[0]:
        held = PartitionNeeds.merged([stored[1], needs_in_slots(session, stream_id, from_us, stored[0])])
    else:
        held = stored[1].minus(needs_in_slots(session, stream_id, stored[0], from_us))
    rest = [needs for _, needs in rest_by_slot(session, stream_id, from_us)]
    return PartitionNeeds.merged([held, *rest])


def rest_by_slot(
    session: Session, stream_id: int, from_us: int, until_us: int | None = None
) -> list[tuple[int, PartitionNeeds]]:
    """Return the needs of each report of a span that is not yet counted by partition, with when it was seen."""
    rollup = session.get(RollupRow, stream_id)
    levels = levels_of(rollup)
    after = {"stream": stream_id, "after": 0 if rollup is None else rollup.split_report_id}
    return [
        (seen_us, PartitionNeeds.counted(needs_against(stored_report(body), need_base_ms)))
        for seen_us, need_base_ms, body in session.connection().execute(_WAITING, after)
        if levels.slot_us(seen_us) >= from_us and (until_us is None or seen_us < until_us)
    ]


# Built once: building them takes longer than running them.
_WAITING = (
    select(ReportRow.seen_us, ReportRow.need_base_ms, ReportBodyRow.body)
    .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
    .where(ReportRow.stream_id == bindparam("stream"), ReportRow.id > bindparam("after"))
    .order_by(ReportRow.id)
)
_PARTITIONS = select(NeedSketchRow.partition, NeedSketchRow.sketch).where(
    NeedSketchRow.stream_id == bindparam("stream"), NeedSketchRow.slot_us == bindparam("slot")
)


def _partition_rows(session: Session, stream_id: int, slot_us: int) -> dict[str, Sketch]:
    session.flush()
    rows = session.connection().execute(_PARTITIONS, {"stream": stream_id, "slot": slot_us})
    return {name: Sketch.from_bytes(data) for name, data in rows}


def _write_partitions(
    session: Session, stream_id: int, slot_us: int, width_us: int, sketches: Mapping[str, Sketch]
) -> None:
    names = sorted(sketches)
    upsert_many(
        session,
        NeedSketchRow,
        {"partition": names, "sketch": [sketches[name].to_bytes() for name in names]},
        same={"stream_id": stream_id, "slot_us": slot_us, "width_us": width_us},
        replaced=("sketch", "width_us"),
    )
