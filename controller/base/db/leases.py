"""Leases: which process decides which streams, and under which fencing number it may write.

Each process writes heartbeats to the store. A process that sees no new heartbeat of another for most of a lease, by its
own steady clock, may take over the other's leases, so that this is done within a lease. Clocks are never compared, so a
wrong one does no harm. A process that is to end writes no more of them, and decides on until its leases are taken.

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

_APART = 39
"""About ``SHARDS`` by the golden ratio, and odd: any few streams in a row fall evenly on all replicas."""

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
    """Return the shard of a stream; those of neighbours lie far apart, since a replica holds neighbouring ones."""
    return stream_id * _APART % SHARDS


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

_BEATS_A_LEASE, _MISSED_BEATS = 5, 3
"""Heartbeats in a lease, and in the time without any after which it is taken: two may fail, and others look in time."""

_STOP_TIMEOUT_SECONDS = 5.0
"""How long a shutdown waits for the heartbeat under way."""


def share_out(shards: Sequence[Shard], live: Collection[str], me: str) -> list[Shard]:
    """Return the shards that ``me`` is to take, so that the processes in ``live``, itself included, share them evenly.

    Each keeps at most its share, rounded up; what it has beyond that others take from it, so that no shard is ever left
    to nobody. After enough rounds every shard is held and none moves any more.
    """
    share = -(-len(shards) // len(live))
    kept = dict.fromkeys(live, 0)
    free, beyond = [], []
    for shard in shards:
        if shard.holder is None or shard.holder not in kept:
            free.append(shard)
        elif kept[shard.holder] < share:
            kept[shard.holder] += 1
        else:
            beyond.append(shard)
    return [*free, *beyond][: share - kept[me]]


class LeaseKeeper:
    """Keeps this process's leases. Safe to call from several threads.

    Args:
        lease_seconds: time from a process's last heartbeat within which its leases are taken over, in seconds.
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
        self._leaving = False
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
        """Write a heartbeat, and take shards that nobody holds or that others have beyond their share.

        Does nothing when it did so a moment ago, unless ``now``.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store does not answer; leases stay held until they expire.
        """
        with self._lock:
            if self._thread.stopping.is_set():
                return
            pause = self._lease_seconds / _BEATS_A_LEASE / 2
            if not (now or self._leaving) and self._kept is not None and self._steady() - self._kept < pause:
                return
            self._keep()
            self._kept = self._steady()

    def start(self) -> None:
        """Start to keep the leases in a thread of its own: a long tick of the loop must not lose them."""
        self._thread.start()

    def leave(self) -> None:
        """Let others take the leases from now on; until they do, this process, which is to end, decides under them."""
        self._leaving = True
        self.keep()

    def stop(self) -> None:
        """Give all leases back, so that another process can take them at once."""
        self._thread.stop()
        with self._lock:
            try:
                with self._database.write() as session:
                    give_back(session, self._held, self.holder)
                    forget_replica(session, self.holder)
                _log.info("%d shards given back: 0 are decided here", len(self._held))
            except Exception:  # noqa: BLE001 - they expire
                _log.exception("leases could not be given back; they will expire")
            self._held = {}

    def _keep(self) -> None:
        with self._database.write() as session:
            if self._leaving:
                forget_replica(session, self.holder)
            else:
                # Counted here, so that a process whose row was deleted does not start over at an old count.
                self._beats += 1
                beat(session, self.holder, self._beats)
            make_shards(session)
            heartbeats = beats(session)
            live = self._live(heartbeats)
            before = shards(session)
            chosen = [] if self._leaving else share_out(before, live, self.holder)
            taken = take(session, chosen, self.holder) if chosen else []
        kept = [Lease(shard.number, shard.fencing) for shard in before if shard.holder == self.holder]
        lost = len(self._held) - len(kept)
        # Only after the commit; until then the earlier leases are valid.
        self._held = {lease.shard: lease for lease in [*kept, *taken]}
        if taken or lost:
            _log.info("%d shards taken, %d lost: %d are decided here", len(taken), lost, len(self._held))
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
            if holder == self.holder or now - since < self._lease_seconds * _MISSED_BEATS / _BEATS_A_LEASE
        }
