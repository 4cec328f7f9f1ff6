"""Shared reads of the store: callers that ask for the same at the same time share one read.

A thousand requests that wait for one bound are woken together; one read, begun after the last of them asked, answers
them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

from fastapi.concurrency import run_in_threadpool

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
