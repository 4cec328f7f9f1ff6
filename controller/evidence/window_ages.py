"""What is stored of single windows: their rows by age, and what the ledger says of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from sqlalchemy import Executable, func, or_, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import LedgerKeyRow, PartitionRow, ReportRow, WindowAgeRow
from tidemark.controller.reports.store import base_before_ms
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s, Operator, TimeWindow
from tidemark.models.completeness.ages import SLOTS
from tidemark.models.completeness.arrivals import WindowArrivals
from tidemark.models.completeness.silent import PartitionProgress
from tidemark.models.evidence.horizon import key_span_us
from tidemark.models.evidence.ledger import Tally
from tidemark.models.evidence.progress import PartitionTimes
from tidemark.models.evidence.slots import DAY_US, SLOT_US

_KEPT = 600
"""Windows of which ages are kept: three times those that an interval rests on, so that some can be old."""
_LEAST_US = -(2**62)
"""Before all times; windows may be as long as all of them."""
_SEASONS_US = [days * DAY_US for days in (1, 2, 3, 4, 5, 7, 14, 21, 28, 35)]
"""How far back the volume of a day and a week is read: of five days, and of five weeks."""


def kept_from_us(operator: Operator, until_us: int) -> int:
    """Return from which end on the ages of windows are kept, that of the newest being ``until_us``."""
    return max(until_us - _KEPT * step_us(operator), _LEAST_US)


def step_us(operator: Operator) -> int:
    """Return the distance from one key to the next, in microseconds."""
    return operator.slide_us if isinstance(operator, TimeWindow) else key_span_us(operator)


def first_end_us(operator: Operator, time_us: int) -> int:
    """Return the end of the first window that ends after a time."""
    step, end = step_us(operator), key_span_us(operator)
    offset_us = operator.start_us + end if isinstance(operator, TimeWindow) else 0
    return time_us + step - (time_us - offset_us) % step


@dataclass(frozen=True, slots=True)
class StoredWindows:
    """What is stored of a stream's windows."""

    newest: ReportRow
    """The newest batch, as of which it is."""
    arrivals: WindowArrivals
    """Their rows by age."""
    ledger: dict[int, Tally]
    """What the ledger says of each, by its end in microseconds, ascending."""
    partitions: list[PartitionProgress]
    """How far the partitions have come."""


def windows_of(session: Session, newest: ReportRow, gap_us: int | None) -> StoredWindows:
    """Return the windows of which ages are kept.

    Args:
        newest: the report of the stream's newest batch.
        gap_us: the usual time from one batch to the next; None when it is not known.
    """
    stream_id, operator = newest.stream_id, newest.operator
    base_us = min(
        max((base_before_ms(session, newest) or 0) * SPARK_TICK_US, newest.max_event_time_us or 0),
        newest.seen_us + newest.duration_ms * 1_000,
    )
    # The newest window that may have rows ends within its own length.
    until_us = first_end_us(operator, base_us) + key_span_us(operator) - step_us(operator)
    from_us = first_end_us(operator, kept_from_us(operator, until_us))
    ends_us, slots, rows = _columns(
        session,
        select(WindowAgeRow.key_us, WindowAgeRow.slot, WindowAgeRow.rows).where(
            WindowAgeRow.stream_id == stream_id, WindowAgeRow.key_us.between(from_us, until_us)
        ),
        3,
    )
    # Keys of an operator that the stream had before are on another grid.
    same = (ends_us - until_us) % step_us(operator) == 0
    first_us = int(ends_us[same].min(initial=until_us))
    table = np.zeros(((until_us - first_us) // step_us(operator) + 1, SLOTS), np.int64)
    np.add.at(table, ((ends_us[same] - first_us) // step_us(operator), slots[same]), rows[same])
    arrivals = WindowArrivals(
        span_us=key_span_us(operator),
        step_us=step_us(operator),
        first_end_us=first_us,
        base_us=base_us,
        gap_us=gap_us or step_us(operator) // 10,
        rows=table,
        earlier=_earlier(session, stream_id, operator, (first_us, until_us)),
    )
    ledger = session.connection().execute(
        select(LedgerKeyRow.key_us, LedgerKeyRow.rows, LedgerKeyRow.late_min, LedgerKeyRow.late_max)
        .where(LedgerKeyRow.stream_id == stream_id, LedgerKeyRow.key_us.between(from_us, until_us))
        .order_by(LedgerKeyRow.key_us)
    )
    tallies = {key: Tally(*counts) for key, *counts in ledger if (key - until_us) % step_us(operator) == 0}
    return StoredWindows(newest, arrivals, tallies, _partitions(session, stream_id))


def first_known_us(session: Session, stream_id: int) -> int | None:
    """Return the end of the first window of which the ledger says something; None without any."""
    return session.scalar(select(func.min(LedgerKeyRow.key_us)).where(LedgerKeyRow.stream_id == stream_id))


def tally_of(session: Session, stream_id: int, from_us: int, until_us: int) -> Tally:
    """Return what the ledger says of all windows that end in (``from_us``, ``until_us``]."""
    sums = (func.sum(column) for column in (LedgerKeyRow.rows, LedgerKeyRow.late_min, LedgerKeyRow.late_max))
    inside = (LedgerKeyRow.stream_id == stream_id, LedgerKeyRow.key_us > from_us)
    found = session.execute(select(*sums).where(*inside, LedgerKeyRow.key_us <= until_us)).one()
    return Tally(*(int(each or 0) for each in found))


def _earlier(session: Session, stream_id: int, operator: Operator, kept_us: tuple[int, int]) -> Int64s:
    """Return the rows of windows before the first, in order: of those that are seasons before one that is kept.

    There are none where they are too many to read.
    """
    step, (until_us, last_us) = step_us(operator), kept_us
    if step < SLOT_US:
        return np.empty(0, np.int64)
    keys_us, rows = _columns(
        session,
        select(LedgerKeyRow.key_us, LedgerKeyRow.rows).where(
            LedgerKeyRow.stream_id == stream_id,
            LedgerKeyRow.key_us < until_us,
            or_(*(LedgerKeyRow.key_us.between(until_us - back, last_us - back) for back in _SEASONS_US)),
        ),
        2,
    )
    back, rest = np.divmod(until_us - keys_us, step)
    found = np.zeros(int(back.max(initial=0)), np.int64)
    np.add.at(found, len(found) - back[rest == 0], rows[rest == 0])
    return found


def _columns(session: Session, statement: Executable, count: int) -> Sequence[Int64s]:
    rows = session.connection().execute(statement)
    return list(np.fromiter(chain.from_iterable(rows), np.int64).reshape(-1, count).T)


def _partitions(session: Session, stream_id: int) -> list[PartitionProgress]:
    table: Any = PartitionRow.__table__
    rows = session.connection().execute(select(table).where(table.c.stream_id == stream_id)).all()
    # Over the horizon where it is known of all; since they were first seen, else.
    recent = all(row.pairs is not None for row in rows)
    counts = [row.pairs if recent else row.rows for row in rows]
    every = max(sum(counts), 1)
    return [
        PartitionProgress(
            partition=row.partition,
            share=count / every,
            newest_us=row.last_event_time_us,
            behind_us=row.behind_us or 0,
            times=PartitionTimes(row.first_seen_us, row.last_seen_us, row.batches),
        )
        for row, count in zip(rows, counts, strict=True)
    ]
