"""The SLOs of joins as they are stored, each with the streams that are its sides.

A join is named by whoever sets it, so it outlives queries and checkpoints. The row of a stream's own SLO says which
join it is a side of: of at most one, and every decision reads that row anyway.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Select, delete, select
from sqlalchemy.orm import Session

from tidemark.controller.db.epoch import stored_version
from tidemark.controller.db.tables import JoinRow, SloRow, StreamRow
from tidemark.controller.db.upsert import insert_into
from tidemark.controller.errors import JoinNotFoundError, JoinRefusedError
from tidemark.controller.specs.kinds import SpecKind, loaded_specification, stored_specification
from tidemark.controller.specs.store import get_policy
from tidemark.controller.streams.store import lock_known_stream
from tidemark.models.join_side import JoinSide
from tidemark.models.joint_bounds import JointChoice
from tidemark.models.slo import JoinSlo

_SLO, _CHOICE = TypeAdapter(JoinSlo), TypeAdapter(JointChoice)


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
        return stored_version(session, "join", self.updated_us, stored_specification(self.slo))


def get_join(session: Session, job: str, name: str) -> StoredJoin:
    """Return a join.

    Raises:
        JoinNotFoundError: when the job has none of this name.
    """
    row = session.scalars(_named(job, name)).one_or_none()
    if row is None:
        raise JoinNotFoundError(f"job {job!r} has no join {name!r}; PUT one here")
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
        row.choice = json.dumps(asdict(side.choice))


# -- as a specification ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LockedJoin:
    """The name of a join, whose row is locked."""

    job: str
    name: str
    row: JoinRow | None
    """None without one."""
    made: bool = False
    """Whether the row was made just now, so that nobody has set the join yet."""


def lock_join(session: Session, job: str, name: str, *, make: bool) -> LockedJoin:
    """Lock a join; with ``make`` there is a row afterwards, which has to be set."""
    made = 0
    # Another process may make it and a third one delete it, both just now.
    while (row := session.scalars(_named(job, name).with_for_update()).one_or_none()) is None and make:
        insert = insert_into(session, JoinRow).values(job=job, name=name, updated_us=0, specification="")
        done: Any = session.execute(insert.on_conflict_do_nothing(index_elements=["job", "name"]))
        made = done.rowcount
    return LockedJoin(job, name, row, bool(made))


class _Joins(SpecKind[LockedJoin, JoinSlo, StoredJoin]):
    set_event, deleted_event = "JoinSet", "JoinDeleted"

    def find(self, session: Session, key: LockedJoin) -> StoredJoin | None:  # noqa: ARG002 - one signature
        return None if key.row is None or key.made else _stored(key.row)

    def existing(self, session: Session, key: LockedJoin) -> StoredJoin:
        found = self.find(session, key)
        if found is None:
            raise JoinNotFoundError(f"job {key.job!r} has no join {key.name!r} that could be deleted")
        return found

    def equal(self, stored: StoredJoin, value: JoinSlo) -> bool:
        return stored.slo == _sorted(value)

    def store(
        self, session: Session, key: LockedJoin, value: JoinSlo, before: StoredJoin | None, now_us: int
    ) -> tuple[StoredJoin, Sequence[int]]:
        """Store a join, and let it decide about its streams and no others.

        Raises:
            StreamNotFoundError: when one of its streams is not known.
            JoinRefusedError: when one of them cannot be a side of it.
        """
        assert key.row is not None
        new = StoredJoin(key.job, key.name, _sorted(value), now_us)
        key.row.updated_us, key.row.specification, key.row.choice = (
            now_us,
            stored_specification(new.slo),
            None,
        )
        sides = set(new.slo.streams)
        changed = []
        # Always in the same order, so that writers that lock them do not deadlock.
        for name in sorted(sides.union(() if before is None else before.slo.streams)):
            stream_id = lock_known_stream(session, key.job, name).id
            if name in sides:
                _check_side(session, key.row.id, stream_id, name)
            _set_join(session, stream_id, key.row.id if name in sides else None)
            changed.append(stream_id)
        return new, changed

    def erase(self, session: Session, key: LockedJoin, before: StoredJoin) -> Sequence[int]:
        assert key.row is not None
        changed = []
        for stream in before.slo.streams:
            stream_id = lock_known_stream(session, key.job, stream).id
            _set_join(session, stream_id, None)
            changed.append(stream_id)
        session.flush()
        session.execute(delete(JoinRow).where(JoinRow.id == key.row.id))
        return changed

    def version(self, session: Session, key: LockedJoin, stored: StoredJoin) -> str:  # noqa: ARG002
        return stored.version(session)

    def words(self, stored: StoredJoin | None) -> str:
        return "no such join yet" if stored is None else f"a join of {', '.join(stored.slo.streams)}"

    def event(self, stored: StoredJoin) -> str:
        return json.dumps({"join": stored.name, **asdict(stored.slo)})


JOINS = _Joins()
"""The joins; the key is a job and a name."""


def _sorted(slo: JoinSlo) -> JoinSlo:
    return replace(slo, streams=tuple(sorted(slo.streams)))


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
    choice = None if row.choice is None else _CHOICE.validate_json(row.choice)
    return StoredJoin(
        row.job, row.name, loaded_specification(_SLO, row.specification), row.updated_us, choice
    )
