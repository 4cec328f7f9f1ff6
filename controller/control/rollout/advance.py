"""Advancing rollouts: the state machine in ``tidemark.models.rollout`` decides, this module reads facts and writes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlalchemy import JSON, ColumnElement, Select, and_, func, literal, or_, select, type_coerce
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import (
    AcknowledgementRow,
    PolicyRow,
    ReportRow,
    RolloutRow,
    StreamRow,
)
from tidemark.controller.control.bounds.publication import SteeredStream
from tidemark.controller.control.rollout.effect import count_at_risk
from tidemark.controller.control.rollout.facts import read_facts
from tidemark.controller.control.rollout.failed_bounds import keep_failure
from tidemark.controller.control.rollout.publish import publish_previous, publish_rollout
from tidemark.controller.control.rollout.store import (
    RolloutRules,
    add_rollout_event,
    lock_fleet,
    model_of,
    rollout_in_force,
)
from tidemark.models.base.defaults import ACKNOWLEDGE_MS, RESTART_LOOK_MS, RESTART_LOSS_MS
from tidemark.models.rollout.machine import advance, restores_previous
from tidemark.models.rollout.restarts import FLEET, RestartingJob, RestartLine, limited, restarts_job
from tidemark.models.rollout.states import CANDIDATE, OPEN, UNDER_WAY, Move, RolloutFacts


def advance_rollout(stream: SteeredStream, rules: RolloutRules) -> RolloutRow | None:
    """Take the stream's open rollout as far as it can go now; return it, None without one. The stream is locked.

    A verified rollout is watched further, while its bound is published and the SLO that verified it stays.
    """
    if stream.newest_rollout is None:
        return None
    verified = rollout_in_force(stream.session, stream.unpinned)
    if (
        verified is not None
        and verified.cause != "NoData"
        and verified.slo_generation == rules.slo.generation
    ):
        count_at_risk(stream, verified)
        missed = _next_move(stream, verified, read_facts(stream, verified, rules), rules)
        if missed is not None:
            apply_move(stream, verified, missed, rules)
            stream.session.flush()
    row = stream.open_rollout
    while row is not None:
        if row.state == "Effective":
            count_at_risk(stream, row)
        facts = read_facts(stream, row, rules)
        row.judged = facts.judged
        if row.acknowledged_us is None:
            row.acknowledged_us = facts.acknowledged_us
        move = _next_move(stream, row, facts, rules)
        if move is None:
            break
        before = row.state
        apply_move(stream, row, move, rules)
        if row.state == before:
            break
        if row.state == "Effective":
            row.effective_us = facts.effective_us
        stream.session.flush()
    return row


def is_due(stream: SteeredStream, row: RolloutRow, rules: RolloutRules) -> bool:
    """Return whether a tick would change anything about a rollout; nothing is written."""
    move = _next_move(stream, row, read_facts(stream, row, rules), rules)
    if move is None:
        return False
    if move.gate == "Restarts" and stream.now_us - (row.waits_us or 0) > RESTART_LOOK_MS * 1_000:
        return True
    return (move.state, move.reason, move.gate) != (row.state, row.reason, row.held_by)


def _next_move(
    stream: SteeredStream, row: RolloutRow, facts: RolloutFacts, rules: RolloutRules
) -> Move | None:
    """Return where a rollout goes now; None when it stays as it is."""
    rollout = model_of(row)
    move = advance(rollout, facts, stream.now_us)
    # The mode may have changed since it was published.
    if move is None or not restarts_job(replace(rollout, mode=rules.policy.value.mode), move):
        return move
    return limited(rollout, move, _why_no_restart(stream, row, rules))


def apply_move(stream: SteeredStream, row: RolloutRow, move: Move, rules: RolloutRules) -> None:
    """Write a rollout's move and publish what follows from it; the stream is locked."""
    session, now_us = stream.session, stream.now_us
    if move.state == row.state:
        if move.gate == "Restarts":
            row.lost_rows, row.waits_us = _lost_rows(session, row.stream_id), now_us
            if row.held_by == move.gate:
                row.reason = move.reason
                return
        _stay(session, row, move, now_us)
        return
    before = row.state
    back = restores_previous(before, move, model_of(row))
    row.state, row.reason, row.held_by, row.changed_us = move.state, move.reason, move.gate, now_us
    if move.state not in CANDIDATE | UNDER_WAY:
        row.ended_us = now_us
    if move.state == "Verified":
        row.slo_generation = rules.slo.generation
    if before == "Verified" and move.failure == "Completeness":
        row.missed_us = now_us
    add_rollout_event(session, row, before, now_us, reason_class=move.failure)
    if move.state == "Published":
        publish_rollout(stream, row, rules)
    if move.failure is not None:
        keep_failure(
            session,
            row,
            move.failure,
            move.reason,
            now_us,
            slo_generation=rules.slo.generation,
            policy_generation=rules.policy.generation,
        )
        session.flush()
    if back:
        publish_previous(stream, row, rules)


def _stay(session: Session, row: RolloutRow, move: Move, now_us: int) -> None:
    """Write a move that leaves the state as it is: another gate, or a verified rollout that misses or recovers."""
    held_before, row.held_by, row.reason = row.held_by, move.gate, move.reason
    if move.gate is not None and move.gate != held_before:
        add_rollout_event(session, row, row.state, now_us, kind="RolloutHeld", reason_class=move.gate)
    if row.state == "Verified":
        row.missed_us = None if move.failure is None else now_us
        kind = "RolloutRecovered" if move.failure is None else "RolloutMissed"
        add_rollout_event(session, row, row.state, now_us, kind=kind, reason_class=move.failure)


def _why_no_restart(stream: SteeredStream, row: RolloutRow, rules: RolloutRules) -> str | None:
    """Return why a job in mode Restart may not restart for a rollout yet, as a clause; None when it may.

    Where this transaction may begin the restart, no other may count meanwhile.
    """
    limits, session, now_us = rules.fleet, stream.session, stream.now_us
    if limits is None:
        return None
    if stream.locked:
        lock_fleet(session)
    name = limits.restart_label
    label = _label(session, name)
    in_restart = PolicyRow.mode == "Restart"
    streams = select(StreamRow.job, label).join_from(StreamRow, PolicyRow).where(in_restart)
    known = {(job, value) for job, value in session.execute(streams.distinct())}
    jobs = Counter(group for job, value in known for group in RestartingJob(job, 0, value).groups)
    jobs[FLEET] = len({job for job, _ in known})
    rollouts = select(StreamRow.job, RolloutRow.lost_rows, label).join_from(RolloutRow, StreamRow)
    rollouts = rollouts.join(PolicyRow, PolicyRow.stream_id == StreamRow.id).where(in_restart)
    line = RestartLine(
        limits=limits,
        jobs=jobs,
        restarting=_jobs(session, rollouts.where(_restarting(now_us))),
        waiting=_jobs(session, rollouts.where(_waiting(now_us))),
    )
    own = RestartingJob(
        stream.row.job,
        _lost_rows(session, stream.id),
        None if name is None else rules.policy.value.labels.get(name),
    )
    return line.why_waiting(own, waits=row.held_by == "Restarts")


def _lost_rows(session: Session, stream_id: int) -> int:
    """Return how many pairs a stream certainly lost of late, by which jobs that wait to restart are ordered."""
    newest_us = select(func.max(ReportRow.seen_us)).where(ReportRow.stream_id == stream_id).scalar_subquery()
    of_late = ReportRow.seen_us > newest_us - RESTART_LOSS_MS * 1_000
    lost = session.scalars(
        select(func.sum(ReportRow.late_min)).where(ReportRow.stream_id == stream_id, of_late)
    ).one()
    return int(lost or 0)


def _jobs(session: Session, rollouts: Select[str, int, str | None]) -> list[RestartingJob]:
    return [RestartingJob(job, lost, label) for job, lost, label in session.execute(rollouts)]


def _restarting(now_us: int) -> ColumnElement[bool]:
    """Return the condition on a rollout that its job restarts for what it published, or for its rollback.

    A job that does not answer for as long as a rollout waits for its acknowledgement does not.
    """
    since_us = now_us - ACKNOWLEDGE_MS * 1_000
    row = RolloutRow
    answered = (
        select(AcknowledgementRow.id)
        .where(AcknowledgementRow.stream_id == row.stream_id, AcknowledgementRow.received_us >= row.ended_us)
        .exists()
    )
    published = and_(row.state == "Published", row.published_us >= since_us)
    # Its bound is published still: what took its place waits for another turn.
    overtaken = and_(row.state == "Superseded", row.acknowledged_us.is_(None), row.published_us >= since_us)
    narrowed_back = and_(row.state == "Expired", row.direction == "Narrow")
    undone = and_(or_(row.state == "RolledBack", narrowed_back), row.acknowledged_us.is_not(None))
    ended = and_(or_(overtaken, undone), row.ended_us >= since_us, ~answered)
    known = row.state.in_(["Expired", "Published", "RolledBack", "Superseded"])
    return and_(known, row.cause != "NoData", or_(published, ended))


def _waiting(now_us: int) -> ColumnElement[bool]:
    """Return the condition on a rollout that it waits for its job's turn, and was found waiting lately.

    What nothing decides any more (its job is silent, its SLO gone, a pin in force) must not keep its place.
    """
    fresh_us = now_us - 3 * RESTART_LOOK_MS * 1_000
    return and_(
        RolloutRow.state.in_(sorted(OPEN | {"Verified"})),
        RolloutRow.held_by == "Restarts",
        RolloutRow.waits_us >= fresh_us,
    )


def _label(session: Session, name: str | None) -> ColumnElement[str | None]:
    """Return the value of a label in the policy of a stream; null without one."""
    if name is None:
        return literal(None)
    text = PolicyRow.specification
    # SQLite's JSON functions take text, and its cast would make a number of it.
    document = text.cast(JSON) if session.get_bind().dialect.name == "postgresql" else type_coerce(text, JSON)
    value: ColumnElement[str | None] = document["labels"][name].as_string()
    return value
