"""Rollups: what the reports of a stream in one slot of time add up to, read as stored rollups and the tail.

A slot is a minute, ten minutes, an hour or a day, and every report is in one of each. ``roll_up`` makes all of them, up
to one offset; the reports after it, the *tail*, are added by whoever reads. A span is covered by the widest slots that
fit into it, so that a day takes some forty rows, and a month some ninety. Of a time whose narrow slots are aged out,
only the wide ones are there (``Levels``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
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
from tidemark.controller.reports.stored_bodies import stored_report
from tidemark.models.evidence.coverage import Range, merge_ranges
from tidemark.models.evidence.events import NO_BATCHES, LateBatches, Overdispersion
from tidemark.models.evidence.horizon import SUMMED
from tidemark.models.evidence.needs import needs_against
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
        found = (ReportRow.stream_id == self.stream_id, ReportRow.seen_us >= self.from_us)
        return found if self.until_us is None else (*found, ReportRow.seen_us < self.until_us)


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
    late_batches: bytes = b""
    """How unevenly late rows came, as ``LateBatches.to_bytes`` returns it; empty for a report of the tail."""
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
            late_batches=row.late_batches,
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


def rollups_in(session: Session, span: Span, width_us: int = DAY_US) -> list[Rollup]:
    """Return what a span adds up to, part by part: the stored rollups, and each report of the tail.

    Args:
        session: the session.
        span: the span; where its narrow slots are aged out, it is widened to the edges of wider ones.
        width_us: only slots whose width divides this one.
    """
    offset = _offset(session, span.stream_id)
    found = [Rollup.of_row(row) for row in _covering(session, RollupRow, span, offset[1], width_us)]
    return found + [Rollup.of_report(row, row.needs) for row in _tail(session, _TAIL, span, offset)]


def sums_of(parts: Sequence[Rollup]) -> Sums | None:
    """Return what rollups add up to; None without a batch."""
    parts = [part for part in parts if part.batches]
    if not parts:
        return None
    batches_of: dict[str, list[Range]] = {}
    for part in parts:
        for query_id, ranges in part.batches_of.items():
            batches_of.setdefault(query_id, []).extend(ranges)
    return Sums(
        sum(part.batches for part in parts),
        min(part.from_us for part in parts),
        max(part.newest_us for part in parts),
        max(part.keys_per_row for part in parts),
        {name: sum(part.sums[name] for part in parts) for name in SUMMED},
        {query_id: merge_ranges(ranges) for query_id, ranges in batches_of.items()},
    )


def needs_of(parts: Iterable[Rollup]) -> Sketch:
    """Return the needs of all partitions in rollups."""
    return merge_all(part.needs for part in parts)


def overdispersion_in(session: Session, span: Span, width_us: int, parts: Iterable[Rollup]) -> Overdispersion:
    """Return how unevenly late rows came over a span, by slots of one width.

    Args:
        session: the session.
        span: the span.
        width_us: an hour or a day.
        parts: what ``rollups_in`` returned for the span, which has what its first and last slot lack.
    """
    first_us = -(-span.from_us // width_us) * width_us
    last_us = _EVER if span.until_us is None else edge_us(span.until_us, width_us)
    which = {"stream": span.stream_id, "width": width_us, "from": first_us, "until": last_us}
    stored = session.connection().execute(_LATE_BATCHES, which)
    found = {slot_us: LateBatches.from_bytes(late) for slot_us, late in stored}
    for part in parts:
        if part.report_id is not None:
            late = LateBatches.of_batch(*part.needs.counts)
        elif first_us <= part.slot_us < last_us:
            continue
        else:
            late = LateBatches.from_bytes(part.late_batches)
        slot_us = edge_us(part.slot_us, width_us)
        found[slot_us] = found.get(slot_us, NO_BATCHES) + late
    return Overdispersion.of(found.values())


def partition_needs(session: Session, span: Span) -> PartitionNeeds:
    """Return the needs of each partition over a span."""
    return PartitionNeeds.merged(needs for _, needs in partition_needs_in(session, span))


def partition_needs_in(
    session: Session, span: Span, width_us: int = DAY_US
) -> list[tuple[int, PartitionNeeds]]:
    """Return the needs of each partition as ``rollups_in`` does, each part with the start of its slot."""
    offset = _offset(session, span.stream_id)
    found = [
        (row.slot_us, PartitionNeeds.from_bytes(row.needs))
        for row in _covering(session, PartitionRollupRow, span, offset[1], width_us)
    ]
    return found + [
        (row.seen_us, PartitionNeeds.counted(needs_against(stored_report(row.body), row.need_base_ms)))
        for row in _tail(session, _TAIL_BODIES, span, offset)
    ]


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
_LATE_BATCHES = select(RollupRow.slot_us, RollupRow.late_batches).where(
    RollupRow.stream_id == bindparam("stream"),
    RollupRow.width_us == bindparam("width"),
    RollupRow.slot_us >= bindparam("from"),
    RollupRow.slot_us < bindparam("until"),
)
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
    select(ReportRow.seen_us, ReportRow.need_base_ms, ReportBodyRow.body)
    .join(ReportBodyRow, ReportBodyRow.report_id == ReportRow.id)
    .where(*_OF_TAIL)
    .order_by(ReportRow.id)
)
