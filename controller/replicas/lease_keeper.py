"""Which streams this process decides: leases are taken, kept by a heartbeat, shared among replicas and given back.

Each process writes heartbeats to the store. A process that sees no new heartbeat of another for the length of a lease,
by its own steady clock, may take over the other's leases. Clocks are never compared, so a wrong one does no harm. When
a process is taken for dead though it is alive, its fencing number stops it from writing (``replicas.lease_store``).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from uuid import uuid4

from tidemark.controller.db.database import Database
from tidemark.controller.replicas import lease_store as store
from tidemark.controller.replicas.lease_store import Lease, Shard
from tidemark.controller.runtime.background import TickingThread

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
        database: the store.
        lease_seconds: time without a heartbeat after which another process's leases are taken over, in seconds.
        steady: a clock that never jumps, in seconds.
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

        It may be lost by now: ``lease_store.confirm`` checks that in the transaction that writes.
        """
        return self._held.get(store.shard_of(stream_id))

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
                    store.give_back(session, self._held, self.holder)
                    store.forget_replica(session, self.holder)
            except Exception:  # noqa: BLE001 - they expire
                _log.exception("leases could not be given back; they will expire")
            self._held = {}

    def _keep(self) -> None:
        with self._database.write() as session:
            # Counted here, so that a process whose row was deleted does not start over at an old count.
            self._beats += 1
            store.beat(session, self.holder, self._beats)
            store.make_shards(session)
            heartbeats = store.beats(session)
            live = self._live(heartbeats)
            found = store.shards(session)
            moves = share_out(found, live, self.holder)
            if moves.give:
                store.give_back(session, moves.give, self.holder)
            taken = store.take(session, moves.take, self.holder) if moves.take else []
        kept = [
            Lease(shard.number, shard.fencing)
            for shard in found
            if shard.holder == self.holder and shard.number not in moves.give
        ]
        # Only after the commit; until then the earlier leases are valid.
        self._held = {lease.shard: lease for lease in [*kept, *taken]}
        # One transaction each: two processes that take each other for dead could deadlock otherwise.
        for holder in sorted(set(heartbeats) - live):
            with self._database.write() as session:
                store.forget_replica(session, holder)

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
