"""A batch's rows, counted by partition and event-time granule: the part of a report that all evidence comes from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, chain
from operator import lt, sub
from typing import Annotated, Any, ClassVar

from annotated_types import MaxLen

from tidemark.models.base.ranges import WIRE


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCounts:
    """One partition's rows in one batch, counted by event-time granule (its cohorts): a part of ``GranuleCounts``."""

    partition: str
    """Name of the partition: the Kafka partition's number, or the value of the column the job named."""
    granules: tuple[int, ...]
    """Indexes of the event-time granules that rows fell into, ascending and distinct."""
    counts: tuple[int, ...]
    """Rows in each of ``granules``, above 0, in the same order."""
    future_rows: int = 0
    """Rows among them that were future-dated and set back to the clock before they could move the watermark."""

    def __post_init__(self) -> None:
        """Reject lists that do not pair up."""
        if len(self.granules) != len(self.counts):
            raise ValueError(
                f"partition {self.partition!r}: {len(self.granules)} granules but {len(self.counts)} counts"
            )
        if not all(map(lt, self.granules, self.granules[1:])):
            raise ValueError(f"partition {self.partition!r}: granules must be ascending and distinct")

    @property
    def rows(self) -> int:
        """Rows of the partition in the batch."""
        return sum(self.counts)


@dataclass(frozen=True, slots=True, kw_only=True)
class GranuleCounts:
    """A batch's rows, counted by partition and event-time granule, in columns.

    A *cell* is a granule of a partition with rows. The cells stand partition after partition, the oldest granule first.
    Columns are read several times faster than an object for each partition.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = WIRE

    partitions: Annotated[tuple[Annotated[str, MaxLen(200)], ...], MaxLen(100_000)]
    """Names of the partitions: the Kafka partition's number, or the value of the column the job named."""
    sizes: Annotated[tuple[int, ...], MaxLen(100_000)]
    """Cells of each partition."""
    granules: Annotated[tuple[int, ...], MaxLen(1_000_000)]
    """Of each partition the index of its first granule, then the distance of each one from the one before, above 0."""
    rows: Annotated[tuple[int, ...], MaxLen(1_000_000)]
    """Rows in each cell, above 0."""
    future_rows: Annotated[tuple[int, ...], MaxLen(100_000)]
    """Rows of each partition that were future-dated and set back to the clock before they could move the watermark."""

    def __post_init__(self) -> None:
        """Reject columns that do not fit each other."""
        names, cells = len(self.partitions), len(self.granules)
        for name in ("sizes", "future_rows"):
            column = getattr(self, name)
            if len(column) != names:
                raise ValueError(f"{name}: {len(column)} for {names} partitions")
            if min(column, default=0) < 0:
                raise ValueError(f"{name}: {min(column)} is below 0")
        if len(set(self.partitions)) != names:
            twice = next(name for name, times in Counter(self.partitions).items() if times > 1)
            raise ValueError(f"partitions: {twice!r} is given more than once")
        if sum(self.sizes) != cells or len(self.rows) != cells:
            raise ValueError(
                f"granules: there are {cells}, but {sum(self.sizes)} by the sizes and {len(self.rows)} counts of rows"
            )
        if min(self.rows, default=1) < 1:
            raise ValueError(f"rows: {min(self.rows)} is below 1")
        for name, start, end in self._ranges():
            if min(self.granules[start + 1 : end], default=1) < 1:
                raise ValueError(f"granules: those of partition {name!r} must be ascending and distinct")

    @classmethod
    def of(cls, parts: Iterable[PartitionCounts]) -> GranuleCounts:
        """Return the columns of ``parts``."""
        partitions = tuple(parts)
        return cls(
            partitions=tuple(part.partition for part in partitions),
            sizes=tuple(len(part.granules) for part in partitions),
            granules=tuple(chain.from_iterable(map(_steps, (part.granules for part in partitions)))),
            rows=tuple(chain.from_iterable(part.counts for part in partitions)),
            future_rows=tuple(part.future_rows for part in partitions),
        )

    def by_partition(self) -> tuple[PartitionCounts, ...]:
        """Return the counts of each partition."""
        return tuple(
            PartitionCounts(
                partition=name,
                granules=tuple(accumulate(self.granules[start:end])),
                counts=self.rows[start:end],
                future_rows=future,
            )
            for (name, start, end), future in zip(self._ranges(), self.future_rows, strict=True)
        )

    def edges(self) -> Iterator[tuple[int, int, int]]:
        """Yield of each partition with rows its position in ``partitions``, its first granule and its last one."""
        for position, (_, start, end) in enumerate(self._ranges()):
            if start < end:
                yield position, self.granules[start], sum(self.granules[start:end])

    def _ranges(self) -> Iterator[tuple[str, int, int]]:
        """Yield the name of each partition, where its cells begin and where they end."""
        ends = tuple(accumulate(self.sizes))
        return zip(self.partitions, (0, *ends), ends, strict=False)


def _steps(granules: tuple[int, ...]) -> Iterable[int]:
    return granules[:1] + tuple(map(sub, granules[1:], granules))
