"""What the state machine of a rollout is told, from the store."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from tidemark.controller.store.failed_bounds import failures_of
from tidemark.controller.store.horizon import horizon_of
from tidemark.controller.store.live import newest_state
from tidemark.controller.store.pins import StandingPin
from tidemark.controller.store.rollouts import fleet_share, narrowed_us, unanswered_us
from tidemark.controller.store.specs import Spec
from tidemark.controller.store.tables import (
    AcknowledgementRow,
    LedgerKeyRow,
    PredictionRow,
    ReportRow,
    RolloutRow,
)
from tidemark.models.curve import Emissions
from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.prediction import Judged
from tidemark.models.rollout.facts import NOTHING_JUDGED, Facts
from tidemark.models.rollout.gate import DAY_US
from tidemark.models.rollout.states import CANDIDATE
from tidemark.models.slo import Policy, Slo

__all__ = ["Rules", "facts_of"]


_Under = tuple[ColumnElement[bool], ...]
"""Conditions that pick the batches in which a rollout was in effect; empty while there are none."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What holds for a stream now."""

    slo: Spec[Slo]
    """What is asked for."""
    policy: Spec[Policy]
    """What is allowed."""
    pin: StandingPin | None
    """The kill switch in force; None for none."""
    share_ppm: int
    """Share of the streams that may be narrowed at once, in parts per million."""


@dataclass(frozen=True, slots=True)
class _Effect:
    """What became of what a rollout tells."""

    acknowledged_us: int | None = None
    effective_us: int | None = None
    judged: Judged = NOTHING_JUDGED
    state_rows: int | None = None


def facts_of(session: Session, row: RolloutRow, rules: Rules, now_us: int, *, lock: bool) -> Facts:
    """Return the facts about a rollout.

    Args:
        session: the session.
        row: the rollout.
        rules: what holds for its stream.
        now_us: the wall time in microseconds.
        lock: whether what follows is written in this transaction.
    """
    newest = _newest(session, row.stream_id)
    told = _last_acknowledged_us(session, row.stream_id)
    heard = None if newest is None else newest_state(session, newest).live
    heard_us = None if heard is None else heard.heard_us
    known = [at_us for at_us in (told, None if newest is None else newest.received_us) if at_us is not None]
    policy = rules.policy.value
    if row.state in CANDIDATE:
        since_us = now_us - max(policy.dwell_ms * 1_000, DAY_US)
        narrows = row.direction == "Narrow" and not row.first
        narrowing, most = (
            fleet_share(session, row.stream_id, rules.share_ppm, lock=lock) if narrows else (0, 1)
        )
        return Facts(
            policy=policy,
            slo=rules.slo.value,
            pinned=None if rules.pin is None else rules.pin.why,
            heard_us=max(known, default=None),
            unanswered_us=unanswered_us(session, row.stream_id, max(told or 0, heard_us or 0)),
            failures=failures_of(
                session, row.stream_id, rules.slo.generation, rules.policy.generation, now_us
            ),
            narrowed_us=narrowed_us(session, row.stream_id, since_us),
            fleet_narrowing=narrowing,
            fleet_most=most,
        )
    found = (
        _live_effect(session, row, newest, heard_us) if row.mode == "Live" else _effect(session, row, newest)
    )
    effect, under = found
    timed = rules.slo.value.latency_cap_ms is not None and under
    return Facts(
        policy=policy,
        slo=rules.slo.value,
        pinned=None if rules.pin is None else rules.pin.why,
        acknowledged_us=effect.acknowledged_us,
        effective_us=effect.effective_us,
        judged=effect.judged,
        latency_us=_latency_us(session, row.stream_id, under) if timed else None,
        state_rows=effect.state_rows,
    )


def _newest(session: Session, stream_id: int) -> ReportRow | None:
    horizon = horizon_of(session, stream_id, 0)
    return None if horizon is None else horizon.newest


def _last_acknowledged_us(session: Session, stream_id: int) -> int | None:
    return session.scalars(
        select(func.max(AcknowledgementRow.received_us)).where(AcknowledgementRow.stream_id == stream_id)
    ).one()


def _effect(session: Session, row: RolloutRow, newest: ReportRow | None) -> tuple[_Effect, _Under]:
    """Return what became of a rollout where a bound is taken at a start."""
    assert row.generation is not None
    acknowledged_us = row.acknowledged_us or _acknowledged_us(session, row)
    if acknowledged_us is None:
        return _Effect(), ()
    if row.to_bound_ms is None:
        own = (
            ReportRow.stream_id == row.stream_id,
            ReportRow.generation.is_(None),
            ReportRow.seen_us >= (row.published_us or 0),
        )
        return _since(session, row, newest, acknowledged_us, own)
    prediction = session.get(PredictionRow, (row.stream_id, row.generation))
    since_us = None if prediction is None else prediction.became_effective_us
    if prediction is None or since_us is None:
        return _Effect(acknowledged_us, row.effective_us), ()
    under = (
        ReportRow.stream_id == row.stream_id,
        ReportRow.generation == row.generation,
        ReportRow.seen_us >= since_us,
    )
    judged = Judged(prediction.judged_rows, prediction.judged_late_least, prediction.judged_late_most)
    return _Effect(acknowledged_us, since_us, judged, _state(newest, row)), under


def _live_effect(
    session: Session, row: RolloutRow, newest: ReportRow | None, heard_us: int | None
) -> tuple[_Effect, _Under]:
    """Return what became of a rollout in Live, where a job takes up whatever it hears and says when it heard last."""
    published_us = row.published_us or 0
    acknowledged_us = row.acknowledged_us or _acknowledged_us(session, row)
    if acknowledged_us is None and heard_us is not None and heard_us >= published_us:
        acknowledged_us = heard_us
    if acknowledged_us is None or newest is None:
        return _Effect(acknowledged_us), ()
    if row.effective_us is None:
        # The batch that said it had heard of it was still steered by what came before.
        later = newest.seen_us > acknowledged_us
        return _Effect(acknowledged_us, newest.seen_us if later else None), ()
    under = (ReportRow.stream_id == row.stream_id, ReportRow.seen_us > row.effective_us)
    return _since(session, row, newest, acknowledged_us, under)


def _since(
    session: Session,
    row: RolloutRow,
    newest: ReportRow | None,
    acknowledged_us: int,
    under: _Under,
) -> tuple[_Effect, _Under]:
    """Return what became of a rollout by the batches that ``under`` picks."""
    first_us, pairs, least, most = session.execute(
        select(
            func.min(ReportRow.seen_us),
            func.sum(ReportRow.pairs),
            func.sum(ReportRow.late_least),
            func.sum(ReportRow.late_most),
        ).where(*under)
    ).one()
    # PostgreSQL sums to an exact decimal, and nothing to null.
    judged = Judged(int(pairs or 0), int(least or 0), int(most or 0))
    rows = None if newest is None else newest.state_rows
    return _Effect(acknowledged_us, row.effective_us or first_us, judged, rows), under


def _acknowledged_us(session: Session, row: RolloutRow) -> int | None:
    """Return when it was first known that the job has what a rollout tells; by an acknowledgement or a report."""
    told, ran = AcknowledgementRow, ReportRow
    since_us = row.published_us or 0
    acknowledged: ColumnElement[bool] = told.generation == row.generation
    reported: ColumnElement[bool] = ran.generation == row.generation
    if row.to_bound_ms is None:
        acknowledged = told.generation.is_(None) & (told.received_us >= since_us)
        reported = ran.generation.is_(None) & (ran.seen_us >= since_us)
    elif row.mode != "Live":
        # The same bound may have another generation by now; in Live the bound says nothing of the envelope.
        same = (
            told.generation.is_not(None) & (told.bound_ms == row.to_bound_ms) & (told.received_us >= since_us)
        )
        acknowledged = or_(acknowledged, same)
    of_told = select(func.min(told.received_us)).where(told.stream_id == row.stream_id, acknowledged)
    of_ran = select(func.min(ran.received_us)).where(ran.stream_id == row.stream_id, reported)
    found: list[int | None] = [session.scalars(of_told).one(), session.scalars(of_ran).one()]
    return min((at_us for at_us in found if at_us is not None), default=None)


def _state(newest: ReportRow | None, row: RolloutRow) -> int | None:
    return newest.state_rows if newest is not None and newest.generation == row.generation else None


def _latency_us(session: Session, stream_id: int, under: _Under) -> float | None:
    """Return the mean wall latency of the windows that closed in the batches that ``under`` picks; None without any.

    Only windows that the first of them had not closed count: those closed under what was told before.
    """
    batches = session.execute(
        select(ReportRow.watermark_ms, ReportRow.started_us, ReportRow.duration_ms, ReportRow.operator)
        .where(*under)
        .order_by(ReportRow.seen_us, ReportRow.batch_id)
    ).all()
    if not batches or batches[-1].operator != "window":
        return None
    marks_us = np.maximum.accumulate(
        np.array([row.watermark_ms * SPARK_TICK_US for row in batches], np.int64)
    )
    walls_us = np.array([row.started_us + row.duration_ms * 1_000 for row in batches], np.int64)
    ends = session.scalars(
        select(LedgerKeyRow.key_us)
        .where(
            LedgerKeyRow.stream_id == stream_id,
            LedgerKeyRow.key_us > int(marks_us[0]),
            LedgerKeyRow.key_us <= int(marks_us[-1]),
        )
        .order_by(LedgerKeyRow.key_us)
    ).all()
    latency = Emissions(np.array(ends, np.int64), marks_us, walls_us).latency(0)[1]
    return None if latency is None else latency.measured_us
