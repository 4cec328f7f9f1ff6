"""What is stored of rows and losses by dimension: counted once, by hour and day, and added up over a window."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.answer import made_of
from tidemark.controller.base.db.tables import LateSlotRow, LateStepRow
from tidemark.controller.reports.store import newest_report
from tidemark.controller.reports.take_reports import StoredReceipt
from tidemark.models.base.target import PPM, format_share
from tidemark.models.base.text import plural
from tidemark.models.evidence.late_counts import (
    BY_PARTITION,
    ByValue,
    LateCounts,
    LossCounts,
    hour_of,
    losses,
    merge,
)
from tidemark.models.evidence.losses import CountedUpTo, LostOfValue, LostSummary, ValueLoss
from tidemark.models.evidence.slots import DAY_US, HOUR_US, edge_us


@dataclass(frozen=True, slots=True, kw_only=True)
class LostInWindow(ByValue):
    """The rows and losses of a window, by value."""

    dimension: str
    """Name of the column."""
    from_us: int
    """Where its first hour begins."""
    to_us: int
    """Where its last hour ends."""


def take_counts(session: Session, stream_id: int, counts: LateCounts, now_us: int) -> StoredReceipt:
    """Count batches of a locked stream, once: batches that overlap counted ones are a repeat.

    No batch was triggered after it was counted: the hour of a driver's clock that is ahead is this one.
    """
    # Those that are stored do not overlap, so that only the last one before the end can.
    before = session.scalars(
        select(LateStepRow)
        .where(
            LateStepRow.stream_id == stream_id,
            LateStepRow.query_id == counts.query_id,
            LateStepRow.first_batch <= counts.last_batch,
        )
        .order_by(LateStepRow.first_batch.desc())
        .limit(1)
    ).one_or_none()
    if before is not None and before.last_batch >= counts.first_batch:
        return StoredReceipt(before.received_us, duplicate=True)
    hour_us = min(counts.hour_us, hour_of(now_us))
    session.add(
        LateStepRow(
            stream_id=stream_id,
            query_id=counts.query_id,
            first_batch=counts.first_batch,
            last_batch=counts.last_batch,
            hour_us=hour_us,
            received_us=now_us,
        )
    )
    for dimension, counted in counts.by_dimension.items():
        for width_us in (HOUR_US, DAY_US):
            _add(session, (stream_id, dimension, width_us, edge_us(hour_us, width_us)), counted)
    return StoredReceipt(now_us, duplicate=False)


def lost_in_window(
    session: Session, stream_id: int, window_ms: int, dimension: str | None = None
) -> LostInWindow | None:
    """Return the rows and losses of a stream up to the newest hour with counts; None without any.

    Args:
        window_ms: how far back from the end of that hour to count, in milliseconds; an hour
            that is part of it counts whole.
        dimension: the dimension; None for the one that was counted last, rather than the partitions beside it.
    """
    table = LateSlotRow
    hours = table.stream_id == stream_id, table.width_us == HOUR_US
    newest = select(table.dimension, table.slot_us).where(*hours)
    if dimension is not None:
        newest = newest.where(table.dimension == dimension)
    order = table.slot_us.desc(), table.dimension == BY_PARTITION, table.dimension
    row = session.execute(newest.order_by(*order).limit(1)).one_or_none()
    if row is None:
        return None
    to_us = row.slot_us + HOUR_US
    from_us = hour_of(to_us - window_ms * 1_000)
    # Whole days are read by the day: a month has 720 hours.
    first_us, last_us = edge_us(from_us + DAY_US - 1, DAY_US), edge_us(to_us, DAY_US)
    if first_us > last_us:
        first_us = last_us = to_us
    slot_us, width_us = table.slot_us, table.width_us
    by_hour = (width_us == HOUR_US) & (slot_us >= from_us) & ((slot_us < first_us) | (slot_us >= last_us))
    by_day = (width_us == DAY_US) & (slot_us >= first_us) & (slot_us < last_us)
    texts = session.scalars(
        select(table.counts).where(
            table.stream_id == stream_id, table.dimension == row.dimension, by_hour | by_day
        )
    )
    return made_of(LostInWindow, _sum(texts), dimension=row.dimension, from_us=from_us, to_us=to_us)


def counted_up_to(session: Session, stream_id: int) -> CountedUpTo | None:
    """Return how far the rows of the stream's newest query are counted by dimension; None without reports."""
    newest = newest_report(session, stream_id)
    if newest is None:
        return None
    last: int | None = session.scalars(
        select(func.max(LateStepRow.last_batch)).where(
            LateStepRow.stream_id == stream_id, LateStepRow.query_id == newest.query_id
        )
    ).one()
    if last is None:
        text = f"no batch is counted yet, of {newest.batch_id:,}"
    elif last >= newest.batch_id:
        text = f"counted up to batch {last:,}, the newest one"
    else:
        text = f"counted up to batch {last:,} of {newest.batch_id:,}; what was lost since then is not in it"
    return CountedUpTo(last, newest.batch_id, text)


def dimensions_of(session: Session, stream_id: int) -> Sequence[str]:
    """Return the dimensions that a stream's rows are counted by."""
    table = LateSlotRow
    return session.scalars(
        select(table.dimension).distinct().where(table.stream_id == stream_id).order_by(table.dimension)
    ).all()


def _add(session: Session, key: tuple[int, str, int, int], counted: ByValue) -> None:
    """Add counts to the slot of a key."""
    slot = session.get(LateSlotRow, key)
    if slot is None:
        names = ("stream_id", "dimension", "width_us", "slot_us")
        session.add(LateSlotRow(**dict(zip(names, key, strict=True)), counts=_written(merge([counted]))))
    else:
        slot.counts = _written(merge([_sum([slot.counts]), counted]))


def _written(counted: ByValue) -> str:
    numbers = [_numbers(counts) for counts in (*counted.values.values(), counted.other)]
    return json.dumps([[*counted.values], numbers], separators=(",", ":"), ensure_ascii=False)


def _numbers(counts: LossCounts) -> list[int | None]:
    sums = counts.rows, counts.late, counts.no_event_time, counts.set_aside
    return [*sums, counts.max_late_ms, *counts.late_by_age]


def _sum(texts: Iterable[str]) -> ByValue:
    """Return the sums of stored counts; as plain numbers, since a month may have a hundred thousand."""
    sums: dict[str | None, list[int]] = {}
    other = [*_NOTHING]
    for text in texts:
        values, numbers = json.loads(text)
        for value, counts in zip(values, numbers, strict=False):
            _increase(sums.setdefault(value, [*_NOTHING]), counts)
        _increase(other, numbers[-1])
    return merge([ByValue({value: _counts(counts) for value, counts in sums.items()}, _counts(other))])


_LATENESS = 4
"""Where the greatest lateness stands among the numbers; the ages come after it, as far as there are any."""
_NOTHING = (0, 0, 0, 0, -1)


def _increase(into: list[int], numbers: list[Any]) -> None:
    lateness = into[_LATENESS]
    into.extend([0] * (len(numbers) - len(into)))
    for index, number in enumerate(numbers):
        into[index] += number or 0
    into[_LATENESS] = lateness if numbers[_LATENESS] is None else max(lateness, numbers[_LATENESS])


def _counts(numbers: list[int]) -> LossCounts:
    rows, late, timeless, aside, lateness, *ages = numbers
    return LossCounts(
        rows=rows,
        late=late,
        no_event_time=timeless,
        set_aside=aside,
        max_late_ms=None if lateness < 0 else lateness,
        late_by_age=tuple(ages),
    )


MAX_SHOWN = 10
"""How many values of a stream are shown: those with most lost rows."""


def lost_summary(session: Session, stream_id: int, window_ms: int) -> LostSummary | None:
    """Return the summary of a stream; None when it has no dimension."""
    lost = lost_in_window(session, stream_id, window_ms)
    if lost is None:
        return None
    values = [loss for loss in losses(lost) if not loss.other]
    partitions = None
    if lost.dimension != BY_PARTITION:
        partitions = lost_in_window(session, stream_id, window_ms, BY_PARTITION)
    return LostSummary(
        lost.dimension,
        _most_lost(values),
        _bias(lost.dimension, [loss for loss in values if loss.biased]),
        () if partitions is None else _most_lost(losses(partitions)),
    )


def _most_lost(values: Sequence[ValueLoss]) -> tuple[LostOfValue, ...]:
    named = [loss for loss in values if not loss.other]
    return tuple(LostOfValue(loss.value, loss.rows, loss.lost) for loss in named[:MAX_SHOWN] if loss.lost)


def _bias(dimension: str, biased: Sequence[ValueLoss]) -> str | None:
    if not biased:
        return None
    worst = max(biased, key=lambda loss: loss.factor_ppm or 0)
    name = "null" if worst.value is None else repr(worst.value)
    text = (
        f"{dimension} {name} loses rows at least {(worst.factor_ppm or 0) / PPM:.1f} times as often as all other rows: "
        f"{_share(worst.lost_ppm)} of its rows, and {_share(worst.of_lost_ppm)} of all lost rows, with "
        f"{_share(worst.of_rows_ppm)} of all rows"
    )
    more = len(biased) - 1
    return f"{text}; {plural(more, 'more value')} {'is' if more == 1 else 'are'} biased" if more else text


def _share(share_ppm: int | None) -> str:
    return format_share(round(share_ppm or 0, -2))
