"""Makes the rollups of a stream, up to one offset, in small steps under the stream's lock.

``roll_up`` adds the next reports to their slots of every width and moves the offset in the same transaction, so that
each report is in each of its slots once. A rollup is a function of the reports in its slot up to the offset alone:

* sums, ranges and counts of needs add up in any order, and what was added can be subtracted exactly. So when the needs
  of a report change, because an earlier one came late, ``correct`` replaces them in its slots; a late report itself is
  one more. Reading all reports of a slot again would give the same: for an hour of batches every three seconds it
  takes seconds, since their bodies have to be parsed, and bodies are kept for some days only.
* ``move_hour`` gives the reports of an hour another time, after a clock was wrong, and makes the days again from
  their hours.
* ageing deletes narrow slots. The wide ones hold their counts already; they are final once the reports are gone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from sqlalchemy import Table, bindparam, delete, func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.statements import upsert_many
from tidemark.controller.base.db.tables import (
    OffsetRow,
    PartitionRollupRow,
    ReportBodyRow,
    ReportRow,
    RollupRow,
    StreamRow,
)
from tidemark.controller.evidence.rollups import WIDTHS_US, Rollup, levels_of, merged
from tidemark.controller.reports.raise_bases import Corrected
from tidemark.controller.reports.store import effective_bound_of
from tidemark.controller.reports.store_reports import NewNeeds
from tidemark.controller.reports.stored_bodies import stored_needs
from tidemark.models.evidence.events import NO_BATCHES, LateBatches
from tidemark.models.evidence.horizon import SUMMED
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import DAY_US, HOUR_US, SLOT_US, edge_us

_AT_ONCE = 100
"""How many reports are rolled up at once: it takes some hundredths of a second, for which new ones wait."""

_MAX_BYTES = 32 * 1024 * 1024
"""Size of the needs that are in memory at once, unless one report has more; those of one may have a megabyte."""

_MAX_WAITING_BYTES = 64 * 1024 * 1024
"""Size of ``TailNeeds``: some 3,000 reports of 64 partitions."""

_Table = type[RollupRow | PartitionRollupRow]
_Slot = tuple[int, int]
"""Width and start of a slot, in microseconds."""


class TailNeeds:
    """The needs by partition of the newest reports, cached from when they are stored until they are rolled up.

    Computing them while a report is at hand costs little; from its body it costs as much as storing it. It is only a
    cache: what is missing, or belongs to another report or base, is computed from the body. Thread-safe.

    Args:
        max_bytes: its size; the oldest entries are dropped first.
    """

    def __init__(self, max_bytes: int = _MAX_WAITING_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._held: dict[int, NewNeeds] = {}
        self._bytes = 0

    def add(self, new: Mapping[int, NewNeeds]) -> None:
        """Add the needs of committed reports, by id."""
        with self._lock:
            for report_id, needs in new.items():
                self._drop(report_id)
                self._held[report_id] = needs
                self._bytes += needs.needs.size
            while self._bytes > self._max_bytes:
                self._drop(next(iter(self._held)))

    def take(self, report: ReportRow) -> PartitionNeeds | None:
        """Remove and return the needs of a report; None when they are missing, or of another report or base."""
        with self._lock:
            needs = self._drop(report.id)
        if needs is None or (needs.fingerprint, needs.base_ms) != (report.fingerprint, report.need_base_ms):
            return None
        return needs.needs

    def _drop(self, report_id: int) -> NewNeeds | None:
        needs = self._held.pop(report_id, None)
        if needs is not None:
            self._bytes -= needs.needs.size
        return needs


def locked_offset(session: Session, stream_id: int) -> tuple[OffsetRow, int] | None:
    """Lock a stream and return how far it is rolled up, and when its newest batch was seen.

    Returns None without reports, or when it was deleted meanwhile.
    """
    session.flush()
    stream = session.connection().execute(_LOCKED, {"stream": stream_id}).one_or_none()
    if stream is None or stream.deleted_us is not None:
        return None
    newest_us, offset = session.execute(_HELD, {"stream": stream_id}).one()
    if newest_us is None:
        return None
    if offset is None:
        offset = OffsetRow(
            stream_id=stream_id,
            last_report_id=0,
            hours_until_us=0,
            days_until_us=0,
            rollups_from_us=0,
            reports_from_us=0,
            bodies_from_us=0,
            # A day or more of reports before the first upkeep ages step by step too.
            aged_us=session.scalars(
                select(func.min(ReportRow.seen_us)).where(ReportRow.stream_id == stream_id)
            ).one(),
        )
        session.add(offset)
        session.flush()
    return offset, newest_us


def roll_up(session: Session, offset: OffsetRow, tail: TailNeeds) -> bool:
    """Roll up the next reports of a locked stream; return whether more wait."""
    after = {"stream": offset.stream_id, "after": offset.last_report_id}
    reports = session.scalars(_TAIL, after).all()
    if not reports:
        return False
    changes: list[_Change] = []
    size = 0
    for report in reports[:_AT_ONCE]:
        needs = tail.take(report)
        if needs is None:
            body = session.connection().execute(_BODY, {"report": report.id}).scalar_one()
            needs = PartitionNeeds.counted(stored_needs(report, body))
        changes.append(_Change(Rollup.of_report(report, None), needs, LateBatches.of_batch(*needs.counts)))
        size += needs.size
        if size > _MAX_BYTES:
            break
    done = reports[: len(changes)]
    # A slot of any width has the newest batch of one of its minutes.
    newest: dict[int, int] = {}
    for number, report in enumerate(done):
        minute_us = edge_us(report.seen_us, SLOT_US)
        if minute_us not in newest or report.seen_us >= done[newest[minute_us]].seen_us:
            newest[minute_us] = number
    for number in newest.values():
        bound_ms = effective_bound_of(session, done[number])
        changes[number] = replace(
            changes[number], part=replace(changes[number].part, effective_bound_ms=bound_ms)
        )
    _apply(session, offset, changes)
    offset.last_report_id = done[-1].id
    return len(done) < len(reports)


def correct(session: Session, stream_id: int, corrected: Sequence[Corrected]) -> None:
    """Replace the needs of reports of a locked stream that are rolled up already."""
    offset = session.get(OffsetRow, stream_id, populate_existing=True)
    if offset is None:
        return
    _apply(
        session,
        offset,
        [_correction(report) for report in corrected if report.report_id <= offset.last_report_id],
    )


def _correction(corrected: Corrected) -> _Change:
    after, before = PartitionNeeds.counted(corrected.after), PartitionNeeds.counted(corrected.before)
    sums = {name: corrected.added.get(name, 0) for name in SUMMED}
    late = LateBatches.of_batch(*after.counts) - LateBatches.of_batch(*before.counts)
    return _Change(replace(_NOTHING, slot_us=corrected.seen_us, sums=sums), after, late, before)


def move_hour(session: Session, offset: OffsetRow, hour_us: int, to_us: int) -> None:
    """Have the reports of an hour, whose slots are stored, count at another time; the stream is locked."""
    stream_id, hour = offset.stream_id, (HOUR_US, hour_us)
    part = _stored(session, RollupRow, stream_id, [hour]).get(hour)
    if part is None:
        return
    needs = _stored(session, PartitionRollupRow, stream_id, [hour])[hour].needs
    forget_rollups(session, stream_id, WIDTHS_US[:-1], hour_us, hour_us + HOUR_US)
    moved = replace(Rollup.of_row(part), slot_us=to_us, from_us=to_us, newest_us=to_us)
    late = LateBatches.from_bytes(part.late_batches)
    _apply(session, offset, [_Change(moved, PartitionNeeds.from_bytes(needs), late)], WIDTHS_US[:-1])
    for day_us in {edge_us(hour_us, DAY_US), edge_us(to_us, DAY_US)}:
        _remake_day(session, offset, day_us)


def forget_rollups(
    session: Session, stream_id: int, widths_us: Iterable[int], from_us: int, until_us: int
) -> None:
    """Delete the rollups of some widths that begin in a span."""
    tables: tuple[_Table, ...] = (RollupRow, PartitionRollupRow)
    for table in tables:
        session.execute(
            delete(table).where(
                table.stream_id == stream_id,
                table.width_us.in_([*widths_us]),
                table.slot_us >= from_us,
                table.slot_us < until_us,
            ),
            execution_options={"synchronize_session": False},
        )


@dataclass(frozen=True, slots=True)
class _Change:
    """What is to change in the slots that hold a time."""

    part: Rollup
    """What to add; ``slot_us`` is the time. Its sketch does not count."""
    added: PartitionNeeds
    """Needs to add."""
    late: LateBatches
    """What to add to how unevenly late rows came; less than nothing where needs are subtracted."""
    removed: PartitionNeeds = PartitionNeeds.merged([])  # noqa: RUF009 - immutable
    """Needs to subtract, which were added before."""


_NOTHING = Rollup(
    slot_us=0,
    batches=0,
    sums={},
    keys_per_row=0,
    from_us=0,
    newest_us=0,
    bound_ms=0,
    effective_bound_ms=None,
    state_rows=0,
    batch_ranges="{}",
    sketch=b"",
)


_FIELDS = tuple(
    field.name
    for field in fields(Rollup)
    if field.name not in {"sums", "sketch", "late_batches", "report_id", "_needs"}
)
"""The fields that are columns of ``RollupRow``."""

_Written = tuple[Rollup, LateBatches, PartitionNeeds]
"""What is written of a slot: what it adds up to, how unevenly late rows came, and the needs of each partition."""


def _apply(
    session: Session, offset: OffsetRow, changes: Sequence[_Change], widths_us: Sequence[int] = WIDTHS_US
) -> None:
    """Change the slots of all widths that are stored of the times of changes."""
    levels, stream_id = levels_of(offset), offset.stream_id
    by_slot: dict[_Slot, list[_Change]] = {}
    for change in changes:
        at_us = change.part.slot_us
        for width_us in widths_us:
            if width_us >= levels.width_us(at_us) and at_us >= offset.rollups_from_us:
                by_slot.setdefault((width_us, edge_us(at_us, width_us)), []).append(change)
    parts = _stored(session, RollupRow, stream_id, [*by_slot])
    needs = _stored(session, PartitionRollupRow, stream_id, [*by_slot])
    # Mostly all of them are in one slot of each width.
    summed: dict[tuple[int, ...], tuple[PartitionNeeds, PartitionNeeds, Sketch, Sketch]] = {}
    written: dict[_Slot, _Written] = {}
    for slot, some in by_slot.items():
        which = tuple(map(id, some))
        if which not in summed:
            added = PartitionNeeds.merged([change.added for change in some])
            removed = PartitionNeeds.merged([change.removed for change in some])
            summed[which] = added, removed, added.whole, removed.whole
        added, removed, more, less = summed[which]
        whole, by_partition = Sketch(), added
        stored = [change.part for change in some]
        late = sum((change.late for change in some), NO_BATCHES)
        if slot in parts:
            part = Rollup.of_row(parts[slot])
            stored.insert(0, part)
            whole = part.needs
            late += LateBatches.from_bytes(parts[slot].late_batches)
            by_partition = PartitionNeeds.merged([PartitionNeeds.from_bytes(needs[slot].needs), added])
        whole.merge(more)
        if removed.names:
            whole.remove(less)
            by_partition = by_partition.minus(removed)
        written[slot] = merged(stored, slot[1], whole), late, by_partition
    _write(session, stream_id, written)


def _remake_day(session: Session, offset: OffsetRow, day_us: int) -> None:
    """Make a day again from its hours."""
    stream_id = offset.stream_id
    forget_rollups(session, stream_id, [DAY_US], day_us, day_us + DAY_US)
    hours = [(HOUR_US, hour_us) for hour_us in range(day_us, day_us + DAY_US, HOUR_US)]
    rows = _stored(session, RollupRow, stream_id, hours).values()
    if not rows:
        return
    parts = [Rollup.of_row(row) for row in rows]
    by_partition = _stored(session, PartitionRollupRow, stream_id, hours).values()
    needs = PartitionNeeds.merged(PartitionNeeds.from_bytes(row.needs) for row in by_partition)
    late = sum((LateBatches.from_bytes(row.late_batches) for row in rows), NO_BATCHES)
    _write(session, stream_id, {(DAY_US, day_us): (merged(parts, day_us, needs.whole), late, needs)})


def _write(session: Session, stream_id: int, slots: Mapping[_Slot, _Written]) -> None:
    rows: dict[str, list[Any]] = {}
    needs: dict[str, list[Any]] = {}
    for (width_us, slot_us), (part, late, partitions) in sorted(slots.items()):
        own = {name: getattr(part, name) for name in _FIELDS}
        stored = {"needs": part.sketch, "late_batches": late.to_bytes(), "width_us": width_us}
        for name, value in {**own, **part.sums, **stored}.items():
            rows.setdefault(name, []).append(value)
        for name, value in (("width_us", width_us), ("slot_us", slot_us), ("needs", partitions.to_bytes())):
            needs.setdefault(name, []).append(value)
    if not rows:
        return
    same, key = {"stream_id": stream_id}, {"width_us", "slot_us"}
    upsert_many(session, RollupRow, rows, same=same, replaced=tuple(name for name in rows if name not in key))
    upsert_many(session, PartitionRollupRow, needs, same=same, replaced=("needs",))


def _stored(session: Session, table: _Table, stream_id: int, slots: Sequence[_Slot]) -> dict[_Slot, Any]:
    """Return the stored rows of some slots."""
    session.flush()
    widths, starts = {width_us for width_us, _ in slots}, {slot_us for _, slot_us in slots}
    which = {"stream": stream_id, "widths": [*widths], "starts": [*starts]}
    rows = session.connection().execute(_SLOTS[table], which)
    wanted = {*slots}
    return {(row.width_us, row.slot_us): row for row in rows if (row.width_us, row.slot_us) in wanted}


# Built once: building them takes longer than running them.
_SLOTS = {
    table: select(*cast("Table", table.__table__).c).where(
        table.stream_id == bindparam("stream"),
        # Not as pairs, for which SQLite would read all of the stream; what is too many does no harm.
        table.width_us.in_(bindparam("widths", expanding=True)),
        table.slot_us.in_(bindparam("starts", expanding=True)),
    )
    for table in (RollupRow, PartitionRollupRow)
}
_LOCKED = select(StreamRow.deleted_us).where(StreamRow.id == bindparam("stream")).with_for_update()
_HELD = (
    select(
        select(func.max(ReportRow.seen_us))
        .where(ReportRow.stream_id == StreamRow.id)
        .correlate(StreamRow)
        .scalar_subquery(),
        OffsetRow,
    )
    .select_from(StreamRow)
    .outerjoin(OffsetRow, OffsetRow.stream_id == StreamRow.id)
    .where(StreamRow.id == bindparam("stream"))
)
_TAIL = (
    select(ReportRow)
    .where(ReportRow.stream_id == bindparam("stream"), ReportRow.id > bindparam("after"))
    .order_by(ReportRow.id)
    .limit(_AT_ONCE + 1)
)
_BODY = select(ReportBodyRow.body).where(ReportBodyRow.report_id == bindparam("report"))
