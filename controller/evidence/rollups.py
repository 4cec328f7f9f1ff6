"""Rollups: what the reports of a stream in one slot of time add up to, read as stored rollups and the tail.

A slot is a minute, ten minutes, an hour or a day, and every report is in one of each. ``roll_up`` makes all of them, up
to one offset; the reports after it, the *tail*, are added by whoever reads. A span is covered by the widest slots that
fit into it, so that a day takes some forty rows, and a month some ninety. Of a time whose narrow slots are aged out,
only the wide ones are there (``Levels``).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from operator import attrgetter
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Executable, Row, Select, bindparam, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.statements import given, given_rows
from tidemark.controller.base.db.tables import (
    OffsetRow,
    PartitionRollupRow,
    ReportBodyRow,
    ReportRow,
    RollupRow,
)
from tidemark.controller.reports.stored_bodies import NEEDS_BY, stored_needs
from tidemark.models.evidence.coverage import Range, merge_ranges
from tidemark.models.evidence.events import NO_BATCHES, LateBatches, Overdispersion
from tidemark.models.evidence.horizon import SUMMED
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import DAY_US, HOUR_US, SLOT_US, Levels, edge_us, merge_all

TEN_MINUTES_US = 10 * SLOT_US
"""Width of a slot in microseconds."""

WIDTHS_US = (SLOT_US, TEN_MINUTES_US, HOUR_US, DAY_US)
"""Widths of slots, ascending; each divides the next one."""

_EVER = 2**62


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
    def reports(self) -> tuple[ColumnElement[bool], ...]:
        """Conditions on ``ReportRow`` that pick the batches."""
        conditions = (ReportRow.stream_id == self.stream_id, ReportRow.seen_us >= self.from_us)
        return conditions if self.until_us is None else (*conditions, ReportRow.seen_us < self.until_us)


# Not frozen, which would make reading hundreds of them twice as slow.
@dataclass(slots=True, kw_only=True)
class Rollup:
    """What the reports in one slot add up to. ``RollupRow`` describes the fields."""

    slot_us: int
    batches: int
    sums: Mapping[str, int]
    """The sum of each of ``horizon.SUMMED``."""
    keys_per_row: int
    from_us: int
    newest_us: int
    bound_ms: int
    effective_bound_ms: int | None
    state_rows: int
    batch_ranges: str
    sketch: bytes
    """The needs, as ``Sketch.to_bytes`` returns them."""
    late_batches: Mapping[int, bytes] = field(default_factory=dict)
    """How unevenly late rows came, by the start of each slot, as ``LateBatches.to_bytes`` returns it; none for a report
    of the tail."""
    report_id: int | None = None
    """The report, when it is one of the tail."""
    _needs: Sketch | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def batches_of(self) -> dict[str, list[Range]]:
        """Ranges of batch ids by query."""
        stored = json.loads(self.batch_ranges)
        return {query: [(first, last) for first, last in ranges] for query, ranges in stored.items()}

    @property
    def needs(self) -> Sketch:
        """The needs of all partitions."""
        if self._needs is None:
            self._needs = Sketch.from_bytes(self.sketch)
        return self._needs

    @classmethod
    def of_row(cls, row: Row[Any] | RollupRow) -> Rollup:
        """Return a stored rollup."""
        return cls(
            slot_us=row.slot_us,
            batches=row.batches,
            sums=dict(zip(SUMMED, _SUMS(row), strict=True)),
            keys_per_row=row.keys_per_row,
            from_us=row.from_us,
            newest_us=row.newest_us,
            bound_ms=row.bound_ms,
            effective_bound_ms=row.effective_bound_ms,
            state_rows=row.state_rows,
            batch_ranges=row.batch_ranges,
            sketch=row.needs,
            late_batches={row.slot_us: row.late_batches},
        )

    @classmethod
    def of_report(cls, report: Row[Any] | ReportRow, sketch: bytes | None) -> Rollup:
        """Return what one report adds, without the bound that was in effect."""
        return cls(
            slot_us=report.seen_us,
            batches=1,
            sums=dict(zip(SUMMED, _SUMS(report), strict=True)),
            keys_per_row=report.keys_per_row,
            from_us=report.seen_us,
            newest_us=report.seen_us,
            bound_ms=report.bound_ms,
            effective_bound_ms=None,
            state_rows=report.state_rows,
            batch_ranges=json.dumps({report.query_id: [[report.batch_id, report.batch_id]]}),
            sketch=sketch or _NO_NEEDS,
            report_id=report.id,
        )


_NO_NEEDS = Sketch().to_bytes()
_SUMS = attrgetter(*SUMMED)


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of the reports of a span."""

    batches: int
    """Number of batches, at least 1."""
    from_us: int
    """Trigger time of the first batch, in microseconds."""
    to_us: int
    """Trigger time of the newest batch, in microseconds."""
    keys_per_row: int
    """The maximum number of keys of one row."""
    sums: Mapping[str, int]
    """The sum of each of ``horizon.SUMMED``."""
    batches_of: Mapping[str, list[Range]]
    """Ranges of batch ids by query."""

    @property
    def unjudged(self) -> int:
        """Upper limit of the pairs whose fate is unknown."""
        return self.sums["unjudged_rows"] * self.keys_per_row

    @property
    def counted(self) -> int:
        """(Row, key) pairs that arrived."""
        return self.sums["pairs"] + self.unjudged


def levels_of(offset: OffsetRow | None) -> Levels:
    """Return which slots of a stream are aged out."""
    return Levels() if offset is None else Levels(offset.hours_until_us, offset.days_until_us)


def levels_in(session: Session, stream_id: int) -> Levels:
    """Return which slots of a stream are aged out."""
    return _offset(session, stream_id)[1]


def rollups_in(
    session: Session,
    span: Span,
    width_us: int = DAY_US,
    read: Callable[[Sequence[Row[Any]]], list[Rollup]] = lambda rows: [*map(Rollup.of_row, rows)],
) -> list[Rollup]:
    """Return what a span adds up to, part by part: the stored rollups, and each report of the tail.

    Args:
        span: the span; where its narrow slots are aged out, it is widened to the edges of wider ones.
        width_us: only slots whose width divides this one.
        read: returns what stored rows, in order, add up to, in as many parts as it likes.
    """
    offset = _offset(session, span.stream_id)
    rollups = read(_covering(session, RollupRow, span, offset[1], width_us))
    return rollups + [Rollup.of_report(row, row.needs) for row in _tail(session, _TAIL, span, offset)]


def sums_of(parts: Sequence[Rollup]) -> Sums | None:
    """Return what rollups add up to; None without a batch."""
    counted = [part for part in parts if part.batches]
    if not counted:
        return None
    batches_of: dict[str, list[Range]] = {}
    for part in counted:
        for query_id, ranges in part.batches_of.items():
            batches_of.setdefault(query_id, []).extend(ranges)
    return Sums(
        sum(part.batches for part in counted),
        min(part.from_us for part in counted),
        max(part.newest_us for part in counted),
        max(part.keys_per_row for part in counted),
        {name: sum(part.sums[name] for part in parts) for name in SUMMED},
        {query_id: merge_ranges(ranges) for query_id, ranges in batches_of.items()},
    )


def merged(parts: Sequence[Rollup], slot_us: int, needs: Sketch) -> Rollup:
    """Return what parts add up to, of which at least one has a batch; of two newest ones the last counts.

    Args:
        parts: the parts; a correction has no batch.
        slot_us: start of the slot that they are in.
    """
    sums = sums_of(parts)
    assert sums is not None, "a slot has a batch"
    newest = max((part for part in reversed(parts) if part.batches), key=lambda part: part.newest_us)
    return Rollup(
        slot_us=slot_us,
        batches=sums.batches,
        sums=sums.sums,
        keys_per_row=sums.keys_per_row,
        from_us=sums.from_us,
        newest_us=sums.to_us,
        bound_ms=newest.bound_ms,
        effective_bound_ms=newest.effective_bound_ms,
        state_rows=newest.state_rows,
        batch_ranges=json.dumps(sums.batches_of),
        sketch=needs.to_bytes(),
        late_batches={at_us: late for part in parts for at_us, late in part.late_batches.items()},
    )


def needs_of(parts: Iterable[Rollup]) -> Sketch:
    """Return the needs of all partitions in rollups."""
    return merge_all(part.needs for part in parts)


def overdispersion_of(parts: Iterable[Rollup], width_us: int) -> Overdispersion:
    """Return how unevenly late rows came, by slots of one width, which no part is wider than."""
    by_slot: dict[int, LateBatches] = {}
    for part in parts:
        stored = {at_us: LateBatches.from_bytes(late) for at_us, late in part.late_batches.items()}
        if part.report_id is not None:
            stored = {part.slot_us: LateBatches.of_batch(*part.needs.counts)}
        for at_us, late in stored.items():
            slot_us = edge_us(at_us, width_us)
            by_slot[slot_us] = by_slot.get(slot_us, NO_BATCHES) + late
    return Overdispersion.of(by_slot.values())


def partition_needs(
    session: Session,
    span: Span,
    read: Callable[[Sequence[Row[Any]]], list[PartitionNeeds]] = lambda rows: [*map(needs_of_row, rows)],
) -> PartitionNeeds:
    """Return the needs of each partition over a span; ``read`` is as in ``rollups_in``."""
    offset = _offset(session, span.stream_id)
    stored = read(_covering(session, PartitionRollupRow, span, offset[1], DAY_US))
    return PartitionNeeds.merged(stored + [needs for _, needs in _tail_needs(session, span, offset)])


def partition_needs_in(
    session: Session, span: Span, width_us: int = DAY_US
) -> list[tuple[int, PartitionNeeds]]:
    """Return the needs of each partition as ``rollups_in`` does, each part with the start of its slot."""
    offset = _offset(session, span.stream_id)
    rows = _covering(session, PartitionRollupRow, span, offset[1], width_us)
    return [(row.slot_us, needs_of_row(row)) for row in rows] + _tail_needs(session, span, offset)


def needs_of_row(row: Row[Any]) -> PartitionNeeds:
    """Return the needs in a stored rollup of partitions."""
    return PartitionNeeds.from_bytes(row.needs)


def cover(
    from_us: int, until_us: int | None, levels: Levels, width_us: int = DAY_US
) -> list[tuple[int, int, int]]:
    """Return the slots that cover a span: (width, start of the first, end of the last), in microseconds."""
    widths = [width for width in WIDTHS_US if width_us % width == 0]
    at_us, end_us = levels.slot_us(from_us), _EVER if until_us is None else until_us
    parts = []
    for width, wider in pairwise(widths):
        # Up to the first edge of a wider one.
        stop_us = min(-(-at_us // wider) * wider, edge_us(end_us, width))
        if stop_us > at_us:
            parts.append((width, at_us, stop_us))
            at_us = stop_us
    for width in reversed(widths):
        stop_us = end_us if end_us == _EVER else edge_us(end_us, width)
        if stop_us > at_us:
            parts.append((width, at_us, stop_us))
            at_us = stop_us
    return parts


def _offset(session: Session, stream_id: int) -> tuple[int, Levels]:
    """Return up to which report a stream is rolled up, and which slots are aged out."""
    session.flush()
    row = session.connection().execute(_OFFSET, {"stream": stream_id}).one_or_none()
    return (0, Levels()) if row is None else (row[0], Levels(row[1], row[2]))


def _covering(
    session: Session, table: type[RollupRow | PartitionRollupRow], span: Span, levels: Levels, width_us: int
) -> Sequence[Row[Any]]:
    """Return the rows of a table of rollups that cover a span, in order."""
    parts = cover(span.from_us, span.until_us, levels, width_us)
    dialect = session.get_bind().dialect.name
    columns = zip(*parts, strict=True) if parts else ([], [], [])
    asked = given(dialect, dict(zip(_PART, map(list, columns), strict=True)))
    return session.connection().execute(_covered(dialect, table), {**asked, "stream": span.stream_id}).all()


def _tail_needs(session: Session, span: Span, offset: tuple[int, Levels]) -> list[tuple[int, PartitionNeeds]]:
    """Return the needs of each partition in each report of the tail, with when it was seen."""
    return [
        (row.seen_us, PartitionNeeds.counted(stored_needs(row, row.body)))
        for row in _tail(session, _TAIL_BODIES, span, offset)
    ]


def _tail(
    session: Session, statement: Executable, span: Span, offset: tuple[int, Levels]
) -> Sequence[Row[Any]]:
    """Return the reports of a span that are not rolled up yet."""
    which = {
        "stream": span.stream_id,
        "after": offset[0],
        "from": offset[1].slot_us(span.from_us),
        "until": _EVER if span.until_us is None else span.until_us,
    }
    return session.connection().execute(statement, which).all()


# Built once: building them takes longer than running them.
_PART = ("width_us", "from_us", "until_us")
_OFFSET = select(OffsetRow.last_report_id, OffsetRow.hours_until_us, OffsetRow.days_until_us).where(
    OffsetRow.stream_id == bindparam("stream")
)


@cache
def _covered(dialect: str, table: type[RollupRow | PartitionRollupRow]) -> Select[Any]:
    asked = given_rows(dialect, {name: BigInteger() for name in _PART}).c
    columns: Any = table.__table__.columns
    return (
        select(*columns)
        .where(table.stream_id == bindparam("stream"))
        .where(
            table.width_us == asked.width_us, table.slot_us >= asked.from_us, table.slot_us < asked.until_us
        )
        .order_by(table.slot_us)
    )


_OF_TAIL = (
    ReportRow.stream_id == bindparam("stream"),
    ReportRow.id > bindparam("after"),
    ReportRow.seen_us >= bindparam("from"),
    ReportRow.seen_us < bindparam("until"),
)
_TAIL = (
    select(
        ReportRow.id,
        ReportRow.query_id,
        ReportRow.batch_id,
        ReportRow.seen_us,
        ReportRow.keys_per_row,
        ReportRow.bound_ms,
        ReportRow.state_rows,
        *(getattr(ReportRow, name) for name in SUMMED),
        ReportBodyRow.needs,
    )
    .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
    .where(*_OF_TAIL)
    .order_by(ReportRow.id)
)
_TAIL_BODIES = (
    select(ReportRow.seen_us, *NEEDS_BY, ReportBodyRow.body)
    .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
    .where(*_OF_TAIL)
    .order_by(ReportRow.id)
)
