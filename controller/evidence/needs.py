"""Sketches of needs in time slots, by partition and for the whole stream.

A slot spans a minute, an hour or a day; older needs are in wider slots (``rollups``). Needs of the whole stream are
counted with each report. Needs of the partitions, which are many and rarely read, are counted later from the stored
reports (``count_waiting``); readers count the rest. ``partition_sums`` has their running sum over the horizon.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import ColumnElement, Select, bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import NeedSketchRow, NeedSlotRow, ReportBodyRow, ReportRow, RollupRow
from tidemark.controller.db.upsert import upsert_many
from tidemark.controller.evidence.blocks import undo_blocks
from tidemark.controller.evidence.partition_sums import (
    add_to_sums,
    move_in_sums,
    needs_in_slots,
    stored_sums,
)
from tidemark.controller.intake.stored_bodies import stored_report
from tidemark.models.late_base import Needs, needs_against
from tidemark.models.need_slots import Levels, merge_all
from tidemark.models.partition_needs import PartitionNeeds
from tidemark.models.sketch import Sketch


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


# Built once: building it takes longer than running it.
_SLOT = select(NeedSlotRow.version, NeedSlotRow.sketch).where(
    NeedSlotRow.stream_id == bindparam("stream"), NeedSlotRow.slot_us == bindparam("slot")
)


def add_needs(session: Session, stream_id: int, levels: Levels, seen_us: int, needs: PartitionNeeds) -> None:
    """Merge one report's needs into the slot of the whole stream; the stream is locked."""
    if needs.names:
        _change(session, stream_id, levels, seen_us, lambda sketch: sketch.merge(needs.whole))


def _change(
    session: Session, stream_id: int, levels: Levels, seen_us: int, change: Callable[[Sketch], None]
) -> None:
    """Change the sketch of a slot of the whole stream, bypassing the session."""
    slot_us = levels.slot_us(seen_us)
    held = session.connection().execute(_SLOT, {"stream": stream_id, "slot": slot_us}).one_or_none()
    sketch = Sketch() if held is None else Sketch.from_bytes(held.sketch)
    change(sketch)
    upsert_many(
        session,
        NeedSlotRow,
        {"sketch": [sketch.to_bytes()]},
        same={
            "stream_id": stream_id,
            "slot_us": slot_us,
            "version": 1 if held is None else held.version + 1,
            "width_us": levels.width_us(seen_us),
        },
        replaced=("sketch", "version"),
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

    _change(session, report.stream_id, levels, report.seen_us, moved)
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


class SketchCache:
    """A cache of the slots of one stream: only slots that changed are read again."""

    def __init__(self) -> None:
        self._slots: dict[int, tuple[int, Sketch]] = {}

    def merged(self, session: Session, stream_id: int, from_us: int) -> Sketch:
        """Return the stream's needs in the slots from ``from_us`` on, as one sketch."""
        of_span = Span(stream_id, from_us).slots
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


def needs_in(session: Session, span: Span) -> Sketch:
    """Return the stream's needs over a span, as one sketch."""
    return merge_all(
        Sketch.from_bytes(data) for data in session.scalars(select(NeedSlotRow.sketch).where(*span.slots))
    )


def partition_needs(session: Session, stream_id: int, from_us: int) -> PartitionNeeds:
    """Return the needs of all partitions in the slots from ``from_us`` on."""
    slot, stored = NeedSketchRow.slot_us, stored_sums(session, stream_id)
    if stored is None:
        held = needs_in_slots(session, stream_id, slot >= from_us)
    elif from_us <= stored[0]:
        more = needs_in_slots(session, stream_id, slot >= from_us, slot < stored[0])
        held = PartitionNeeds.merged([stored[1], more])
    else:
        held = stored[1].minus(needs_in_slots(session, stream_id, slot >= stored[0], slot < from_us))
    rest = [needs for _, needs in rest_by_slot(session, stream_id, from_us)]
    return PartitionNeeds.merged([held, *rest])


def partition_sketches(
    session: Session, stream_id: int, from_us: int, partitions: list[str]
) -> dict[str, Sketch]:
    """Return the needs of each of ``partitions`` in the slots from ``from_us`` on, if it has any."""
    needs = partition_needs(session, stream_id, from_us)
    known = set(needs.names)
    return {name: needs.sketch(name) for name in partitions if name in known}


def rest_by_slot(
    session: Session, stream_id: int, from_us: int, until_us: int | None = None
) -> list[tuple[int, PartitionNeeds]]:
    """Return the needs of each report of a span that is not yet counted by partition, with when it was seen."""
    rollup = session.get(RollupRow, stream_id)
    levels = levels_of(rollup)
    rest = _waiting(stream_id, 0 if rollup is None else rollup.split_report_id)
    return [
        (report.seen_us, PartitionNeeds.counted(needs_against(stored_report(body), report.need_base_ms)))
        for report, body in session.execute(rest).all()
        if levels.slot_us(report.seen_us) >= from_us and (until_us is None or report.seen_us < until_us)
    ]


def _waiting(stream_id: int, after_id: int) -> Select[ReportRow, bytes]:
    return (
        select(ReportRow, ReportBodyRow.body)
        .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
        .where(ReportRow.stream_id == stream_id, ReportRow.id > after_id)
        .order_by(ReportRow.id)
    )


def _partition_rows(session: Session, stream_id: int, slot_us: int) -> dict[str, Sketch]:
    rows = session.execute(
        select(NeedSketchRow.partition, NeedSketchRow.sketch).where(
            NeedSketchRow.stream_id == stream_id, NeedSketchRow.slot_us == slot_us
        )
    )
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
