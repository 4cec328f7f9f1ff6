"""Limits that all share: of what the others leave, one job or caller may have half, so that none can fill a limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

from tidemark.controller.base.errors import LimitReachedError

LIMITS: Mapping[str, str] = MappingProxyType(
    {
        "partitions": "partitions of one stream (TIDEMARK_MAX_PARTITIONS)",
        "streams": "streams (TIDEMARK_MAX_STREAMS); does a job take a new name at each start?",
        "polls": "requests that wait for a new bound (TIDEMARK_MAX_OPEN_POLLS); ask without waiting",
        "bodies": "bytes of bodies that are read at once (8 of TIDEMARK_MAX_BODY_BYTES)",
    }
)
"""The limits by name, with what they count and what helps."""


def _share(most: int, of_one: int, of_all: int) -> int:
    # Rounded up: what is left in the end is for one who has nothing.
    return max(-(-(most - of_all + of_one) // 2), 0)


def check_share(limit: str, most: int, of_one: int, of_all: int, new: int = 1) -> None:
    """Check that one who has ``of_one`` of what all have can have so much more of a limit.

    Raises:
        LimitReachedError: when not now.
    """
    share = _share(most, of_one, of_all)
    if of_one + new > share:
        raise LimitReachedError(
            f"{of_all:,} of {most:,}, {of_one:,} of them this one's, whose share is {share:,}: {LIMITS[limit]}"
        )


def used(most: int, by_one: Mapping[Any, int]) -> float:
    """Return how much of a limit is used, or of the share of who has most of its own; 1 is full."""
    of_all = sum(by_one.values())
    parts = [(of_all, most), *((own, _share(most, own, of_all)) for own in by_one.values())]
    return max(own / max(part, 1) for own, part in parts)


class Shares:
    """What callers have of a limit of this process, while they have it."""

    def __init__(self, limit: str, most: int) -> None:
        self._limit, self._most = limit, most
        self._by_one: Counter[Hashable] = Counter()

    @property
    def total(self) -> int:
        """What all have; may be read from any thread."""
        return self._by_one.copy().total()

    @property
    def used(self) -> float:
        """How much is used; may be read from any thread."""
        return used(self._most, self._by_one.copy())

    @contextmanager
    def taken(self, one: Hashable, amount: int = 1) -> Iterator[None]:
        """Have so much within the context; on one thread.

        Raises:
            LimitReachedError: when there is no room for it.
        """
        check_share(self._limit, self._most, self._by_one[one], self._by_one.total(), amount)
        self._by_one[one] += amount
        try:
            yield
        finally:
            self._by_one[one] -= amount
            if not self._by_one[one]:
                del self._by_one[one]
