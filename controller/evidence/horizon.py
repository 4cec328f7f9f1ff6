"""A stream's data over a horizon: evidence, completeness, coverage, and emissions.

The database finds and sums; ``tidemark.models.evidence.horizon`` defines what counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from sqlalchemy import ColumnElement, ScalarSelect, bindparam, func, select
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from tidemark.controller.db.tables import LedgerKeyRow, PartitionRow, QueryRow, ReportRow
from tidemark.controller.evidence.hourly_sums import Sums
from tidemark.controller.evidence.needs import Span
from tidemark.controller.reports.store import newest_report
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.curve import Emissions
from tidemark.models.evidence.horizon import (
    STEP_COLUMNS,
    UNKNOWN,
    HorizonFacts,
    emission_steps,
    facts_of,
    horizon_from_us,
)
from tidemark.models.evidence.needs import effective_bound_ms, late_base_ms

WINDOW = "window"
"""``kind`` of the operator that has windows."""


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


def newest_report_id(session: Session, stream_id: int) -> int:
    """Return the id of the report stored last, 0 without any."""
    return session.scalars(select(func.max(ReportRow.id)).where(ReportRow.stream_id == stream_id)).one() or 0


def horizon_of(session: Session, stream_id: int, horizon_ms: int) -> Horizon | None:
    """Return the stream's horizon of ``horizon_ms``; None without reports."""
    newest = newest_report(session, stream_id)
    if newest is None:
        return None
    return Horizon(stream_id, horizon_ms, newest)


def facts_from(session: Session, horizon: Horizon, found: Sums) -> HorizonFacts:
    """Return the facts of a horizon from the sums of its reports."""
    return facts_of(
        found.sums,
        batches=found.batches,
        from_us=found.from_us,
        to_us=found.to_us,
        keys_per_row=found.keys_per_row,
        partitions=session.connection()
        .execute(_PRESENT, {"stream": horizon.stream_id, "from": horizon.from_us})
        .scalar_one(),
        batches_of=found.batches_of,
    )


def max_before_us(session: Session, stream_id: int, query_id: str, last_batch: int) -> int | None:
    """Return the maximum event time of a query's batches up to ``last_batch``, deleted ones too; None without any."""
    session.flush()
    parameters = {"stream": stream_id, "query": query_id, "last": last_batch}
    found = session.connection().execute(_MAX_EVENT_TIME, parameters).one_or_none()
    return None if found is None else with_gone(*found, last_batch)


def max_up_to(
    stream_id: ColumnElement[int] | InstrumentedAttribute[int],
    query_id: ColumnElement[str] | InstrumentedAttribute[str],
    last_batch: ColumnElement[int],
) -> ScalarSelect[int | None]:
    """Return the SQL for the maximum event time of a query's stored batches up to a last one."""
    batch = aliased(ReportRow)
    return (
        select(batch.max_event_time_us)
        .where(
            batch.stream_id == stream_id,
            batch.query_id == query_id,
            batch.batch_id <= last_batch,
            batch.max_event_time_us.is_not(None),
        )
        .order_by(batch.max_event_time_us.desc())
        .limit(1)
        .scalar_subquery()
    )


_MAX_EVENT_TIME = select(
    max_up_to(bindparam("stream"), bindparam("query"), bindparam("last")),
    QueryRow.gone_batch,
    QueryRow.gone_max_event_time_us,
).where(QueryRow.stream_id == bindparam("stream"), QueryRow.query_id == bindparam("query"))


def with_gone(
    stored: int | None, gone_batch: int | None, gone_max_us: int | None, last_batch: int
) -> int | None:
    """Return the greater of ``stored`` and the maximum of a query's deleted batches, if all of those came before.

    Args:
        stored: maximum event time of the stored batches, in microseconds.
        gone_batch: highest id of the deleted ones; None without any.
        gone_max_us: maximum event time of those, in microseconds.
        last_batch: highest id that counts.
    """
    if gone_batch is None or gone_batch > last_batch:
        return stored
    return max((time_us for time_us in (stored, gone_max_us) if time_us is not None), default=None)


def base_before_ms(session: Session, report: ReportRow) -> int | None:
    """Return the base of all batches before ``report`` in its query, in milliseconds, as far as it is known."""
    stored = max_before_us(session, report.stream_id, report.query_id, report.batch_id - 1)
    return late_base_ms(report.late_base_ms, stored)


def effective_bound_of(session: Session, report: ReportRow) -> int | None:
    """Return the bound that was really in effect in a batch, in milliseconds; None when it is not known."""
    return effective_bound_ms(base_before_ms(session, report), report.watermark_ms)


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
    if newest.operator != WINDOW:
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
