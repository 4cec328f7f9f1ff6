"""Limits that all share: of what the others leave, one job or caller may have half, so that none can fill a limit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

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


def check_share(limit: str, most: int, of_one: int, of_all: int, new: int = 1) -> None:
    """Check that there is room for more.

    Args:
        limit: name of the limit.
        most: the limit.
        of_one: what the job or the caller has of it.
        of_all: what all have of it, this one included.
        new: what it wants in addition.

    Raises:
        LimitReachedError: when there is none now.
    """
    # Rounded up: what is left in the end is for one who has nothing.
    share = -(-(most - of_all + of_one) // 2)
    if of_one + new > share:
        raise LimitReachedError(
            f"{of_all:,} of {most:,}, {of_one:,} of them this one's, whose share is {max(share, 0):,}: {LIMITS[limit]}"
        )


def used(most: int, by_one: Mapping[Hashable, int]) -> float:
    """Return how much of a limit is used: of all of it, or of the share of who has most of its own; 1 is full."""
    of_all = sum(by_one.values())
    shares = ((own, -(-(most - of_all + own) // 2)) for own in by_one.values())
    return max(
        [of_all / most if most else 1.0, *(own / share if share > 0 else 1.0 for own, share in shares)]
    )


class Shares:
    """What callers have of a limit of this process, while they have it. For one thread."""

    def __init__(self, limit: str, most: int) -> None:
        self._limit, self._most = limit, most
        self._by_one: Counter[Hashable] = Counter()

    @property
    def total(self) -> int:
        """What all have; may be read from any thread."""
        return sum(self._by_one.copy().values())

    @property
    def used(self) -> float:
        """How much is used, as ``used`` says; may be read from any thread."""
        return used(self._most, self._by_one.copy())

    @contextmanager
    def taken(self, one: Hashable, amount: int = 1) -> Iterator[None]:
        """Have so much of the limit within the context.

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
