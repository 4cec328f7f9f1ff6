"""Restarts that are under way or wait for their turn, in the fleet and among jobs that share a label."""

from __future__ import annotations

from collections import Counter

from sqlalchemy import JSON, ColumnElement, Select, and_, cast, func, literal, or_, select, type_coerce
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import (
    AcknowledgementRow,
    PolicyRow,
    ReportRow,
    RolloutRow,
    StreamRow,
)
from tidemark.controller.rollout.rules import RolloutRules
from tidemark.controller.rollout.store import lock_fleet
from tidemark.models.base.defaults import ACKNOWLEDGE_MS, RESTART_LOOK_MS, RESTART_LOSS_MS
from tidemark.models.rollout.restarts import FLEET, RestartingJob, RestartLine
from tidemark.models.rollout.states import OPEN


def why_no_restart(
    session: Session, row: RolloutRow, rules: RolloutRules, now_us: int, *, lock: bool
) -> str | None:
    """Return why a job in mode Restart may not restart for a rollout yet, as a clause; None when it may.

    Args:
        session: the session.
        row: the rollout.
        rules: the rules of its stream.
        now_us: the wall time in microseconds.
        lock: whether this transaction may begin the restart, so that no other may count meanwhile.
    """
    limits = rules.fleet
    if limits is None:
        return None
    if lock:
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
        session.get_one(StreamRow, row.stream_id).job,
        lost_rows(session, row.stream_id),
        None if name is None else rules.policy.value.labels.get(name),
    )
    return line.why_waiting(own, waits=row.held_by == "Restarts")


def lost_rows(session: Session, stream_id: int) -> int:
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
    document = (
        cast(text, JSON) if session.get_bind().dialect.name == "postgresql" else type_coerce(text, JSON)
    )
    value: ColumnElement[str | None] = document["labels"][name].as_string()
    return value
