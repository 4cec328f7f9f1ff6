"""What became of the bound that a rollout published: the batches under it, the rows at risk, and the latency.

A publication carries the rollout whose bound it is, and keeps it when the same bound is published again: after a pin,
under another mode, after the rollback of what followed. So a batch leads by its generation to what was published, and
from there to the rollout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from sqlalchemy import ColumnElement, and_, bindparam, func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import (
    BY_BOUND,
    AcknowledgementRow,
    LedgerKeyRow,
    PredictionRow,
    PublishedRow,
    ReportRow,
    RolloutRow,
)
from tidemark.controller.control.bounds.publication import SteeredStream
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import TimeWindow
from tidemark.models.evidence.curve import Emissions, latency_of
from tidemark.models.rollout.evidence import Judged
from tidemark.models.rollout.states import RolloutEffect
from tidemark.models.rollout.verification import needed_event_us

Under = tuple[ColumnElement[bool], ...]
"""Conditions that pick the batches in which a rollout was in effect; empty while there are none."""


_MOST_AWAY = 200
"""Maximum number of times at which batches do not count that are told apart; what was before the newest of them does
not count at all. Databases limit how many conditions a statement may have."""


class _Ran(Protocol):
    """What a report says a batch ran with."""

    @property
    def generation(self) -> int | None: ...
    @property
    def bound_ms(self) -> int: ...
    @property
    def seen_us(self) -> int: ...


@dataclass(frozen=True, slots=True)
class RolloutBatches:
    """The batches and acknowledgements of a rollout that was published."""

    stream_id: int
    generations: tuple[int, ...]
    """Generations that carry it, ascending."""
    bound_ms: int | None
    """Its bound in milliseconds; None: the job's own."""
    live: bool
    """Whether it is one in Live, where the generation of a batch is that of its start and tells nothing."""
    away: tuple[tuple[int, int | None], ...]
    """Times at which its batches do not count, in microseconds, from and until; None: until now.

    Those are the pins. In Live, and for the job's own bound, which has no generation, it is all that was published
    besides.
    """

    def have(self, batch: _Ran) -> bool:
        """Return whether a batch ran under the rollout."""
        if any(
            from_us <= batch.seen_us and (until_us is None or batch.seen_us < until_us)
            for from_us, until_us in self.away
        ):
            return False
        if self.live:
            return True
        if self.bound_ms is None:
            return batch.generation is None
        return batch.generation in self.generations and batch.bound_ms == self.bound_ms

    @property
    def reports(self) -> tuple[ColumnElement[bool], ...]:
        """The same as conditions on reports."""
        seen_us = ReportRow.seen_us
        away = (
            (seen_us < from_us) if until_us is None else (seen_us < from_us) | (seen_us >= until_us)
            for from_us, until_us in self.away
        )
        return (ReportRow.stream_id == self.stream_id, *self._taken(ReportRow, live=self.live), *away)

    @property
    def acknowledgements(self) -> tuple[ColumnElement[bool], ...]:
        """Conditions on the acknowledgements of what carries it."""
        return (AcknowledgementRow.stream_id == self.stream_id, *self._taken(AcknowledgementRow, live=False))

    @property
    def given_in_reports(self) -> tuple[ColumnElement[bool], ...]:
        """Conditions on the reports of runs that were given what carries it, in Live too."""
        return (ReportRow.stream_id == self.stream_id, *self._taken(ReportRow, live=False))

    def _taken(self, table: Any, *, live: bool) -> tuple[ColumnElement[bool], ...]:
        if live:
            return ()
        if self.bound_ms is None:
            return (table.generation.is_(None),)
        found = (table.generation.in_(self.generations),)
        # In Live the bound of a plan is its ceiling.
        return found if self.live else (*found, table.bound_ms == self.bound_ms)


def read_batches(session: Session, row: RolloutRow) -> RolloutBatches:
    """Return the batches of a rollout that was published."""
    published = session.connection().execute(_SINCE, {"stream": row.stream_id, "first": row.generation}).all()
    live, timed = row.mode == "Live", row.mode == "Live" or row.to_bound_ms is None
    away: list[tuple[int, int | None]] = []
    # Before it was published nothing ran under it.
    if timed and published:
        away.append((0, published[0].published_us))
    untils = [each.published_us for each in published[1:]]
    for each, until_us in zip(published, [*untils, None], strict=True):
        carried = each.rollout_id == row.id
        if each.pin is not None or (timed and not carried):
            away.append((each.published_us, until_us))
    generations = tuple(each.generation for each in published if each.rollout_id == row.id)
    if len(away) > _MOST_AWAY:
        away = [(0, away[-_MOST_AWAY][1]), *away[1 - _MOST_AWAY :]]
    return RolloutBatches(row.stream_id, generations, row.to_bound_ms, live, tuple(away))


# Built once: building it takes longer than running it.
_SINCE = (
    select(PublishedRow.generation, PublishedRow.published_us, PublishedRow.pin, PublishedRow.rollout_id)
    .where(PublishedRow.stream_id == bindparam("stream"), PublishedRow.generation >= bindparam("first"))
    .order_by(PublishedRow.generation)
)


def read_effect(
    stream: SteeredStream, row: RolloutRow, last_contact_us: int | None
) -> tuple[RolloutEffect, Under]:
    """Return what became of a rollout that was published, and the batches in which it was in effect.

    Args:
        last_contact_us: when the driver of a job in Live last reached the controller; None when that is not known.
    """
    batches = read_batches(stream.session, row)
    acknowledged_us = row.acknowledged_us or _acknowledged_us(stream.session, row, batches)
    if row.mode == "Live":
        # The job applies each answer and reports its last contact.
        if (
            acknowledged_us is None
            and last_contact_us is not None
            and last_contact_us >= (row.published_us or 0)
        ):
            acknowledged_us = last_contact_us
        return _live_effect(stream, row, batches, acknowledged_us)
    if acknowledged_us is None:
        return RolloutEffect(), ()
    if row.to_bound_ms is None:
        return _since(stream, row, acknowledged_us, batches.reports)
    found = stream.session.scalars(
        select(PredictionRow).where(
            PredictionRow.stream_id == row.stream_id,
            PredictionRow.generation.in_(batches.generations),
            PredictionRow.became_effective_us.is_not(None),
        )
    ).all()
    if not found:
        return RolloutEffect(acknowledged_us, row.effective_us), ()
    since_us = min(each.became_effective_us or 0 for each in found)
    judged = Judged(
        sum(each.judged.rows for each in found),
        sum(each.judged.late_min for each in found),
        sum(each.judged.late_max for each in found),
    )
    newest = stream.newest
    state_rows = newest.state_rows if newest is not None and batches.have(newest) else None
    under = (*batches.reports, ReportRow.seen_us >= since_us)
    return RolloutEffect(acknowledged_us, since_us, judged, state_rows), under


def _live_effect(
    stream: SteeredStream, row: RolloutRow, batches: RolloutBatches, acknowledged_us: int | None
) -> tuple[RolloutEffect, Under]:
    newest = stream.newest
    if acknowledged_us is None or newest is None:
        return RolloutEffect(acknowledged_us), ()
    if row.effective_us is None:
        # The batch that acknowledged it still ran with the bound before.
        later = newest.seen_us > acknowledged_us
        return RolloutEffect(acknowledged_us, newest.seen_us if later else None), ()
    return _since(stream, row, acknowledged_us, (*batches.reports, ReportRow.seen_us > row.effective_us))


def _since(
    stream: SteeredStream, row: RolloutRow, acknowledged_us: int, under: Under
) -> tuple[RolloutEffect, Under]:
    """Return what became of a rollout by the batches that ``under`` picks."""
    first_us, *sums = stream.session.execute(
        select(func.min(ReportRow.seen_us), *map(func.sum, BY_BOUND)).where(*under)
    ).one()
    # PostgreSQL sums to an exact decimal, and nothing to null.
    judged = Judged(*(int(number or 0) for number in sums))
    rows = None if stream.newest is None else stream.newest.state_rows
    return RolloutEffect(acknowledged_us, row.effective_us or first_us, judged, rows), under


def _acknowledged_us(session: Session, row: RolloutRow, batches: RolloutBatches) -> int | None:
    """Return when an acknowledgement or a report first showed that the job has a rollout's bound."""
    ack, report = AcknowledgementRow, ReportRow
    since_us = row.published_us or 0
    acknowledged, reported = and_(*batches.acknowledgements), and_(*batches.given_in_reports)
    if row.to_bound_ms is None:
        acknowledged &= ack.received_us >= since_us
        reported &= report.seen_us >= since_us
    elif row.mode != "Live":
        # The job may have the same bound by an earlier generation. In Live, equal bounds may have different envelopes.
        same = ack.generation.is_not(None) & (ack.bound_ms == row.to_bound_ms) & (ack.received_us >= since_us)
        acknowledged |= (ack.stream_id == row.stream_id) & same
    found: list[int | None] = [
        session.scalars(select(func.min(ack.received_us)).where(acknowledged)).one(),
        session.scalars(select(func.min(report.received_us)).where(reported)).one(),
    ]
    return min((at_us for at_us in found if at_us is not None), default=None)


def count_at_risk(stream: SteeredStream, row: RolloutRow) -> None:
    """Add the reports since the last count to a rollout's rows at risk; the stream is locked."""
    if row.at_risk_from_ms is None:
        _begin_to_count(stream, row)
    from_ms, effective_ms = row.at_risk_from_ms, row.effective_watermark_ms or 0
    assert from_ms is not None, "counting has begun"
    new = (
        stream.session.connection()
        .execute(_NEW, {"stream": row.stream_id, "after": row.counted_report_id})
        .all()
    )
    if not new:
        return
    row.counted_report_id = new[-1].id
    batches = read_batches(stream.session, row)
    ran = [report for report in new if batches.have(report)]
    at_risk = [each for each in ran if each.late_watermark_ms is None or each.late_watermark_ms > from_ms]
    unknown = sum(report.unknown for report in at_risk)
    row.at_risk = Judged(
        row.at_risk.rows + sum(report.pairs for report in at_risk) + unknown,
        row.at_risk.late_min + sum(report.late_min for report in at_risk),
        row.at_risk.late_max + sum(report.late_max for report in at_risk) + unknown,
    )
    passed_ms = (min(each.watermark_ms, each.latest_us // SPARK_TICK_US) for each in ran)
    row.event_ms = max([row.event_ms, *(watermark_ms - effective_ms for watermark_ms in passed_ms)])


# Built once: building it takes longer than running it.
_NEW = (
    select(
        ReportRow.id,
        ReportRow.generation,
        ReportRow.bound_ms,
        ReportRow.seen_us,
        ReportRow.watermark_ms,
        ReportRow.late_watermark_ms,
        ReportRow.latest_us,
        (ReportRow.unjudged_rows * ReportRow.keys_per_row).label("unknown"),
        *BY_BOUND,
    )
    .where(ReportRow.stream_id == bindparam("stream"), ReportRow.id > bindparam("after"))
    .order_by(ReportRow.id)
)


def _begin_to_count(stream: SteeredStream, row: RolloutRow) -> None:
    """Set the watermark from which on rows are at risk under a rollout that has taken effect."""
    session, newest = stream.session, stream.newest
    assert newest is not None, "a rollout takes effect by a report"
    since = (ReportRow.seen_us >= row.effective_us, *read_batches(session, row).reports)
    in_order = select(ReportRow).where(*since).order_by(ReportRow.seen_us, ReportRow.batch_id)
    first = session.scalars(in_order.limit(1)).one_or_none() or newest
    span_us = newest.operator.span_us
    own_ms = row.in_use_bound_ms if row.from_bound_ms is None else row.from_bound_ms
    row.effective_watermark_ms = first.watermark_ms
    row.at_risk_from_ms = first.watermark_ms + -(-span_us // SPARK_TICK_US)
    row.counted_report_id = first.id
    row.needed_event_ms = needed_event_us(span_us, own_ms, row.to_bound_ms) // 1_000


def read_latency_us(stream: SteeredStream, under: Under) -> float | None:
    """Return the mean wall latency of the windows that closed in the batches that ``under`` picks; None without any.

    Windows that the first of them had closed do not count: they closed under the bound before.
    """
    batches = stream.session.execute(
        select(ReportRow.watermark_ms, ReportRow.started_us, ReportRow.duration_ms, ReportRow.operator)
        .where(*under)
        .order_by(ReportRow.seen_us, ReportRow.batch_id)
    ).all()
    if not batches or not isinstance(batches[-1].operator, TimeWindow):
        return None
    marks_us = np.maximum.accumulate(
        np.array([row.watermark_ms * SPARK_TICK_US for row in batches], np.int64)
    )
    walls_us = np.array([row.started_us + row.duration_ms * 1_000 for row in batches], np.int64)
    ends = stream.session.scalars(
        select(LedgerKeyRow.key_us)
        .where(
            LedgerKeyRow.stream_id == stream.id,
            LedgerKeyRow.key_us > int(marks_us[0]),
            LedgerKeyRow.key_us <= int(marks_us[-1]),
        )
        .order_by(LedgerKeyRow.key_us)
    ).all()
    wall = Emissions(np.array(ends, np.int64), marks_us, walls_us).latency(0)[1]
    latency = None if wall is None else latency_of(wall, stream.downstream, 0)
    return None if latency is None else latency.measured_us
