"""Which streams this process decides: leases taken, kept by a heartbeat, shared out among replicas, and given back.

A process gives signs of life in the store. Whoever sees none of another's for the length of a lease, by its own
steady clock alone, may take over what that one held. Clocks are never compared, so a wrong one costs nothing; and when
a process that lives is taken for dead all the same, its fencing number stops it from writing (``store.leases``).
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
from tidemark.controller.runtime.clock import Clock

__all__ = ["LeaseKeeper", "Moves", "share_out"]

_log = logging.getLogger(__name__)

BEATS_A_LEASE = 3
"""How many signs of life are given in the length of a lease: two may fail."""

STOP_TIMEOUT_SECONDS = 5.0
"""How long a shutdown waits for the sign of life that is under way."""


@dataclass(frozen=True, slots=True)
class Moves:
    """What one process does about the shards."""

    take: tuple[Shard, ...] = ()
    """To take, as they were read."""
    give: tuple[int, ...] = ()
    """To give back, by number."""


def share_out(shards: Sequence[Shard], live: Collection[str], me: str) -> Moves:
    """Return what ``me`` does so that the processes in ``live``, itself among them, share the shards evenly.

    Each holds at most its share, rounded up. When all have moved often enough every shard is held, and none moves on.
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
        lease_seconds: how long another process may show no sign of life until its leases are taken over, in seconds.
        clock: the wall time in microseconds, for the record only.
        steady: a clock that never jumps, in seconds.
        holder: name of this process, another one at each start.
    """

    def __init__(
        self,
        database: Database,
        lease_seconds: float,
        clock: Clock,
        steady: Callable[[], float] = time.monotonic,
        holder: str | None = None,
    ) -> None:
        self.holder = uuid4().hex if holder is None else holder
        self._database = database
        self._lease_seconds = lease_seconds
        self._clock = clock
        self._steady = steady
        self._lock = threading.Lock()
        self._held: dict[int, Lease] = {}
        self._heard: dict[str, tuple[int, float]] = {}
        self._kept: float | None = None
        self._beats = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tidemark-leases", daemon=True)

    @property
    def held(self) -> int:
        """How many shards this process holds, as far as it knows."""
        return len(self._held)

    def lease_of(self, stream_id: int) -> Lease | None:
        """Return the lease under which this process may decide a stream; None when that is another one's business.

        It may be lost by now: ``store.leases.confirm`` says so in the transaction that writes.
        """
        return self._held.get(store.shard_of(stream_id))

    def keep(self, *, now: bool = False) -> None:
        """Give a sign of life, take over what nobody holds, and give back what others should.

        Does nothing when that was done a short while ago, unless it is to be done ``now``.

        Raises:
            sqlalchemy.exc.SQLAlchemyError: when the store does not answer; what is held stays held until it is lost.
        """
        with self._lock:
            if self._stop.is_set():
                return
            pause = self._lease_seconds / BEATS_A_LEASE / 2
            if not now and self._kept is not None and self._steady() - self._kept < pause:
                return
            self._keep()
            self._kept = self._steady()

    def start(self) -> None:
        """Keep the leases from now on, in a thread of its own: a long turn of the loop must not lose them."""
        self._thread.start()

    def stop(self) -> None:
        """Give all leases back, so that another process can go on at once."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_TIMEOUT_SECONDS)
        with self._lock:
            try:
                with self._database.write() as session:
                    store.give_back(session, self._held, self.holder)
                    store.forget_replica(session, self.holder)
            except Exception:  # noqa: BLE001 - they run out by themselves
                _log.exception("leases could not be given back; they run out by themselves")
            self._held = {}

    def _keep(self) -> None:
        with self._database.write() as session:
            # Counted here, so that one that was forgotten in between does not look like an old one.
            self._beats += 1
            store.beat(session, self.holder, self._beats)
            store.make_shards(session)
            signs = store.beats(session)
            live = self._live(signs)
            found = store.shards(session)
            moves = share_out(found, live, self.holder)
            if moves.give:
                store.give_back(session, moves.give, self.holder)
            taken = store.take(session, moves.take, self.holder, self._clock()) if moves.take else []
        kept = [
            Lease(shard.number, shard.fencing)
            for shard in found
            if shard.holder == self.holder and shard.number not in moves.give
        ]
        # Only once it is committed; until then what was held before is what confirms.
        self._held = {lease.shard: lease for lease in [*kept, *taken]}
        # Apart, one by one: two processes that take each other for dead would wait for each other's row.
        for holder in sorted(set(signs) - live):
            with self._database.write() as session:
                store.forget_replica(session, holder)

    def _live(self, signs: dict[str, int]) -> set[str]:
        now = self._steady()
        heard = {}
        for holder, count in signs.items():
            before = self._heard.get(holder)
            heard[holder] = before if before is not None and before[0] == count else (count, now)
        self._heard = heard
        return {
            holder
            for holder, (_, since) in heard.items()
            if holder == self.holder or now - since < self._lease_seconds
        }

    def _run(self) -> None:
        while not self._stop.wait(self._lease_seconds / BEATS_A_LEASE):
            try:
                self.keep()
            except Exception:  # noqa: BLE001 - the store may be back at the next sign
                _log.exception("no sign of life could be given; the next one tries again")
