"""A stream's data over a horizon: evidence, completeness, coverage, and emissions.

The database finds and sums; ``tidemark.models.horizon`` defines what counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

import numpy as np
from sqlalchemy import ColumnElement, ScalarSelect, bindparam, func, select
from sqlalchemy.orm import Session, aliased

from tidemark.controller.db.tables import LedgerKeyRow, PartitionRow, QueryRow, ReportRow
from tidemark.controller.evidence.hourly_sums import sums_in
from tidemark.controller.evidence.needs import Span
from tidemark.controller.reports.store import newest_report
from tidemark.models.curve import Emissions
from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.horizon import (
    STEP_COLUMNS,
    UNKNOWN,
    HorizonFacts,
    emission_steps,
    facts_of,
    horizon_from_us,
)
from tidemark.models.late_base import effective_bound_ms, late_base_ms

_WINDOW = "window"
"""``kind`` of the operator that has windows."""


@dataclass(frozen=True, slots=True)
class Horizon:
    """The batches that count, from the edge of the first slot to the newest batch."""

    stream_id: int
    """The stream."""
    from_us: int
    """Start, the edge of a slot, in microseconds."""
    newest: ReportRow
    """The newest batch."""

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
    return Horizon(stream_id, horizon_from_us(newest.seen_us, horizon_ms), newest)


def facts(session: Session, horizon: Horizon) -> HorizonFacts:
    """Return the sums over the horizon."""
    found = sums_in(session, horizon.span)
    assert found is not None, "a horizon holds its newest batch"
    return facts_of(
        found.sums,
        batches=found.batches,
        from_us=found.from_us,
        to_us=found.to_us,
        keys_per_row=found.keys_per_row,
        partitions=session.scalars(
            select(func.count())
            .select_from(PartitionRow)
            .where(PartitionRow.stream_id == horizon.stream_id, PartitionRow.last_seen_us >= horizon.from_us)
        ).one(),
        batches_of=found.batches_of,
    )


def max_before_us(session: Session, stream_id: int, query_id: str, last_batch: int) -> int | None:
    """Return the maximum event time of a query's batches up to ``last_batch``, deleted ones too; None without any."""
    parameters = {"stream": stream_id, "query": query_id, "last": last_batch}
    stored = session.scalars(_MAX_EVENT_TIME, parameters).one()
    query = session.get(QueryRow, (stream_id, query_id))
    gone = (None, None) if query is None else (query.gone_batch, query.gone_max_event_time_us)
    return with_gone(stored, *gone, last_batch)


def max_up_to(last: str) -> ScalarSelect[int | None]:
    """Return the SQL for the maximum event time of a query's stored batches up to a last one.

    Its bind parameters are ``stream``, ``query``, and one for the last batch, which ``last`` names.
    """
    batch = aliased(ReportRow)
    return (
        select(batch.max_event_time_us)
        .where(
            batch.stream_id == bindparam("stream"),
            batch.query_id == bindparam("query"),
            batch.batch_id <= bindparam(last),
            batch.max_event_time_us.is_not(None),
        )
        .order_by(batch.max_event_time_us.desc())
        .limit(1)
        .scalar_subquery()
    )


_MAX_EVENT_TIME = select(max_up_to("last"))


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
    return session.scalars(
        select(
            select(LedgerKeyRow.key_us)
            .where(LedgerKeyRow.stream_id == newest.stream_id, LedgerKeyRow.key_us > watermark_us)
            .exists()
        )
    ).one()


def emissions(session: Session, horizon: Horizon) -> Emissions | None:
    """Return when windows would have been emitted, over the batches of the newest query in the horizon.

    None for operators without windows.
    """
    return emissions_in(session, horizon.span, horizon.newest)


def emissions_in(session: Session, span: Span, newest: ReportRow) -> Emissions | None:
    """Return when windows would have been emitted, over the batches in a span of the query of its newest one.

    None for operators without windows.
    """
    if newest.operator != _WINDOW:
        return None
    columns = (func.coalesce(getattr(ReportRow, name), UNKNOWN) for name in STEP_COLUMNS)
    # Thousands of rows: the session would wrap each.
    rows = session.connection().execute(
        select(ReportRow.batch_id, *columns)
        .where(*span.reports, ReportRow.query_id == newest.query_id)
        .order_by(ReportRow.batch_id)
    )
    # numpy would check each row for being an array.
    flat = np.fromiter(chain.from_iterable(rows.fetchall()), np.int64)
    batches = flat.reshape(-1, 1 + len(STEP_COLUMNS))
    first, reported_ms = int(batches[0, 0]), int(batches[0, 1 + STEP_COLUMNS.index("late_base_ms")])
    before_us = max_before_us(session, span.stream_id, newest.query_id, first - 1)
    before_ms = late_base_ms(None if reported_ms == UNKNOWN else reported_ms, before_us)
    steps = emission_steps(batches[:, 1:], None if before_ms is None else before_ms * SPARK_TICK_US)
    return steps.emissions(_keys_in(session, span.stream_id, steps.after_us, steps.until_us))


def _keys_in(session: Session, stream_id: int, after_us: int, until_us: int) -> list[int]:
    """Return the keys of the ledger in (``after_us``, ``until_us``], ascending."""
    key_us = LedgerKeyRow.key_us
    statement = select(key_us).where(
        LedgerKeyRow.stream_id == stream_id, key_us > after_us, key_us <= until_us
    )
    return list(session.scalars(statement.order_by(key_us)))
