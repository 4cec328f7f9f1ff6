"""The evidence on the streams that are read, kept in memory and moved on at each read (``kept_evidence``).

It is validated against the store at each read, so that it is right on a replica that does not decide the stream, and
after a restart it is read from the store again.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from sqlalchemy.orm import Session

from tidemark.controller.errors import StreamBusyError
from tidemark.controller.evidence.horizon import Horizon
from tidemark.controller.evidence.kept_evidence import KeptEvidence, marker_of
from tidemark.controller.evidence.kept_joins import KeptJoins
from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.curve import Curve
from tidemark.models.evidence.horizon import HorizonFacts

T = TypeVar("T")

MAX_BYTES = 384 * 1024 * 1024
"""Size of the cache: some 1,300 streams with a horizon of a day and a batch every three seconds."""


_MAX_WAIT_SECONDS = 20.0
"""How long a reader waits for another one of the same stream, in seconds."""


@contextmanager
def _held(lock: threading.Lock) -> Iterator[None]:
    """Hold a lock; waiting without an end would take the threads of all requests, one after the other.

    Raises:
        StreamBusyError: when another reader holds it too long.
    """
    if not lock.acquire(timeout=_MAX_WAIT_SECONDS):
        raise StreamBusyError(
            "the evidence on this stream is still being computed for another request; ask again",
            headers={"Retry-After": "30"},
        )
    try:
        yield
    finally:
        lock.release()


class _Entry:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.kept: KeptEvidence | None = None
        self.nbytes = 0


class EvidenceCache:
    """Keeps the evidence on streams. Safe to call from several threads.

    Args:
        max_bytes: its size, in bytes. When it is full, entries are dropped at random: streams are decided in turn, so
            the one read least recently would be the very next one.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._entries: dict[tuple[int, int], _Entry] = {}
        self.joins = KeptJoins()
        """The evidence on joins."""
        self._dice = random.Random(0)  # noqa: S311 - no secret
        self.nbytes = 0
        """How much memory the kept evidence takes, in bytes."""

    def facts(self, session: Session, horizon: Horizon) -> HorizonFacts:
        """Return the sums over a horizon."""
        return self._of(session, horizon, lambda kept: kept.facts(session, horizon))

    def facts_and_curve(self, session: Session, horizon: Horizon) -> tuple[HorizonFacts, Curve]:
        """Return the sums over a horizon, and its completeness and latency by bound."""
        return self._of(
            session, horizon, lambda kept: (kept.facts(session, horizon), kept.curve(session, horizon))
        )

    def everything(self, session: Session, horizon: Horizon) -> tuple[HorizonFacts, Curve, Int64s]:
        """Return what ``facts_and_curve`` and ``pace`` return, checking the store once."""
        return self._of(
            session,
            horizon,
            lambda kept: (
                kept.facts(session, horizon),
                kept.curve(session, horizon),
                kept.pace(session, horizon),
            ),
        )

    def facts_and_pace(self, session: Session, horizon: Horizon) -> tuple[HorizonFacts, Int64s]:
        """Return what ``facts`` and ``pace`` return, checking the store once."""
        return self._of(
            session, horizon, lambda kept: (kept.facts(session, horizon), kept.pace(session, horizon))
        )

    def pace(self, session: Session, horizon: Horizon) -> Int64s:
        """Return ``PACE_COLUMNS`` of the newest batches of its newest query, in order, shape (batches, 4)."""
        return self._of(session, horizon, lambda kept: kept.pace(session, horizon))

    def forget(self, stream_id: int) -> None:
        """Drop what is kept of a stream that was deleted."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == stream_id]:
                self._drop(self._entries.pop(key))

    def _of(self, session: Session, horizon: Horizon, read: Callable[[KeptEvidence], T]) -> T:
        key = horizon.stream_id, horizon.length_ms
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
        with _held(entry.lock):
            marker = marker_of(session, horizon.stream_id)
            kept, entry.kept = entry.kept, None
            if kept is not None and kept.is_ahead_of(marker):
                # This reader's snapshot of the store is older.
                entry.kept = kept
                return read(KeptEvidence(session, horizon))
            if kept is None or not kept.move_to(session, horizon, marker):
                kept = KeptEvidence(session, horizon)
            found = read(kept)
            # Only now: what failed half-way is dropped.
            entry.kept = kept
            nbytes = kept.nbytes
        self._make_room(key, entry, nbytes)
        return found

    def _make_room(self, key: tuple[int, int], entry: _Entry, nbytes: int) -> None:
        with self._lock:
            if self._entries.get(key) is not entry:
                # Others have dropped it meanwhile.
                return
            self.nbytes += nbytes - entry.nbytes
            entry.nbytes = nbytes
            while self.nbytes > self._max_bytes and len(self._entries) > 1:
                dropped = self._dice.choice([other for other in self._entries if other != key])
                self._drop(self._entries.pop(dropped))

    def _drop(self, entry: _Entry) -> None:
        self.nbytes -= entry.nbytes
        entry.nbytes = 0
