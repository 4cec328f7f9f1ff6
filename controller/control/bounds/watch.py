"""Long polls for a new bound: each request is answered when there is one, or when its time is up.

A waiting request holds neither a database connection nor a thread. One task reads the versions of all answers that
requests of this process wait for, once a second, so that it sees what other replicas write too. A commit of this
process makes it read at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar, cast

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import Text, and_, type_coerce
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.epoch import epoch_of, version_in
from tidemark.controller.base.db.tables import PublishedRow, StreamRow
from tidemark.controller.base.shares import Shares
from tidemark.controller.control.bounds.publication import newest_generation_query
from tidemark.controller.specs.pins import pins_in_force
from tidemark.controller.specs.streams import named_streams, names_given
from tidemark.models.specs.pin import StoredPin

_log = logging.getLogger(__name__)

_POLL_SECONDS = 1.0
"""Time between two reads while a request waits: what another replica writes is seen within it."""

_MIN_PAUSE_SECONDS = 0.02
"""Minimum time between two reads: a tick that decides a thousand streams commits a thousand times."""

_Name = tuple[str, str]
"""Job and stream."""


class Waiter:
    """One waiting request; it belongs to the event loop."""

    def __init__(self) -> None:
        self._event = asyncio.Event()
        self._stored: str | None = None
        self._held: str | None = None
        self._released = False

    def forget(self) -> None:
        """Forget the stored version: the caller reads the answer itself next."""
        self._event.clear()
        self._stored = self._held = None

    def notify(self, version: str) -> None:
        """Set the version that the store has."""
        self._stored = version
        if self._held not in {None, version}:
            self._event.set()

    def release(self) -> None:
        """End the wait, whether or not anything changed."""
        self._released = True
        self._stored = None
        self._event.set()

    async def changed(self, version: str, seconds: float) -> bool:
        """Wait until the store has another version than ``version``; return False when the time is up first."""
        self._held = version
        if self._released:
            return False
        if self._stored in {None, version}:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._event.wait()
        return self._stored not in {None, version}


class Watch:
    """All requests of this process that wait for a new answer.

    Args:
        max_waiting: how many requests may wait at once, of all callers together.
        poll_seconds: time between two reads while a request waits, in seconds.
    """

    def __init__(self, database: Database, max_waiting: int, poll_seconds: float = _POLL_SECONDS) -> None:
        self._database = database
        self.callers = Shares("polls", max_waiting)
        """Who waits."""
        self._poll_seconds = poll_seconds
        self._waiters: dict[_Name, set[Waiter]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._any_waiter = asyncio.Event()
        self._written = asyncio.Event()
        self._released = False
        self.polls = 0
        """Reads of the store so far."""

    def start(self) -> None:
        """Start; called in the event loop that serves the requests."""
        self._loop = asyncio.get_running_loop()
        self._task = self._loop.create_task(self._run(), name="tidemark-watch")

    @property
    def waiting(self) -> int:
        """Number of waiting requests; may be read from any thread."""
        return self.callers.total

    @property
    def released(self) -> bool:
        """Whether all waits were ended, because the server stops."""
        return self._released

    def release(self) -> None:
        """End all waits, present and future ones; called in the event loop when the server stops."""
        self._released = True
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.release()

    async def stop(self) -> None:
        """End all waits and stop reading."""
        self.release()
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._loop = self._task = None

    def wake(self) -> None:
        """Read the store at once, because something was written; called from any thread."""
        loop = self._loop
        if loop is not None:
            # The loop may be closing; then no request waits.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._written.set)

    @contextmanager
    def waiter(self, job: str, stream: str, caller: Hashable) -> Iterator[Waiter]:
        """Open a wait of ``caller`` for a stream's answer; no later change is missed.

        Raises:
            LimitReachedError: when too many requests wait, or too many of this caller.
        """
        name, waiter = (job, stream), Waiter()
        with self.callers.taken(caller):
            if self._released:
                waiter.release()
            self._waiters.setdefault(name, set()).add(waiter)
            self._any_waiter.set()
            try:
                yield waiter
            finally:
                self._waiters[name].discard(waiter)
                if not self._waiters[name]:
                    del self._waiters[name]

    async def _run(self) -> None:
        while True:
            if not self._waiters:
                self._any_waiter.clear()
                await self._any_waiter.wait()
            # Cleared before the read: what is written during it causes another one.
            self._written.clear()
            await self._poll()
            await asyncio.sleep(_MIN_PAUSE_SECONDS)
            with suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds):
                    await self._written.wait()

    async def _poll(self) -> None:
        names = list(self._waiters)
        try:
            # Not in the thread pool that serves requests: when that is full, changes are still seen.
            newest = await asyncio.to_thread(self._versions, names)
        except Exception:  # noqa: BLE001 - the store may be back at the next read
            _log.exception("versions of the bounds could not be read; the next poll tries again")
            return
        finally:
            self.polls += 1
        for name, version in newest.items():
            for waiter in self._waiters.get(name, ()):
                waiter.notify(version)

    def _versions(self, names: list[_Name]) -> dict[_Name, str]:
        with self._database.read() as session:
            return versions(session, names)


_UNREPORTED = "unreported"
"""Version of the answer for a stream that has not reported; once it has, generation 0 has another reason."""


def versions(session: Session, streams: Collection[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the version of the answer of each of ``streams``, by job and stream; unknown streams have one too.

    It changes whenever the answer does, and never names another answer, in no history of the store.
    """
    dialect = session.get_bind().dialect.name
    published = (
        PublishedRow.stream_id,
        PublishedRow.generation,
        PublishedRow.published_us,
        PublishedRow.mode,
        PublishedRow.bound_ms,
        type_coerce(PublishedRow.envelope, Text).label("envelope"),
        PublishedRow.pin,
    )
    query = named_streams(
        dialect, StreamRow.job, StreamRow.stream, StreamRow.registered_us, *published
    ).outerjoin(
        PublishedRow,
        and_(PublishedRow.stream_id == StreamRow.id, PublishedRow.generation == newest_generation_query()),
    )
    rows = {(row.job, row.stream): row for row in session.execute(query, names_given(dialect, streams)).all()}
    epoch = epoch_of(session)
    pins = pins_in_force(
        session, [name for name in streams if name not in rows or rows[name].generation is None]
    )
    return {name: _version(epoch, rows.get(name), pins.get(name)) for name in streams}


def _version(epoch: str, row: Any, pin: StoredPin | None) -> str:
    """Return the version of one answer; ``row`` is None for an unknown stream, ``pin`` once a generation names it."""
    if row is not None and row.generation is not None:
        return version_in(
            epoch,
            row.generation,
            row.stream_id,
            row.published_us,
            row.mode,
            row.bound_ms,
            row.envelope,
            row.pin,
        )
    # Without a pin these answers never differ.
    base = _UNREPORTED if row is None or row.registered_us is None else "0"
    return base if pin is None else version_in(epoch, base, pin.since_us, pin.to, pin.reason)


V = TypeVar("V")


class SharedReads:
    """Shares reads by key; it belongs to the event loop that serves the requests."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[Any]] = {}
        self._next: dict[Hashable, asyncio.Task[Any]] = {}

    async def read(self, key: Hashable, read: Callable[[], V]) -> V:
        """Return the result of a read that begins from now on, or raise its error.

        Args:
            key: what is read; callers with the same key share the read.
            read: reads it, in a thread.
        """
        task = self._next.get(key)
        if task is None:
            task = asyncio.create_task(self._run(key, read, self._under_way.get(key)))
            self._next[key] = task
        # A caller that is cancelled does not cancel the read for the others.
        return cast("V", await asyncio.shield(task))

    async def _run(self, key: Hashable, read: Callable[[], V], before: asyncio.Task[Any] | None) -> V:
        if before is not None:
            await asyncio.wait([before])
        # Later callers may expect what is written after the read began: they get the next read.
        task = self._next.pop(key)
        self._under_way[key] = task
        try:
            return await run_in_threadpool(read)
        finally:
            if self._under_way.get(key) is task:
                del self._under_way[key]
