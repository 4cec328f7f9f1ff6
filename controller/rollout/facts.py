"""The facts that a rollout's state machine decides on, read from the store."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from sqlalchemy import ColumnElement, and_, bindparam, func, select
from sqlalchemy.orm import Session

from tidemark.controller.bounds.acknowledgements import downstream_of
from tidemark.controller.bounds.publication import last_published
from tidemark.controller.db.tables import (
    BY_BOUND,
    AcknowledgementRow,
    LedgerKeyRow,
    PredictionRow,
    ReportBodyRow,
    ReportRow,
    RolloutRow,
)
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.controller.evidence.needs import Span
from tidemark.controller.intake.stored_bodies import stored_report
from tidemark.controller.rollout.batches import RolloutBatches, batches_of
from tidemark.controller.rollout.failed_bounds import failures_of
from tidemark.controller.rollout.rules import RolloutRules
from tidemark.controller.rollout.store import (
    fleet_share,
    gate_answers_of,
    narrowed_us,
    published_before,
    unanswered_us,
    verified_narrowing,
)
from tidemark.controller.stream_state.live import newest_state
from tidemark.models.base.granules import SPARK_TICK_US
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.curve import Emissions, latency_of
from tidemark.models.rollout.evidence import EvidenceSpan, Judged, evidence_span
from tidemark.models.rollout.gate import DAY_US
from tidemark.models.rollout.states import CANDIDATE, NOTHING_JUDGED, RolloutFacts
from tidemark.models.rollout.verification import needed_event_us

_Under = tuple[ColumnElement[bool], ...]
"""Conditions that pick the batches in which a rollout was in effect; empty while there are none."""


@dataclass(frozen=True, slots=True)
class _Effect:
    """What became of the bound that a rollout published."""

    acknowledged_us: int | None = None
    effective_us: int | None = None
    judged: Judged = NOTHING_JUDGED
    state_rows: int | None = None


def facts_of(
    session: Session, row: RolloutRow, rules: RolloutRules, now_us: int, *, lock: bool
) -> RolloutFacts:
    """Return the facts about a rollout.

    Args:
        session: the session.
        row: the rollout.
        rules: the rules of its stream.
        now_us: the wall time in microseconds.
        lock: whether this transaction writes what follows from them.
    """
    policy, slo = rules.policy.value, rules.slo.value
    pinned = None if rules.pin is None else rules.pin.why
    if row.state == "Verified":
        return RolloutFacts(policy=policy, slo=slo, pinned=pinned, at_risk=_at_risk(row))
    answers = gate_answers_of(row.gate_answers)
    newest = _newest(session, row.stream_id)
    last_ack_us = _last_acknowledged_us(session, row.stream_id)
    live = None if newest is None else newest_state(session, newest).live
    last_contact_us = None if live is None else live.last_contact_us
    known = [
        at_us for at_us in (last_ack_us, None if newest is None else newest.received_us) if at_us is not None
    ]
    if row.state in CANDIDATE:
        since_us = now_us - max(policy.cooldown_ms * 1_000, DAY_US)
        narrowing, maximum = 0, 1
        if rules.fleet is not None and row.direction == "Narrow" and not row.first:
            narrowing, maximum = fleet_share(session, row.stream_id, rules.fleet.narrowing_ppm, lock=lock)
        published = last_published(session, row.stream_id, pinned=False) if policy.gates else None
        return RolloutFacts(
            policy=policy,
            slo=slo,
            pinned=pinned,
            last_contact_us=max(known, default=None),
            unanswered_us=unanswered_us(session, row.stream_id, max(last_ack_us or 0, last_contact_us or 0)),
            failures=failures_of(
                session, row.stream_id, rules.slo.generation, rules.policy.generation, now_us
            ),
            evidence=_evidence(session, row, rules, newest),
            published_before=published_before(session, row.stream_id),
            narrowed_us=narrowed_us(session, row.stream_id, since_us, row.to_bound_ms),
            fleet_narrowing=narrowing,
            fleet_max=maximum,
            published_ms=None if published is None else published.bound_ms,
            gate_answers=answers,
        )
    found = (
        _live_effect(session, row, newest, last_contact_us)
        if row.mode == "Live"
        else _effect(session, row, newest)
    )
    effect, under = found
    timed = slo.latency_cap_ms is not None and under
    return RolloutFacts(
        policy=policy,
        slo=slo,
        pinned=pinned,
        acknowledged_us=effect.acknowledged_us,
        effective_us=effect.effective_us,
        judged=effect.judged,
        at_risk=_at_risk(row),
        event_us=row.event_ms * 1_000,
        latency_us=_latency_us(session, row.stream_id, under) if timed else None,
        state_rows=effect.state_rows,
        gate_answers=answers,
    )


def _at_risk(row: RolloutRow) -> Judged:
    return Judged(row.at_risk_rows, row.at_risk_late_min, row.at_risk_late_max)


def count_at_risk(session: Session, row: RolloutRow) -> None:
    """Add the reports since the last count to a rollout's rows at risk; the stream is locked."""
    if row.at_risk_from_ms is None:
        _begin_to_count(session, row)
    from_ms, effective_ms = row.at_risk_from_ms, row.effective_watermark_ms or 0
    assert from_ms is not None, "counting has begun"
    new = session.connection().execute(_NEW, {"stream": row.stream_id, "after": row.counted_report_id}).all()
    if not new:
        return
    row.counted_report_id = new[-1].id
    batches = batches_of(session, row)
    ran = [report for report in new if batches.have(report)]
    at_risk = [
        each for each in ran if each.late_watermark_ms is not None and each.late_watermark_ms > from_ms
    ]
    row.at_risk_rows += sum(report.pairs for report in at_risk)
    row.at_risk_late_min += sum(report.late_min for report in at_risk)
    row.at_risk_late_max += sum(report.late_max for report in at_risk)
    row.event_ms = max([row.event_ms, *(report.watermark_ms - effective_ms for report in ran)])


# Built once: building it takes longer than running it.
_NEW = (
    select(
        ReportRow.id,
        ReportRow.generation,
        ReportRow.bound_ms,
        ReportRow.seen_us,
        ReportRow.watermark_ms,
        ReportRow.late_watermark_ms,
        *BY_BOUND,
    )
    .where(ReportRow.stream_id == bindparam("stream"), ReportRow.id > bindparam("after"))
    .order_by(ReportRow.id)
)


def _begin_to_count(session: Session, row: RolloutRow) -> None:
    """Set the watermark from which on rows are at risk under a rollout that has taken effect."""
    newest = _newest(session, row.stream_id)
    assert newest is not None, "a rollout takes effect by a report"
    since = (ReportRow.seen_us >= row.effective_us, *batches_of(session, row).reports)
    in_order = select(ReportRow).where(*since).order_by(ReportRow.seen_us, ReportRow.batch_id)
    first = session.scalars(in_order.limit(1)).one_or_none() or newest
    span_us = _span_us(session, newest)
    own_ms = row.in_use_bound_ms if row.from_bound_ms is None else row.from_bound_ms
    row.effective_watermark_ms = first.watermark_ms
    row.at_risk_from_ms = first.watermark_ms + -(-span_us // SPARK_TICK_US)
    row.counted_report_id = first.id
    row.needed_event_ms = needed_event_us(span_us, own_ms, row.to_bound_ms) // 1_000


def _span_us(session: Session, newest: ReportRow) -> int:
    """Return the length of the operator's windows, in microseconds; 0 when the report itself is aged out."""
    stored = session.get(ReportBodyRow, newest.id)
    return 0 if stored is None else stored_report(stored.body).operator.span_us


def _evidence(
    session: Session, row: RolloutRow, rules: RolloutRules, newest: ReportRow | None
) -> EvidenceSpan | None:
    """Return the evidence for a first narrowing; None for other rollouts, and for one that has passed this gate."""
    first = row.direction == "Narrow" and not verified_narrowing(session, row.stream_id)
    if not first or row.state != "Recommended" or newest is None:
        return None
    horizon_ms, span_us = rules.slo.value.horizon_ms, _span_us(session, newest)
    horizon = horizon_of(session, row.stream_id, horizon_ms)
    assert horizon is not None
    nothing = np.empty(0, np.int64)
    found = evidence_span(rules.policy.value, span_us, horizon_ms, nothing, nothing)
    if found is None:
        return None
    # There may be thousands of batches. Without a pause in the reports the newest ones are enough.
    for from_us in (max(newest.seen_us - 2 * found.needed_us, horizon.from_us), horizon.from_us):
        batches = _watched(session, Span(row.stream_id, from_us))
        found = evidence_span(rules.policy.value, span_us, horizon_ms, *batches)
        if found is None or found.covered_us >= found.needed_us:
            break
    return found


def _watched(session: Session, span: Span) -> tuple[Int64s, Int64s]:
    """Return when the batches of a span with judged rows were triggered, and their maximum event times."""
    rows = session.connection().execute(
        select(ReportRow.seen_us, ReportRow.max_event_time_us)
        .where(*span.reports, ReportRow.pairs > 0, ReportRow.max_event_time_us.is_not(None))
        .order_by(ReportRow.seen_us)
    )
    batches = np.array([tuple(row) for row in rows], np.int64).reshape(-1, 2)
    return batches[:, 0], batches[:, 1]


def _newest(session: Session, stream_id: int) -> ReportRow | None:
    horizon = horizon_of(session, stream_id, 0)
    return None if horizon is None else horizon.newest


def _last_acknowledged_us(session: Session, stream_id: int) -> int | None:
    return session.scalars(
        select(func.max(AcknowledgementRow.received_us)).where(AcknowledgementRow.stream_id == stream_id)
    ).one()


def _effect(session: Session, row: RolloutRow, newest: ReportRow | None) -> tuple[_Effect, _Under]:
    """Return what became of a rollout where a bound is taken at a start."""
    batches = batches_of(session, row)
    acknowledged_us = row.acknowledged_us or _acknowledged_us(session, row, batches)
    if acknowledged_us is None:
        return _Effect(), ()
    if row.to_bound_ms is None:
        return _since(session, row, newest, acknowledged_us, batches.reports)
    found = session.scalars(
        select(PredictionRow).where(
            PredictionRow.stream_id == row.stream_id,
            PredictionRow.generation.in_(batches.generations),
            PredictionRow.became_effective_us.is_not(None),
        )
    ).all()
    if not found:
        return _Effect(acknowledged_us, row.effective_us), ()
    since_us = min(each.became_effective_us or 0 for each in found)
    judged = Judged(
        sum(each.judged_rows for each in found),
        sum(each.judged_late_min for each in found),
        sum(each.judged_late_max for each in found),
    )
    state_rows = newest.state_rows if newest is not None and batches.have(newest) else None
    under = (*batches.reports, ReportRow.seen_us >= since_us)
    return _Effect(acknowledged_us, since_us, judged, state_rows), under


def _live_effect(
    session: Session, row: RolloutRow, newest: ReportRow | None, last_contact_us: int | None
) -> tuple[_Effect, _Under]:
    """Return what became of a rollout in Live, where a job applies each answer and reports its last contact."""
    published_us = row.published_us or 0
    batches = batches_of(session, row)
    acknowledged_us = row.acknowledged_us or _acknowledged_us(session, row, batches)
    if acknowledged_us is None and last_contact_us is not None and last_contact_us >= published_us:
        acknowledged_us = last_contact_us
    if acknowledged_us is None or newest is None:
        return _Effect(acknowledged_us), ()
    if row.effective_us is None:
        # The batch that acknowledged it still ran with the bound before.
        later = newest.seen_us > acknowledged_us
        return _Effect(acknowledged_us, newest.seen_us if later else None), ()
    under = (*batches.reports, ReportRow.seen_us > row.effective_us)
    return _since(session, row, newest, acknowledged_us, under)


def _since(
    session: Session,
    row: RolloutRow,
    newest: ReportRow | None,
    acknowledged_us: int,
    under: _Under,
) -> tuple[_Effect, _Under]:
    """Return what became of a rollout by the batches that ``under`` picks."""
    first_us, *sums = session.execute(
        select(func.min(ReportRow.seen_us), *map(func.sum, BY_BOUND)).where(*under)
    ).one()
    # PostgreSQL sums to an exact decimal, and nothing to null.
    judged = Judged(*(int(number or 0) for number in sums))
    rows = None if newest is None else newest.state_rows
    return _Effect(acknowledged_us, row.effective_us or first_us, judged, rows), under


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


def _latency_us(session: Session, stream_id: int, under: _Under) -> float | None:
    """Return the mean wall latency of the windows that closed in the batches that ``under`` picks; None without any.

    Windows that the first of them had closed do not count: they closed under the bound before.
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
    wall = Emissions(np.array(ends, np.int64), marks_us, walls_us).latency(0)[1]
    latency = None if wall is None else latency_of(wall, downstream_of(session, stream_id), 0)
    return None if latency is None else latency.measured_us
