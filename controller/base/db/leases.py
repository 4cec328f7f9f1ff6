"""Leases: which process decides which streams, and under which fencing number it may write.

Each process writes heartbeats to the store. A process that sees no new heartbeat of another for the length of a lease,
by its own steady clock, may take over the other's leases. Clocks are never compared, so a wrong one does no harm.

Streams are spread over a fixed number of shards, so that thousands of streams need one heartbeat, and a new stream is
decided at once. A shard's *fencing number* grows with each new holder. A decision is written only in a transaction that
finds its number unchanged and locks it until the commit. So a process that was stopped past its lease can write
nothing, whatever any clock says.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from uuid import uuid4

from sqlalchemy import bindparam, delete, select, update
from sqlalchemy.orm import Session

from tidemark.controller.base.background import TickingThread
from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.statements import insert_into
from tidemark.controller.base.db.tables import LeaseRow, RecommendationRow, ReplicaRow
from tidemark.controller.base.errors import LeaseLostError

SHARDS = 64
"""Number of shards: several for each of more replicas than one store can serve."""

_IN_ORDER = select(LeaseRow.shard.label("number"), LeaseRow.holder, LeaseRow.fencing).order_by(LeaseRow.shard)


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to decide the streams of one shard, until another process takes it."""

    shard: int
    fencing: int
    """The fencing number that it was taken under."""


@dataclass(frozen=True, slots=True)
class Shard:
    """A shard as it is stored."""

    number: int
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
    return [Shard(**row) for row in session.execute(_IN_ORDER).mappings()]


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
        Lease(shard.number, shard.fencing + 1)
        for shard in _locked(session, read)
        if shard.fencing == read[shard.number]
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
    own = [shard.number for shard in _locked(session, numbers) if shard.holder == holder]
    session.execute(
        update(LeaseRow)
        .where(LeaseRow.shard.in_(own))
        .values(holder=None)
        .execution_options(synchronize_session=False)
    )


def _locked(session: Session, numbers: Collection[int]) -> list[Shard]:
    """Return shards and lock them until this transaction ends."""
    # Locked in their order, so that two processes that want the same ones cannot deadlock.
    these = _IN_ORDER.where(LeaseRow.shard.in_(list(numbers)))
    rows = session.execute(these.with_for_update(key_share=True))
    return [Shard(**row) for row in rows.mappings()]


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
    row = connection.execute(_HELD, {"shard": lease.shard}).one_or_none()
    if row is None or row.holder is None or row.fencing != lease.fencing:
        reason = "was given back" if row is None or row.holder is None else f"is at number {row.fencing}"
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


_log = logging.getLogger(__name__)

_BEATS_A_LEASE = 3
"""Heartbeats in the length of a lease: two may fail."""

_STOP_TIMEOUT_SECONDS = 5.0
"""How long a shutdown waits for the heartbeat under way."""


@dataclass(frozen=True, slots=True)
class Moves:
    """The shards that one process takes and gives back."""

    take: tuple[Shard, ...] = ()
    """Shards to take, as they were read."""
    give: tuple[int, ...] = ()
    """Numbers of the shards to give back."""


def share_out(shards: Sequence[Shard], live: Collection[str], me: str) -> Moves:
    """Return the moves of ``me`` after which the processes in ``live``, itself included, share the shards evenly.

    Each holds at most its share, rounded up. After enough rounds every shard is held and none moves any more.
    """
    share = -(-len(shards) // len(live))
    mine = [shard for shard in shards if shard.holder == me]
    if len(mine) > share:
        return Moves(give=tuple(shard.number for shard in mine[share:]))
    free = [shard for shard in shards if shard.holder not in live]
    return Moves(take=tuple(free[: share - len(mine)]))


class LeaseKeeper:
    """Keeps this process's leases. Safe to call from several threads.

    Args:
        lease_seconds: time without a heartbeat after which another process's leases are taken over, in seconds.
        holder: name of this process; by default a new one at each start.
    """

    def __init__(
        self,
        database: Database,
        lease_seconds: float,
        steady: Callable[[], float] = time.monotonic,
        holder: str | None = None,
    ) -> None:
        self.holder = uuid4().hex if holder is None else holder
        self._database = database
        self._lease_seconds = lease_seconds
        self._steady = steady
        self._lock = threading.Lock()
        self._held: dict[int, Lease] = {}
        self._seen: dict[str, tuple[int, float]] = {}
        self._kept: float | None = None
        self._beats = 0
        self._thread = TickingThread(
            "leases", self.keep, lease_seconds / _BEATS_A_LEASE, stop_seconds=_STOP_TIMEOUT_SECONDS
        )

    @property
    def held(self) -> int:
        """How many shards this process holds, as far as it knows."""
        return len(self._held)

    def lease_of(self, stream_id: int) -> Lease | None:
        """Return the lease under which this process may decide a stream; None without one.

        It may be lost by now: ``confirm`` checks that in the transaction that writes.
        """
        return self._held.get(shard_of(stream_id))

    def keep(self, *, now: bool = False) -> None:
        """Write a heartbeat, take shards that nobody holds, and give back shards beyond this process's share.

        Does nothing when it did so a moment ago, unless ``now``.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store does not answer; leases stay held until they expire.
        """
        with self._lock:
            if self._thread.stopping.is_set():
                return
            pause = self._lease_seconds / _BEATS_A_LEASE / 2
            if not now and self._kept is not None and self._steady() - self._kept < pause:
                return
            self._keep()
            self._kept = self._steady()

    def start(self) -> None:
        """Start to keep the leases in a thread of its own: a long tick of the loop must not lose them."""
        self._thread.start()

    def stop(self) -> None:
        """Give all leases back, so that another process can take them at once."""
        self._thread.stop()
        with self._lock:
            try:
                with self._database.write() as session:
                    give_back(session, self._held, self.holder)
                    forget_replica(session, self.holder)
            except Exception:  # noqa: BLE001 - they expire
                _log.exception("leases could not be given back; they will expire")
            self._held = {}

    def _keep(self) -> None:
        with self._database.write() as session:
            # Counted here, so that a process whose row was deleted does not start over at an old count.
            self._beats += 1
            beat(session, self.holder, self._beats)
            make_shards(session)
            heartbeats = beats(session)
            live = self._live(heartbeats)
            before = shards(session)
            moves = share_out(before, live, self.holder)
            if moves.give:
                give_back(session, moves.give, self.holder)
            taken = take(session, moves.take, self.holder) if moves.take else []
        kept = [
            Lease(shard.number, shard.fencing)
            for shard in before
            if shard.holder == self.holder and shard.number not in moves.give
        ]
        # Only after the commit; until then the earlier leases are valid.
        self._held = {lease.shard: lease for lease in [*kept, *taken]}
        # One transaction each: two processes that take each other for dead could deadlock otherwise.
        for holder in sorted(set(heartbeats) - live):
            with self._database.write() as session:
                forget_replica(session, holder)

    def _live(self, heartbeats: dict[str, int]) -> set[str]:
        now = self._steady()
        seen = {}
        for holder, count in heartbeats.items():
            before = self._seen.get(holder)
            seen[holder] = before if before is not None and before[0] == count else (count, now)
        self._seen = seen
        return {
            holder
            for holder, (_, since) in seen.items()
            if holder == self.holder or now - since < self._lease_seconds
        }
