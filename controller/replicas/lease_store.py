"""Leases in the store: which process decides which streams, and under which fencing number it may write.

Streams are spread over a fixed number of shards, so that thousands of streams need one heartbeat, and a new stream is
decided at once. A shard's *fencing number* grows with each new holder. A decision is written only in a transaction that
finds its number unchanged and locks it until the commit. So a process that was stopped past its lease can write
nothing, whatever any clock says.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import LeaseRow, RecommendationRow, ReplicaRow
from tidemark.controller.db.upsert import insert_into
from tidemark.controller.errors import LeaseLostError

SHARDS = 64
"""Number of shards: several for each of more replicas than one store can serve."""

_IN_ORDER = select(LeaseRow.shard, LeaseRow.holder, LeaseRow.fencing).order_by(LeaseRow.shard)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to decide the streams of one shard, until another process takes it."""

    shard: int
    """The shard."""
    fencing: int
    """The fencing number that it was taken under."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard as it is stored."""

    number: int
    """Its number."""
    holder: str | None
    """Who holds it; None when nobody does."""
    fencing: int
    """The fencing number of its newest holder."""


def shard_of(stream_id: int) -> int:
    """Return the shard of a stream."""
    return stream_id % SHARDS


def make_shards(session: Session) -> None:
    """Create the missing shards."""
    existing = set(session.scalars(select(LeaseRow.shard)))
    missing = [{"shard": shard, "fencing": 0} for shard in range(SHARDS) if shard not in existing]
    if missing:
        rows = insert_into(session, LeaseRow)
        session.execute(rows.on_conflict_do_nothing(index_elements=["shard"]), missing)


def shards(session: Session) -> list[Shard]:
    """Return all shards in their order."""
    return [Shard(*row) for row in session.execute(_IN_ORDER)]


def beat(session: Session, holder: str, count: int) -> None:
    """Write the ``count``-th heartbeat of a process; create its row when it is new or was deleted."""
    row = insert_into(session, ReplicaRow).values(holder=holder, beats=count)
    session.execute(row.on_conflict_do_update(index_elements=["holder"], set_={"beats": row.excluded.beats}))


def beats(session: Session) -> dict[str, int]:
    """Return the newest heartbeat of every process, by its name."""
    return dict(session.execute(select(ReplicaRow.holder, ReplicaRow.beats)).all())


def forget_replica(session: Session, holder: str) -> None:
    """Delete a process; if it is alive, its next heartbeat creates it again."""
    session.execute(delete(ReplicaRow).where(ReplicaRow.holder == holder))


def take(session: Session, chosen: Collection[Shard], holder: str) -> list[Lease]:
    """Take shards as they were read, except those that another process took meanwhile; return the leases."""
    read = {shard.number: shard.fencing for shard in chosen}
    leases = [
        Lease(found.number, found.fencing + 1)
        for found in _locked(session, read)
        if found.fencing == read[found.number]
    ]
    if not leases:
        return []
    numbers = [lease.shard for lease in leases]
    session.execute(
        update(LeaseRow)
        .where(LeaseRow.shard.in_(numbers))
        .values(holder=holder, fencing=LeaseRow.fencing + 1)
        .execution_options(synchronize_session=False)
    )
    return leases


def give_back(session: Session, numbers: Collection[int], holder: str) -> None:
    """Give back the shards that ``holder`` still has."""
    held = [shard.number for shard in _locked(session, numbers) if shard.holder == holder]
    session.execute(
        update(LeaseRow)
        .where(LeaseRow.shard.in_(held))
        .values(holder=None)
        .execution_options(synchronize_session=False)
    )


def _locked(session: Session, numbers: Collection[int]) -> list[Shard]:
    """Return shards and lock them until this transaction ends."""
    # Locked in their order, so that two processes that want the same ones cannot deadlock.
    these = _IN_ORDER.where(LeaseRow.shard.in_(list(numbers)))
    return [Shard(*row) for row in session.execute(these.with_for_update(key_share=True))]


def confirm(session: Session, stream_id: int, lease: Lease) -> None:
    """Check that ``lease`` allows to decide a stream, and keep it so until this transaction ends.

    Call it last in the transaction that writes the decision: other processes then wait only for the commit. The
    recommendation stores the fencing number.

    Raises:
        LeaseLostError: when another process has taken the shard, or it was given back; nothing may be written.
    """
    if lease.shard != shard_of(stream_id):
        raise ValueError(f"stream {stream_id} belongs to shard {shard_of(stream_id)}, not to {lease.shard}")
    # A shared lock: decisions of one shard do not wait for each other, but nobody takes it before they commit.
    connection = session.connection()
    found = connection.execute(_HELD, {"shard": lease.shard}).one_or_none()
    if found is None or found.holder is None or found.fencing != lease.fencing:
        reason = (
            "was given back" if found is None or found.holder is None else f"is at number {found.fencing}"
        )
        raise LeaseLostError(
            f"stream {stream_id} is not decided here any more: this process held shard {lease.shard} under number "
            f"{lease.fencing}, and the shard {reason}; its present holder decides it"
        )
    connection.execute(_FENCE, {"stream": stream_id, "number": lease.fencing})


# Built once: building them takes longer than running them.
_HELD = (
    select(LeaseRow.holder, LeaseRow.fencing)
    .where(LeaseRow.shard == bindparam("shard"))
    .with_for_update(read=True)
)
_FENCE = (
    update(RecommendationRow)
    .where(RecommendationRow.stream_id == bindparam("stream"))
    .values(fencing=bindparam("number"))
)
