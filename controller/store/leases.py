"""Leases in the store: which process decides which streams, and under which number it may write.

Streams are dealt into a fixed number of shards, so that thousands of them cost one row's heartbeat and not thousands,
and a new stream has its decider at once. A shard's *fencing number* grows with each new holder. A decision is written
only in a transaction that finds its number unchanged and keeps it so until the commit, so a process that was stopped
past its lease can write nothing, whatever any clock says.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from tidemark.controller.errors import LeaseLostError
from tidemark.controller.store.tables import LeaseRow, LeaseTermRow, RecommendationRow, ReplicaRow
from tidemark.controller.store.upsert import insert_into

__all__ = [
    "SHARDS",
    "Lease",
    "Shard",
    "beat",
    "beats",
    "confirm",
    "forget_replica",
    "give_back",
    "make_shards",
    "shard_of",
    "shards",
    "take",
]

SHARDS = 64
"""Into how many shards streams are dealt: several for each of more replicas than one store can serve."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to decide the streams of one shard, until another process takes it."""

    shard: int
    """Which shard."""
    fencing: int
    """The number that it was taken under."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard as the store has it."""

    number: int
    """Which one."""
    holder: str | None
    """Who holds it; None when nobody does."""
    fencing: int
    """The number of its newest holder."""


def shard_of(stream_id: int) -> int:
    """Return the shard of a stream."""
    return stream_id % SHARDS


def make_shards(session: Session) -> None:
    """Make the shards that are not there yet."""
    there = set(session.scalars(select(LeaseRow.shard)))
    missing = [{"shard": shard, "fencing": 0} for shard in range(SHARDS) if shard not in there]
    if missing:
        insert = insert_into(session, LeaseRow)
        session.execute(insert.on_conflict_do_nothing(index_elements=["shard"]), missing)


def shards(session: Session) -> list[Shard]:
    """Return all shards in their order."""
    rows = session.execute(select(LeaseRow.shard, LeaseRow.holder, LeaseRow.fencing).order_by(LeaseRow.shard))
    return [Shard(*row) for row in rows]


def beat(session: Session, holder: str, count: int) -> None:
    """Give a sign of life of a process, its ``count``-th, and make it known when it is new or was forgotten."""
    insert = insert_into(session, ReplicaRow).values(holder=holder, beats=count)
    session.execute(
        insert.on_conflict_do_update(index_elements=["holder"], set_={"beats": insert.excluded.beats})
    )


def beats(session: Session) -> dict[str, int]:
    """Return the signs of life of every process that is known, by its name."""
    return dict(session.execute(select(ReplicaRow.holder, ReplicaRow.beats)).all())


def forget_replica(session: Session, holder: str) -> None:
    """Forget a process; one that lives after all makes itself known again."""
    session.execute(delete(ReplicaRow).where(ReplicaRow.holder == holder))


def take(session: Session, shard: Shard, holder: str, now_us: int) -> Lease | None:
    """Take a shard as it was read; None when another process took it meanwhile."""
    taken = session.scalars(
        update(LeaseRow)
        .where(LeaseRow.shard == shard.number, LeaseRow.fencing == shard.fencing)
        .values(holder=holder, fencing=shard.fencing + 1)
        .returning(LeaseRow.fencing)
    ).one_or_none()
    if taken is None:
        return None
    session.add(LeaseTermRow(shard=shard.number, fencing=taken, holder=holder, taken_us=now_us))
    # Who held it under numbers long past tells nobody anything.
    session.execute(
        delete(LeaseTermRow).where(
            LeaseTermRow.shard == shard.number, LeaseTermRow.fencing <= taken - TERMS_KEPT
        )
    )
    return Lease(shard.number, taken)


def give_back(session: Session, shard: int, holder: str) -> None:
    """Give a shard back, if ``holder`` still has it."""
    session.execute(
        update(LeaseRow).where(LeaseRow.shard == shard, LeaseRow.holder == holder).values(holder=None)
    )


def confirm(session: Session, stream_id: int, lease: Lease) -> None:
    """Make sure that ``lease`` allows to decide a stream, and that it does until this transaction ends.

    Call it in the transaction that writes the decision, last of all: what another process waits for is then held
    for no longer than the commit takes. The recommendation keeps the number it was made under.

    Raises:
        LeaseLostError: when another process has taken the shard, or it was given back; nothing may be written.
    """
    if lease.shard != shard_of(stream_id):
        raise ValueError(f"stream {stream_id} is of shard {shard_of(stream_id)}, not of {lease.shard}")
    # Shared: two decisions of one shard do not wait for each other, but nobody takes it away before they commit.
    found = session.execute(
        select(LeaseRow.holder, LeaseRow.fencing)
        .where(LeaseRow.shard == lease.shard)
        .with_for_update(read=True)
    ).one_or_none()
    if found is None or found.holder is None or found.fencing != lease.fencing:
        told = "was given back" if found is None or found.holder is None else f"is at number {found.fencing}"
        raise LeaseLostError(
            f"stream {stream_id} is not decided here any more: this process held shard {lease.shard} under number "
            f"{lease.fencing}, and the shard {told}; its present holder decides it"
        )
    session.execute(
        update(RecommendationRow)
        .where(RecommendationRow.stream_id == stream_id)
        .values(fencing=lease.fencing)
    )


TERMS_KEPT = 1_000
"""How many of a shard's former holders are kept."""
