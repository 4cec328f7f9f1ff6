"""Shared reads: many who ask at once are answered by one read, which begins after each of them asked."""

from __future__ import annotations

import asyncio
import threading

import pytest

from tidemark.controller.control.bounds.watch import SharedReads

from support.patience import PATIENCE_S


class Store:
    """Something to read that says how often it was, and can be held back."""

    def __init__(self) -> None:
        self.value = 0
        self.reads = 0
        self.may_end = threading.Event()
        self.may_end.set()
        self.began = threading.Event()

    def read(self) -> int:
        self.reads += 1
        found = self.value
        self.began.set()
        assert self.may_end.wait(PATIENCE_S)
        return found


def test_those_who_ask_at_once_share_one_read() -> None:
    store, reads = Store(), SharedReads()

    async def ask() -> list[int]:
        return await asyncio.gather(*(reads.read("key", store.read) for _ in range(100)))

    assert asyncio.run(ask()) == [0] * 100
    assert store.reads == 1


def test_who_asks_after_a_read_began_is_answered_by_the_next_one() -> None:
    """What was written before a question is in its answer, though a read from before that is under way."""
    store, reads = Store(), SharedReads()
    store.may_end.clear()

    async def ask() -> tuple[int, list[int]]:
        first = asyncio.create_task(reads.read("key", store.read))
        assert await asyncio.to_thread(store.began.wait, PATIENCE_S)
        store.value = 1
        later = [asyncio.create_task(reads.read("key", store.read)) for _ in range(5)]
        await asyncio.sleep(0)
        store.may_end.set()
        return await first, await asyncio.gather(*later)

    assert asyncio.run(ask()) == (0, [1] * 5)
    assert store.reads == 2


def test_other_keys_are_read_apart() -> None:
    reads = SharedReads()

    async def ask() -> tuple[str, str]:
        a, b = await asyncio.gather(reads.read("a", lambda: "of a"), reads.read("b", lambda: "of b"))
        return a, b

    assert asyncio.run(ask()) == ("of a", "of b")


def test_who_goes_away_does_not_take_the_answer_from_the_others() -> None:
    store, reads = Store(), SharedReads()
    store.may_end.clear()

    async def ask() -> int:
        gone = asyncio.create_task(reads.read("key", store.read))
        stays = asyncio.create_task(reads.read("key", store.read))
        assert await asyncio.to_thread(store.began.wait, PATIENCE_S)
        gone.cancel()
        store.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await gone
        return await stays

    assert asyncio.run(ask()) == 0
    assert store.reads == 1


def test_a_read_that_fails_fails_for_all_who_share_it_and_not_for_the_next() -> None:
    store, reads = Store(), SharedReads()

    def fail() -> int:
        raise OSError("no store")

    async def ask() -> tuple[list[int | BaseException], int]:
        asked = (reads.read("key", fail) for _ in range(3))
        failed = await asyncio.gather(*asked, return_exceptions=True)
        return failed, await reads.read("key", store.read)

    failed, found = asyncio.run(ask())
    assert [type(each) for each in failed] == [OSError] * 3
    assert found == 0
