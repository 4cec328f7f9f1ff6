"""Reads of the store that many wait for at once: each is answered by one that begins after it was asked for.

A thousand requests that wait for one bound are woken together, and one read answers them all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any, TypeVar, cast

from fastapi.concurrency import run_in_threadpool

__all__ = ["SharedReads"]

V = TypeVar("V")


class SharedReads:
    """Shares reads by key; it belongs to the event loop that serves the requests."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[Any]] = {}
        self._next: dict[Hashable, asyncio.Task[Any]] = {}

    async def read(self, key: Hashable, read: Callable[[], V]) -> V:
        """Return what a read that begins from now on finds; it raises what that raises.

        Args:
            key: what is read; whoever asks for the same shares the read.
            read: reads it, in a thread.
        """
        task = self._next.get(key)
        if task is None:
            task = asyncio.create_task(self._run(key, read, self._under_way.get(key)))
            self._next[key] = task
        # One who goes away does not take it from the others.
        return cast("V", await asyncio.shield(task))

    async def _run(self, key: Hashable, read: Callable[[], V], before: asyncio.Task[Any] | None) -> V:
        if before is not None:
            await asyncio.wait([before])
        # Whoever asks from here on may ask for what is written after the read began.
        task = self._next.pop(key)
        self._under_way[key] = task
        try:
            return await run_in_threadpool(read)
        finally:
            if self._under_way.get(key) is task:
                del self._under_way[key]
