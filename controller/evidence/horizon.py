"""A stream's data over a horizon or a span of the past: evidence, completeness, coverage, and emissions.

The database finds and sums; ``tidemark.models.evidence.horizon`` defines what counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from sqlalchemy import ColumnElement, bindparam, func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import LedgerKeyRow, OffsetRow, PartitionRow, ReportRow
from tidemark.controller.evidence.rollups import (
    Span,
    Sums,
    levels_of,
    needs_of,
    overdispersion_of,
    rollups_in,
    sums_of,
)
from tidemark.controller.reports.store import NEWEST_FIRST, max_before_us, newest_report
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s, TimeWindow
from tidemark.models.evidence.curve import Curve, Emissions
from tidemark.models.evidence.horizon import (
    STEP_COLUMNS,
    UNKNOWN,
    HorizonFacts,
    emission_steps,
    event_slot_us,
    facts_of,
    horizon_from_us,
)
from tidemark.models.evidence.needs import late_base_ms


@dataclass(frozen=True, slots=True)
class Horizon:
    """The batches that count, from the edge of the first slot to the newest batch."""

    stream_id: int
    """The stream."""
    length_ms: int
    """Its length, in milliseconds."""
    newest: ReportRow
    """The newest batch."""

    @property
    def from_us(self) -> int:
        """Start, the edge of a slot, in microseconds."""
        return horizon_from_us(self.newest.seen_us, self.length_ms)

    @property
    def span(self) -> Span:
        """The span of time."""
        return Span(self.stream_id, self.from_us)

    @property
    def batches(self) -> tuple[ColumnElement[bool], ...]:
        """Conditions on ``ReportRow`` that pick the batches."""
        return self.span.reports


def horizon_of(session: Session, stream_id: int, horizon_ms: int) -> Horizon | None:
    """Return the stream's horizon of ``horizon_ms``; None without reports."""
    newest = newest_report(session, stream_id)
    if newest is None:
        return None
    return Horizon(stream_id, horizon_ms, newest)


def facts_from(session: Session, horizon: Horizon, total: Sums) -> HorizonFacts:
    """Return the facts of a horizon from the sums of its reports."""
    return facts_of(
        total.sums,
        batches=total.batches,
        from_us=total.from_us,
        to_us=total.to_us,
        keys_per_row=total.keys_per_row,
        partitions=session.connection()
        .execute(_PRESENT, {"stream": horizon.stream_id, "from": horizon.from_us})
        .scalar_one(),
        batches_of=total.batches_of,
    )


def open_keys(session: Session, newest: ReportRow) -> bool:
    """Return whether the ledger has a key that the newest watermark has not passed, so that rows can still come."""
    watermark_us = newest.watermark_ms * SPARK_TICK_US
    read = {"stream": newest.stream_id, "after": watermark_us}
    return bool(session.connection().execute(_OPEN_KEYS, read).scalar_one())


# Built once: building them takes longer than running them.
_OPEN_KEYS = select(
    select(LedgerKeyRow.key_us)
    .where(LedgerKeyRow.stream_id == bindparam("stream"), LedgerKeyRow.key_us > bindparam("after"))
    .exists()
)
_PRESENT = (
    select(func.count())
    .select_from(PartitionRow)
    .where(PartitionRow.stream_id == bindparam("stream"), PartitionRow.last_seen_us >= bindparam("from"))
)


def emissions_in(session: Session, span: Span, newest: ReportRow) -> Emissions | None:
    """Return when windows would have been emitted, over the batches in a span of the query of its newest one.

    None for operators without windows.
    """
    if not isinstance(newest.operator, TimeWindow):
        return None
    ids, _, batches = step_rows(session, span, newest.query_id)
    reported_ms = int(batches[0, STEP_COLUMNS.index("late_base_ms")])
    before_us = max_before_us(session, span.stream_id, newest.query_id, int(ids[0]) - 1)
    before_ms = late_base_ms(None if reported_ms == UNKNOWN else reported_ms, before_us)
    steps = emission_steps(batches, None if before_ms is None else before_ms * SPARK_TICK_US)
    return steps.emissions(keys_in(session, span.stream_id, steps.after_us, steps.until_us))


def step_rows(session: Session, span: Span, query_id: str) -> tuple[Int64s, Int64s, Int64s]:
    """Return the ids of a query's batches in a span, in order, when they were seen, and their ``STEP_COLUMNS``."""
    columns = (func.coalesce(getattr(ReportRow, name), UNKNOWN) for name in STEP_COLUMNS)
    # Thousands of rows: the session would wrap each.
    rows = session.connection().execute(
        select(ReportRow.batch_id, ReportRow.seen_us, *columns)
        .where(*span.reports, ReportRow.query_id == query_id)
        .order_by(ReportRow.batch_id)
    )
    # numpy would check each row for being an array.
    flat = np.fromiter(chain.from_iterable(rows.fetchall()), np.int64).reshape(-1, 2 + len(STEP_COLUMNS))
    return flat[:, 0], flat[:, 1], flat[:, 2:]


def keys_in(session: Session, stream_id: int, after_us: int, until_us: int) -> Int64s:
    """Return the keys of the ledger in (``after_us``, ``until_us``], ascending."""
    span = {"stream": stream_id, "after": after_us, "until": until_us}
    rows = session.connection().execute(_KEYS, span).fetchall()
    return np.fromiter(chain.from_iterable(rows), np.int64)


# Built once: building it takes longer than running it.
_KEYS = (
    select(LedgerKeyRow.key_us)
    .where(
        LedgerKeyRow.stream_id == bindparam("stream"),
        LedgerKeyRow.key_us > bindparam("after"),
        LedgerKeyRow.key_us <= bindparam("until"),
    )
    .order_by(LedgerKeyRow.key_us)
)


@dataclass(frozen=True, slots=True)
class Past:
    """What is known about a stream over a span that begins and ends on the edges of slots."""

    span: Span
    """The span; it contains the requested one, as far as that is stored."""
    sums: Sums | None
    """Sums of its reports; None without any."""
    curve: Curve
    """Completeness and latency by bound; without latency where the reports are deleted."""
    bound_ms: int | None
    """The bound in use in its newest batch; None where its reports are deleted."""


def past_of(session: Session, stream_id: int, from_us: int, until_us: int) -> Past:
    """Return what is known about a stream from ``from_us`` to ``until_us``.

    Older needs are stored by the hour or the day, so the span is widened to the edges of such slots.
    """
    offset = session.get(OffsetRow, stream_id)
    levels = levels_of(offset)
    start_us, end_us = levels.slot_us(from_us), levels.ceiling_us(until_us)
    if offset is not None:
        start_us = max(start_us, offset.rollups_from_us)
    end_us = max(start_us, end_us)
    span = Span(stream_id, start_us, end_us)
    newest = session.scalars(
        select(ReportRow).where(*span.reports).order_by(*NEWEST_FIRST).limit(1)
    ).one_or_none()
    whole = offset is None or start_us >= offset.reports_from_us
    emissions = emissions_in(session, span, newest) if newest is not None and whole else None
    width_us = max(event_slot_us((end_us - start_us) // 1_000), levels.width_us(start_us))
    parts = rollups_in(session, span, width_us)
    return Past(
        span,
        sums_of(parts),
        Curve(needs_of(parts), emissions, overdispersion_of(parts, width_us)),
        None if newest is None else newest.bound_ms,
    )
