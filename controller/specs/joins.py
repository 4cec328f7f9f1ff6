"""The SLOs of joins as they are stored, each with the streams that are its sides.

A join is named by whoever sets it, so it outlives queries and checkpoints. The row of a stream's own SLO says which
join it is a side of: of at most one, and every decision reads that row anyway.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from sqlalchemy import Select, delete, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.epoch import stored_version
from tidemark.controller.base.db.statements import insert_into
from tidemark.controller.base.db.tables import JoinRow, SloRow, StreamRow
from tidemark.controller.base.errors import JoinNotFoundError, JoinRefusedError
from tidemark.controller.base.sentences import did_you_mean
from tidemark.controller.specs.change import ChangeRequest
from tidemark.controller.specs.store import get_policy
from tidemark.controller.specs.streams import lock_known_stream, streams_of_job
from tidemark.models.recommend.joint_bounds import JoinSide, JointChoice
from tidemark.models.specs.slo import JoinSlo


@dataclass(frozen=True, slots=True)
class StoredJoin:
    """A join as it is stored."""

    job: str
    """Name of the job."""
    name: str
    """Its name."""
    slo: JoinSlo
    """The SLO on its output; its streams are in the order of their names."""
    updated_us: int
    """When it was last changed, in microseconds since the epoch."""
    choice: JointChoice | None = None
    """The bounds chosen last under it; None before the first choice."""

    def version(self, session: Session) -> str:
        """What tells it from any other join of its name, before and after it."""
        return stored_version(session, "join", self.updated_us, repr(self.slo))

    def event(self) -> str:
        """Return it as events have it."""
        return json.dumps({"join": self.name, **asdict(self.slo)})


def get_join(session: Session, job: str, name: str) -> StoredJoin:
    """Return a join.

    Raises:
        JobNotFoundError: when the job is not known.
        JoinNotFoundError: when it has none of this name.
    """
    row = session.scalars(_named(job, name)).one_or_none()
    if row is None:
        streams_of_job(session, job)
        joins = session.scalars(select(JoinRow.name).where(JoinRow.job == job)).all()
        raise JoinNotFoundError(f"job {job!r} has no join {name!r}{did_you_mean(name, joins)}")
    return _stored(row)


def list_joins(session: Session, job: str, after: str | None, limit: int) -> Sequence[StoredJoin]:
    """Return up to ``limit`` joins of a job in the order of their names, those after ``after``."""
    wanted = select(JoinRow).where(JoinRow.job == job).order_by(JoinRow.name).limit(limit)
    if after is not None:
        wanted = wanted.where(JoinRow.name > after)
    return [_stored(row) for row in session.scalars(wanted)]


def join_of(session: Session, join_id: int) -> StoredJoin:
    """Return the join that the SLO of a stream names."""
    return _stored(session.get_one(JoinRow, join_id))


def streams_of(session: Session, join: StoredJoin) -> Sequence[StreamRow]:
    """Return the streams that are the sides of a join, in their order."""
    wanted = select(StreamRow).where(StreamRow.job == join.job, StreamRow.stream.in_(join.slo.streams))
    found = {row.stream: row for row in session.scalars(wanted)}
    return [found[name] for name in join.slo.streams]


def keep_choice(session: Session, join_id: int | None, side: JoinSide | None) -> None:
    """Store the bounds that a decision about a side rests on: every process goes by them, after restarts too."""
    if side is None or side.choice is None:
        return
    # Whoever changes the join holds it locked, and waits for the stream that is locked here.
    locked = select(JoinRow).where(JoinRow.id == join_id).with_for_update(skip_locked=True)
    row = session.scalars(locked).one_or_none()
    if row is not None:
        row.choice = side.choice


def put_join(
    change: ChangeRequest, job: str, name: str, slo: JoinSlo
) -> tuple[StoredJoin, Sequence[StreamRow]]:
    """Set a join, which decides about its streams and no others from then on; return the streams that this changes too.

    Raises:
        StreamNotFoundError: when one of its streams is not known.
        JoinRefusedError: when one of them cannot be a side of it.
        Exception: whatever the precondition raises.
    """
    session, now_us = change.session, change.now_us
    new = StoredJoin(job, name, replace(slo, streams=tuple(sorted(slo.streams))), now_us)
    values: dict[str, Any] = {"updated_us": now_us, "specification": new.slo}
    made = 0
    # Another process may make it and a third one delete it, both just now.
    while (row := session.scalars(_named(job, name).with_for_update()).one_or_none()) is None:
        insert = insert_into(session, JoinRow).values(job=job, name=name, **values)
        done: Any = session.execute(insert.on_conflict_do_nothing(index_elements=["job", "name"]))
        made = done.rowcount
    before = None if made else _stored(row)
    if before is not None and before.slo == new.slo:
        return before, ()
    _check(change, before)
    row.updated_us, row.specification, row.choice = now_us, values["specification"], None
    sides = set(new.slo.streams)
    changed = []
    # Always in the same order, so that writers that lock them do not deadlock.
    for each in sorted(sides.union(() if before is None else before.slo.streams)):
        stream = lock_known_stream(session, job, each)
        if each in sides:
            _check_side(session, row.id, stream.id, each)
        _set_join(session, stream.id, row.id if each in sides else None)
        changed.append(stream)
    change.note(changed, "JoinSet", before=None if before is None else before.event(), after=new.event())
    return new, changed


def delete_join(change: ChangeRequest, job: str, name: str) -> tuple[StoredJoin, Sequence[StreamRow]]:
    """Delete a join, and return it with its streams; their own SLOs decide about them from then on.

    Raises:
        JoinNotFoundError: when the job has none of this name.
        Exception: whatever the precondition raises.
    """
    session = change.session
    row = session.scalars(_named(job, name).with_for_update()).one_or_none()
    if row is None:
        raise JoinNotFoundError(f"job {job!r} has no join {name!r} that could be deleted")
    before = _stored(row)
    _check(change, before)
    changed = [lock_known_stream(session, job, each) for each in before.slo.streams]
    for stream in changed:
        _set_join(session, stream.id, None)
    change.note(changed, "JoinDeleted", before=before.event())
    session.flush()
    session.execute(delete(JoinRow).where(JoinRow.id == row.id))
    return before, changed


def _check(change: ChangeRequest, before: StoredJoin | None) -> None:
    if before is None:
        change.check(None, "no such join yet", required=False)
    else:
        sides = ", ".join(before.slo.streams)
        change.check(before.version(change.session), f"a join of {sides}", required=True)


def _check_side(session: Session, join_id: int, stream_id: int, name: str) -> None:
    row = session.get(SloRow, stream_id)
    if row is None:
        raise JoinRefusedError(
            f"stream {name!r} has no SLO; set one first: its caps, its confidence and its budget hold beside the join's"
        )
    if row.join_id not in {None, join_id}:
        other = session.get_one(JoinRow, row.join_id)
        raise JoinRefusedError(
            f"stream {name!r} is a side of join {other.name!r} already, and one output decides about its bound"
        )
    if get_policy(session, stream_id).value.mode == "Live":
        raise JoinRefusedError(
            f"stream {name!r} is in mode Live, where its driver goes by its own SLO; set another mode first"
        )


def _set_join(session: Session, stream_id: int, join_id: int | None) -> None:
    """Let a join decide about a stream, or its own SLO alone; both count as a change of the SLO."""
    row = session.get_one(SloRow, stream_id)
    row.join_id = join_id
    row.generation += 1


def _named(job: str, name: str) -> Select[JoinRow]:
    return select(JoinRow).where(JoinRow.job == job, JoinRow.name == name)


def _stored(row: JoinRow) -> StoredJoin:
    return StoredJoin(row.job, row.name, row.specification, row.updated_us, row.choice)
