"""Restarts that are under way or wait for their turn, in the fleet and among jobs that share a label."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from sqlalchemy import JSON, ColumnElement, Select, and_, cast, func, literal, or_, select, type_coerce
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import AcknowledgementRow, PolicyRow, ReportRow, RolloutRow, StreamRow
from tidemark.controller.rollout.store import lock_fleet
from tidemark.models.defaults import ACKNOWLEDGE_MS, RESTART_LOSS_MS
from tidemark.models.rollout.restarts import FLEET, FleetLimits, RestartingJob, RestartLine


def why_no_restart(
    session: Session, row: RolloutRow, limits: FleetLimits, now_us: int, *, lock: bool
) -> str | None:
    """Return why a job in mode Restart may not restart for a rollout yet, as a clause; None when it may.

    Args:
        session: the session.
        row: the rollout.
        limits: the limits of the fleet.
        now_us: the wall time in microseconds.
        lock: whether this transaction may begin the restart, so that no other may count meanwhile.
    """
    if lock:
        lock_fleet(session)
    label = _label(session, limits.restart_label)
    streams = select(StreamRow.job, RolloutRow.lost_rows, label).join_from(StreamRow, PolicyRow)
    streams = streams.join(RolloutRow, isouter=True).where(PolicyRow.mode == "Restart")
    in_restart = {(job, value) for job, _, value in session.execute(streams.distinct())}
    jobs = Counter(group for job, value in in_restart for group in RestartingJob(job, 0, value).groups)
    jobs[FLEET] = len({job for job, _ in in_restart})
    line = RestartLine(
        limits=limits,
        jobs=jobs,
        restarting=_jobs(session, streams.where(_restarting(now_us))),
        waiting=_jobs(session, streams.where(RolloutRow.held_by == "Restarts")),
    )
    (own,) = _jobs(session, streams.where(RolloutRow.id == row.id))
    own = replace(own, lost_rows=lost_rows(session, row.stream_id))
    return line.why_held(own, waits=row.held_by == "Restarts")


def lost_rows(session: Session, stream_id: int) -> int:
    """Return how many pairs a stream certainly lost of late, by which jobs that wait to restart are ordered."""
    newest_us = select(func.max(ReportRow.seen_us)).where(ReportRow.stream_id == stream_id).scalar_subquery()
    of_late = ReportRow.seen_us > newest_us - RESTART_LOSS_MS * 1_000
    lost = session.scalars(
        select(func.sum(ReportRow.late_min)).where(ReportRow.stream_id == stream_id, of_late)
    ).one()
    return int(lost or 0)


def _jobs(session: Session, streams: Select[str, int, str | None]) -> list[RestartingJob]:
    return [RestartingJob(job, lost, label) for job, lost, label in session.execute(streams)]


def _restarting(now_us: int) -> ColumnElement[bool]:
    """Return the condition on a rollout that its job restarts for what it published, or for its rollback.

    A job that does not answer for as long as a rollout waits for its acknowledgement does not.
    """
    since_us = now_us - ACKNOWLEDGE_MS * 1_000
    answered = (
        select(AcknowledgementRow.id)
        .where(
            AcknowledgementRow.stream_id == RolloutRow.stream_id,
            AcknowledgementRow.received_us >= RolloutRow.ended_us,
        )
        .exists()
    )
    published = and_(RolloutRow.state == "Published", RolloutRow.published_us >= since_us)
    narrowed_back = and_(RolloutRow.state == "Expired", RolloutRow.direction == "Narrow")
    undone = and_(
        or_(RolloutRow.state == "RolledBack", narrowed_back),
        RolloutRow.acknowledged_us.is_not(None),
        RolloutRow.ended_us >= since_us,
        ~answered,
    )
    return and_(RolloutRow.mode == "Restart", RolloutRow.cause != "NoData", or_(published, undone))


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
