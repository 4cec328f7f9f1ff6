"""The evidence on streams over their horizons: rollups and the tail, and the batches that are kept in memory.

Sums and needs are read as rollups, of which those that are still the same are not added up again (``SlotCache``).
When windows were emitted, and the pace, are kept for the streams that are read, and moved on at each read by what is
new in the store. They are validated against the store each time, so that they are right on a replica that does not
decide the stream, and after a restart they are read again. So is what cannot be moved on exactly: after a report that
came out of order (it changes the steps of later ones), when a horizon moved by more than ``_MAX_SLIDE_US``, and after
whatever the stream's count of reports does not explain.
"""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Generic, TypeVar

from sqlalchemy import Row, bindparam, func, select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.tables import ReportRow, StreamRow
from tidemark.controller.base.errors import StreamBusyError
from tidemark.controller.evidence.batch_cache import STEP_ROW, BatchCache, CachedKeys, CachedSteps
from tidemark.controller.evidence.horizon import Horizon, facts_from
from tidemark.controller.evidence.join_cache import JoinCache
from tidemark.controller.evidence.roll_up import TailNeeds
from tidemark.controller.evidence.rollups import (
    Rollup,
    merged,
    needs_of,
    needs_of_row,
    overdispersion_of,
    partition_needs,
    rollups_in,
    sums_of,
)
from tidemark.models.base.operators import Int64s, TimeWindow
from tidemark.models.evidence.curve import Curve, Emissions
from tidemark.models.evidence.events import Overdispersion
from tidemark.models.evidence.horizon import HorizonFacts, event_slot_us
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.slots import HOUR_US

T = TypeVar("T")

MAX_BYTES = 384 * 1024 * 1024
"""Size of the cache: some 1,100 streams with a horizon of a day and a batch every three seconds."""

_MAX_SLIDE_US = HOUR_US
"""How far the start of a horizon may move at once; further back, reports may be deleted already."""

_MAX_WAIT_SECONDS = 20.0
"""How long a reader waits for another one of the same stream, in seconds."""


class EvidenceCache:
    """Reads the evidence on streams. Safe to call from several threads.

    Args:
        max_bytes: size of what is kept, in bytes. When it is full, entries are dropped at random: streams are decided
            in turn, so the one read least recently would be the very next one.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._entries: dict[tuple[int, int], _Entry] = {}
        self.joins = JoinCache()
        """The evidence on joins."""
        self.tail = TailNeeds()
        """Needs of the newest reports, until they are rolled up."""
        self._dice = random.Random(0)  # noqa: S311 - no secret
        self.nbytes = 0
        """How much memory the kept batches take, in bytes."""

    def everything(self, session: Session, horizon: Horizon) -> tuple[HorizonFacts, Curve, Int64s]:
        """Return the sums over a horizon, its completeness and latency by bound, and its pace."""
        parts, emissions, pace = self._of(
            session,
            horizon,
            lambda cached: (
                cached.rollups(session, horizon),
                cached.emissions(session, horizon),
                cached.pace(session, horizon),
            ),
        )
        curve = Curve(needs_of(parts), emissions, overdispersion_of(parts, event_slot_us(horizon.length_ms)))
        return _facts_of(session, horizon, parts), curve, pace

    def facts(self, session: Session, horizon: Horizon) -> tuple[HorizonFacts, Overdispersion, Int64s]:
        """Return the sums over a horizon, how unevenly late rows came, and its pace."""
        parts, pace = self._of(
            session,
            horizon,
            lambda cached: (cached.rollups(session, horizon), cached.pace(session, horizon)),
        )
        return (
            _facts_of(session, horizon, parts),
            overdispersion_of(parts, event_slot_us(horizon.length_ms)),
            pace,
        )

    def partition_needs(self, session: Session, horizon: Horizon) -> PartitionNeeds:
        """Return the needs of each partition over a horizon."""
        return self._of(session, horizon, lambda cached: cached.partition_needs(session, horizon))

    def pace(self, session: Session, horizon: Horizon) -> Int64s:
        """Return ``PACE_COLUMNS`` of the newest batches of its newest query, in order, shape (batches, 4)."""
        return self._of(session, horizon, lambda cached: cached.pace(session, horizon))

    def forget(self, stream_id: int) -> None:
        """Drop what is kept of a stream that was deleted."""
        with self._lock:
            for key in [key for key in self._entries if key[0] == stream_id]:
                self._drop(self._entries.pop(key))

    def _of(self, session: Session, horizon: Horizon, read: Callable[[CachedHorizon], T]) -> T:
        key = horizon.stream_id, horizon.length_ms
        with self._lock:
            entry = self._entries.setdefault(key, _Entry())
        with _held(entry.lock):
            marker = _marker_of(session, horizon.stream_id)
            cached, entry.cached = entry.cached, None
            if cached is not None and cached.is_ahead_of(marker):
                # This reader's snapshot of the store is older.
                entry.cached = cached
                return read(CachedHorizon(session, horizon, marker))
            if cached is None or not cached.move_to(session, horizon, marker):
                cached = CachedHorizon(session, horizon, marker)
            answer = read(cached)
            # Only now: what failed half-way is dropped.
            entry.cached = cached
            nbytes = cached.nbytes
        self._make_room(key, entry, nbytes)
        return answer

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


class _Entry:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.cached: CachedHorizon | None = None
        self.nbytes = 0


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


def _facts_of(session: Session, horizon: Horizon, parts: Sequence[Rollup]) -> HorizonFacts:
    sums = sums_of(parts)
    assert sums is not None, "a horizon holds its newest batch"
    return facts_from(session, horizon, sums)


@dataclass(frozen=True, slots=True)
class _Marker:
    """How far a stream's reports are read."""

    report_id: int
    """The report stored last; 0 without any."""
    reports: int
    """How many were stored so far."""


def _marker_of(session: Session, stream_id: int) -> _Marker:
    """Return how far the reports of a known stream go."""
    report_id, reports = session.connection().execute(_MARKER, {"stream": stream_id}).one()
    return _Marker(report_id or 0, reports)


class SlotCache(Generic[T]):
    """What stored rollups add up to, decoded and added up once for as long as their rows are the same.

    The newest one, which changes whenever reports are rolled up, is decoded at each read.

    Args:
        decode: returns what a row holds.
        add_up: returns the sum of what rows hold.
    """

    def __init__(self, decode: Callable[[Row[Any]], T], add_up: Callable[[list[T]], T]) -> None:
        self._decode = decode
        self._add_up = add_up
        self._rows: list[tuple[Any, ...]] = []
        self._sum: list[T] = []
        self.nbytes = 0
        """Memory that the rows take, in bytes; their sum takes less."""

    def read(self, rows: Sequence[Row[Any]]) -> list[T]:
        """Return what rows, in order, add up to, in at most two parts."""
        closed = [tuple(row) for row in rows[:-1]]
        if closed != self._rows:
            self._sum = [self._add_up([self._decode(row) for row in rows[:-1]])] if closed else []
            self._rows = closed
            self.nbytes = sum(sys.getsizeof(value) for row in closed for value in (row, *row))
        return [*self._sum, *map(self._decode, rows[-1:])]


class CachedHorizon:
    """What is kept of the newest query of one stream over a horizon of one length, each part once it was asked for.

    Args:
        horizon: the horizon now.
        marker: how far the reports go now.
    """

    def __init__(self, session: Session, horizon: Horizon, marker: _Marker) -> None:
        self._query_id = horizon.newest.query_id
        which = {"stream": horizon.stream_id, "query": self._query_id}
        self._last_batch: int = session.connection().execute(_LAST_BATCH, which).scalar_one()
        self._from_us = horizon.from_us
        self._marker = marker
        self._steps: CachedSteps | None = None
        self._keys = CachedKeys(horizon.stream_id)
        self._batches: BatchCache | None = None
        self._rollups = SlotCache(
            Rollup.of_row, lambda parts: merged(parts, parts[0].slot_us, needs_of(parts))
        )
        self._partitions = SlotCache(needs_of_row, PartitionNeeds.merged)

    @property
    def nbytes(self) -> int:
        """About how much memory it takes, in bytes."""
        parts = (self._steps, self._keys, self._batches, self._rollups, self._partitions)
        return 4_000 + sum(0 if part is None else part.nbytes for part in parts)

    def is_ahead_of(self, marker: _Marker) -> bool:
        """Return whether reports are counted that a reader who sees ``marker`` does not see yet."""
        return self._marker.report_id > marker.report_id

    def rollups(self, session: Session, horizon: Horizon) -> list[Rollup]:
        """Return what the reports add up to, in some parts."""
        return rollups_in(session, horizon.span, event_slot_us(horizon.length_ms), self._rollups.read)

    def partition_needs(self, session: Session, horizon: Horizon) -> PartitionNeeds:
        """Return the needs of each partition."""
        return partition_needs(session, horizon.span, self._partitions.read)

    def emissions(self, session: Session, horizon: Horizon) -> Emissions | None:
        """Return when windows would have been emitted; None for operators without windows."""
        if not isinstance(horizon.newest.operator, TimeWindow):
            self._steps = None
            return None
        if self._steps is None:
            self._steps = CachedSteps.read(session, horizon)
        steps = self._steps.steps()
        return steps.emissions(self._keys.between(session, steps.after_us, steps.until_us))

    def pace(self, session: Session, horizon: Horizon) -> Int64s:
        """Return ``PACE_COLUMNS`` of the newest batches."""
        if self._batches is None:
            self._batches = BatchCache(session, horizon)
        return self._batches.table

    def move_to(self, session: Session, horizon: Horizon, marker: _Marker) -> bool:
        """Move on to what the store has now; return False when that takes reading it again."""
        slide_us = horizon.from_us - self._from_us
        if marker == self._marker and not slide_us:
            return True
        if not 0 <= slide_us <= _MAX_SLIDE_US or horizon.newest.query_id != self._query_id:
            return False
        connection = session.connection()
        read = {"stream": horizon.stream_id, "last": self._marker.report_id}
        new = connection.execute(
            _NEW, {**read, "after": self._marker.report_id, "last": marker.report_id}
        ).all()
        batches = [row for row in new if row.query_id == self._query_id]
        ids = [self._last_batch, *(row.batch_id for row in batches)]
        explained = len(new) == marker.reports - self._marker.reports
        # A batch that came and left the horizon since counts towards what was known before the horizon.
        left = any(row.seen_us < horizon.from_us for row in batches)
        if not explained or left or any(later <= earlier for earlier, later in pairwise(ids)):
            return False
        gone: Sequence[Row[Any]] = ()
        if slide_us and self._steps is not None:
            span = {"from": self._from_us, "until": horizon.from_us}
            gone = connection.execute(_GONE, {**read, **span, "query": self._query_id}).all()
        # Reports of earlier batches too add keys, or rows to them.
        self._keys.forget_from(row.first_key_us for row in new)
        if self._steps is not None and not self._steps.move_to(batches, gone):
            self._steps = None
        if self._batches is not None and not self._batches.move_to(horizon, batches):
            self._batches = None
        self._from_us, self._marker, self._last_batch = horizon.from_us, marker, ids[-1]
        return True


# Built once: building them takes longer than running them.
_MARKER = select(
    select(func.max(ReportRow.id))
    .where(ReportRow.stream_id == StreamRow.id)
    .correlate(StreamRow)
    .scalar_subquery(),
    StreamRow.reports,
).where(StreamRow.id == bindparam("stream"))
_LAST_BATCH = select(func.max(ReportRow.batch_id)).where(
    ReportRow.stream_id == bindparam("stream"), ReportRow.query_id == bindparam("query")
)
_COLUMNS = (ReportRow.query_id, ReportRow.batch_id, ReportRow.seen_us, *STEP_ROW)
_NEW = (
    select(*_COLUMNS)
    .where(
        ReportRow.stream_id == bindparam("stream"),
        ReportRow.id > bindparam("after"),
        ReportRow.id <= bindparam("last"),
    )
    .order_by(ReportRow.id)
)
_GONE = (
    select(*_COLUMNS)
    .where(
        ReportRow.stream_id == bindparam("stream"),
        ReportRow.query_id == bindparam("query"),
        ReportRow.seen_us >= bindparam("from"),
        ReportRow.seen_us < bindparam("until"),
        ReportRow.id <= bindparam("last"),
    )
    .order_by(ReportRow.seen_us, ReportRow.batch_id)
)
