"""The facts that a rollout's state machine decides on, read from the store."""

from __future__ import annotations

import numpy as np
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import AcknowledgementRow, ReportRow, RolloutRow
from tidemark.controller.control.bounds.publication import SteeredStream
from tidemark.controller.control.rollout.effect import read_effect, read_latency_us
from tidemark.controller.control.rollout.failed_bounds import read_failures
from tidemark.controller.control.rollout.store import (
    RolloutRules,
    narrowed_us,
    published_before,
    read_fleet_share,
    unanswered_us,
    verified_narrowing,
)
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.evidence.rollups import Span
from tidemark.controller.reports.live import newest_state
from tidemark.controller.specs.store import horizon_ms_of
from tidemark.models.base.operators import Int64s
from tidemark.models.rollout.evidence import EvidenceSpan, evidence_span
from tidemark.models.rollout.gate import DAY_US
from tidemark.models.rollout.states import CANDIDATE, RolloutFacts
from tidemark.models.specs.slo import Policy


def read_facts(stream: SteeredStream, row: RolloutRow, rules: RolloutRules) -> RolloutFacts:
    """Return the facts about a rollout of a stream."""
    policy, slo, session = rules.policy.value, rules.slo.value, stream.session
    pinned = None if rules.pin is None else rules.pin.why
    if row.state == "Verified":
        return RolloutFacts(policy=policy, slo=slo, pinned=pinned, at_risk=row.at_risk)
    live = None if stream.newest is None else newest_state(session, stream.newest).live
    last_contact_us = None if live is None else live.last_contact_us
    if row.state in CANDIDATE:
        last_ack_us = session.scalars(
            select(func.max(AcknowledgementRow.received_us)).where(AcknowledgementRow.stream_id == stream.id)
        ).one()
        known = [last_ack_us, None if stream.newest is None else stream.newest.received_us]
        since_us = stream.now_us - max(policy.cooldown_ms * 1_000, DAY_US)
        narrowing, maximum = 0, 1
        if rules.fleet is not None and row.direction == "Narrow" and not row.first:
            narrowing, maximum = read_fleet_share(session, rules.fleet.narrowing_ppm, stream)
        return RolloutFacts(
            policy=policy,
            slo=slo,
            pinned=pinned,
            last_contact_us=max((at_us for at_us in known if at_us is not None), default=None),
            unanswered_us=unanswered_us(session, stream.id, max(last_ack_us or 0, last_contact_us or 0)),
            failures=read_failures(
                session, stream.id, rules.slo.generation, rules.policy.generation, stream.now_us
            ),
            evidence=_evidence_for(stream, row, policy),
            published_before=published_before(session, stream.id),
            narrowed_us=narrowed_us(session, stream.id, since_us, row.to_bound_ms),
            fleet_narrowing=narrowing,
            fleet_max=maximum,
            published_ms=None if stream.unpinned is None else stream.unpinned.bound_ms,
            gate_answers=row.gate_answers,
        )
    effect, under = read_effect(stream, row, last_contact_us)
    timed = slo.latency_cap_ms is not None and under
    return RolloutFacts(
        policy=policy,
        slo=slo,
        pinned=pinned,
        acknowledged_us=effect.acknowledged_us,
        effective_us=effect.effective_us,
        judged=effect.judged,
        at_risk=row.at_risk,
        event_us=row.event_ms * 1_000,
        latency_us=read_latency_us(stream, under) if timed else None,
        # What Spark never forgets grows with time, and no other bound ends that.
        state_rows=None
        if stream.downstream is not None and stream.downstream.state_grows
        else effect.state_rows,
        gate_answers=row.gate_answers,
    )


def _evidence_for(stream: SteeredStream, row: RolloutRow, policy: Policy) -> EvidenceSpan | None:
    """Return the evidence for a narrowing; None for other rollouts, and for one that has passed this gate."""
    if row.direction != "Narrow" or row.state != "Recommended" or stream.newest is None:
        return None
    return read_evidence_span(stream.session, stream.newest, policy)


def read_evidence_span(session: Session, newest: ReportRow, policy: Policy) -> EvidenceSpan | None:
    """Return the evidence for a narrowing of the stream whose newest batch is given; None if none is required.

    None is once a narrowing is verified and reports go back as far: a person may have approved that one sooner.
    """
    stream_id = newest.stream_id
    horizon_ms, span_us = horizon_ms_of(session, stream_id), newest.operator.span_us
    horizon = Horizon(stream_id, horizon_ms, newest)
    nothing = np.empty(0, np.int64)
    found = evidence_span(policy, span_us, horizon_ms, nothing, nothing)
    if found is None:
        return None
    since_us = newest.seen_us - found.needed_us
    verified = since_us >= horizon.from_us and verified_narrowing(session, stream_id)
    if verified and _has_reports_until(session, stream_id, since_us):
        return None
    # There may be thousands of batches. Without a pause in the reports the newest ones are enough.
    recent_us = max(newest.seen_us - 2 * found.needed_us, horizon.from_us)
    found = evidence_span(policy, span_us, horizon_ms, *_read_watched(session, Span(stream_id, recent_us)))
    if found is not None and not found.enough and _has_reports_until(session, stream_id, recent_us):
        batches = _read_watched(session, Span(stream_id, horizon.from_us))
        found = evidence_span(policy, span_us, horizon_ms, *batches)
    return found


def _has_reports_until(session: Session, stream_id: int, at_us: int) -> bool:
    earlier = select(ReportRow.id).where(ReportRow.stream_id == stream_id, ReportRow.seen_us <= at_us)
    return session.scalars(select(earlier.exists())).one()


_THINNED_US = 6_000_000
"""Time of which one batch is read, in microseconds: ten of these are the shortest step in which clocks are compared."""


def _read_watched(session: Session, span: Span) -> tuple[Int64s, Int64s]:
    """Return when batches of a span with judged rows were triggered, and the maximum event times until then."""
    rows = session.connection().execute(
        select(func.max(ReportRow.seen_us), func.max(ReportRow.max_event_time_us))
        .where(*span.reports, ReportRow.pairs > 0, ReportRow.max_event_time_us.is_not(None))
        .group_by(ReportRow.seen_us // _THINNED_US)
        .order_by(func.max(ReportRow.seen_us))
    )
    batches = np.array([tuple(row) for row in rows], np.int64).reshape(-1, 2)
    return batches[:, 0], batches[:, 1]
