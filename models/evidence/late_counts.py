"""How many rows came and how many were lost, by the values of a dimension: what a driver counts and sends.

A dimension is a column such as the region or the device. Null is a value of its own. Values beyond a limit are summed
as *other*: there is no row that is in none of the counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from itertools import zip_longest
from typing import Annotated, Any, ClassVar, Final, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from tidemark.models.base.ranges import MAX_ROWS, MAX_VALUE_LENGTH, WIRE, Count, TimeUs
from tidemark.models.base.target import PPM
from tidemark.models.evidence.losses import LossTotals, ValueLoss
from tidemark.models.evidence.slots import HOUR_US

LATE_COUNTS_SCHEMA: Final = 1
"""The version of ``LateCounts``."""

BY_PARTITION: Final = "partition"
"""The dimension of the stream's partitions, by which rows are counted beside any other one."""

MAX_VALUES = 1_000
"""Maximum number of values that are counted each by itself."""

AGE_LIMITS_MS: Final = tuple(
    seconds * 1_000
    for seconds in (1, 2, 5, 10, 30, 60, 120, 300, 600, 1_800, 3_600, 10_800, 21_600, 43_200, 86_400, 604_800)
)
"""Upper edges, inclusive, of the classes in which late rows are counted by how late they were; one more has no edge."""

AGES: Final = len(AGE_LIMITS_MS) + 1
"""Number of these classes."""

_Count = Annotated[int, Ge(0), Le(MAX_ROWS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCounts:
    """How many rows came, and what became of those that the query did not take. A row counts once."""

    __pydantic_config__: ClassVar[dict[str, Any]] = WIRE

    rows: _Count
    """All rows."""
    late: _Count = 0
    """Rows that were at or below the watermark, of a sliding window with one key at least."""
    no_event_time: _Count = 0
    """Rows that windows dropped because they have no event time."""
    set_aside: _Count = 0
    """Future-dated rows that ``future_rows="aside"`` took out; they are not lost."""
    max_late_ms: Count | None = None
    """How far below the watermark the lowest key was, in milliseconds; null without a late row."""
    late_by_age: Annotated[tuple[_Count, ...], MaxLen(AGES)] = ()
    """Late rows by how far their lowest key was below the watermark, in classes up to 1 s, 2 s, 5 s, 10 s, 30 s, 1 min,
    2 min, 5 min, 10 min, 30 min, 1 h, 3 h, 6 h, 12 h, 1 day, 7 days, and above. What is left out at the end is 0."""

    def __post_init__(self) -> None:
        """Reject counts that cannot be."""
        if self.lost + self.set_aside > self.rows:
            raise ValueError(f"rows {self.rows}: fewer than {self.lost} lost and {self.set_aside} set aside")
        if sum(self.late_by_age) > self.late:
            raise ValueError(f"late_by_age counts {sum(self.late_by_age)} rows, and {self.late} were late")

    @property
    def lost(self) -> int:
        """Rows that Spark dropped."""
        return self.late + self.no_event_time

    def __add__(self, other: LossCounts) -> LossCounts:
        lateness = [late_ms for late_ms in (self.max_late_ms, other.max_late_ms) if late_ms is not None]
        return LossCounts(
            rows=self.rows + other.rows,
            late=self.late + other.late,
            no_event_time=self.no_event_time + other.no_event_time,
            set_aside=self.set_aside + other.set_aside,
            max_late_ms=max(lateness, default=None),
            late_by_age=tuple(map(sum, zip_longest(self.late_by_age, other.late_by_age, fillvalue=0))),
        )

    def late_within_ms(self, share_ppm: int) -> int | None:
        """Return the age that a share of the late rows did not exceed, in milliseconds; None when none was counted.

        It is the upper edge of a class, at most the greatest age.
        """
        wanted, reached = sum(self.late_by_age) * share_ppm, 0
        greatest_ms = self.max_late_ms or 0
        for limit_ms, rows in zip((*AGE_LIMITS_MS, greatest_ms), self.late_by_age, strict=False):
            reached += rows * PPM
            if wanted and reached >= wanted:
                return min(limit_ms, greatest_ms)
        return None


NOTHING = LossCounts(rows=0)
"""The counts of no row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueCounts(LossCounts):
    """The counts of one value of a dimension."""

    value: Annotated[str, MaxLen(MAX_VALUE_LENGTH)] | None
    """The value as text; null is a value too."""


@dataclass(frozen=True, slots=True)
class ByValue:
    """Counts by value; at most ``MAX_VALUES`` of them stand by themselves."""

    values: Mapping[str | None, LossCounts]
    """By value."""
    other: LossCounts = NOTHING
    """The rows of all other values together."""

    @property
    def total(self) -> LossCounts:
        """The counts of all rows."""
        return sum(self.values.values(), self.other)


def merge(parts: Iterable[ByValue], limit: int = MAX_VALUES) -> ByValue:
    """Return the sums of counts; the ``limit`` values with most rows stand by themselves."""
    sums: dict[str | None, LossCounts] = {}
    other = NOTHING
    for part in parts:
        for value, counts in part.values.items():
            sums[value] = sums[value] + counts if value in sums else counts
        other += part.other
    if len(sums) > limit:
        # The order of equal ones does not depend on the order of the parts.
        ranked = _by_rows(sums)
        sums, other = dict(ranked[:limit]), sum((counts for _, counts in ranked[limit:]), other)
    return ByValue(sums, other)


@dataclass(frozen=True, slots=True, kw_only=True)
class LateCounts:
    """The counts of some batches of one stream, all of the same hour; idempotent by query id and first batch."""

    __pydantic_config__: ClassVar[dict[str, Any]] = WIRE

    schema_version: Literal[1]
    """Version of this schema."""
    query_id: Annotated[str, MinLen(1), MaxLen(64)]
    """Spark's persistent id of the query."""
    source: Annotated[str, MaxLen(200)]
    """The source of the stream, as the query's offset log names it."""
    first_batch: Count
    """The first batch that is counted."""
    last_batch: Count
    """The last one; batches in between without rows, or whose rows can no longer be read, are not counted."""
    hour_us: TimeUs
    """The hour in which they were triggered, in microseconds since the epoch."""
    dimension: Annotated[str, MinLen(1), MaxLen(MAX_VALUE_LENGTH)]
    """Name of the column."""
    values: Annotated[tuple[ValueCounts, ...], MaxLen(MAX_VALUES)]
    """The values with most rows, each once."""
    other: LossCounts | None = None
    """The rows of all other values together; null when there are none."""
    partitions: Annotated[tuple[ValueCounts, ...], MaxLen(MAX_VALUES)] = ()
    """The same rows by the stream's partition, those with most rows, each once; empty without a partition column, and
    where that is the dimension."""
    other_partitions: LossCounts | None = None
    """The rows of all other partitions together; null when there are none."""

    def __post_init__(self) -> None:
        """Reject what cannot be added up."""
        if self.last_batch < self.first_batch:
            raise ValueError(f"last_batch {self.last_batch} is before the first, {self.first_batch}")
        if self.hour_us % HOUR_US:
            raise ValueError(f"hour_us {self.hour_us} is no whole hour")
        for name, counts in (("values", self.values), ("partitions", self.partitions)):
            if len({one.value for one in counts}) < len(counts):
                raise ValueError(f"{name} has one of them twice")
        if self.partitions and self.dimension == BY_PARTITION:
            raise ValueError("partitions are counted twice: they are the dimension")

    @property
    def by_dimension(self) -> dict[str, ByValue]:
        """The counts by value, of the dimension and of the partitions."""
        by_dimension = {self.dimension: _by_value(self.values, self.other)}
        if self.partitions:
            by_dimension[BY_PARTITION] = _by_value(self.partitions, self.other_partitions)
        return by_dimension

    def to_json_object(self) -> dict[str, Any]:
        """Return it as the object that goes over the wire."""
        return asdict(self)


def late_counts(
    counted: ByValue,
    partitions: ByValue | None = None,
    *,
    query_id: str,
    source: str,
    first_batch: int,
    last_batch: int,
    hour_us: int,
    dimension: str,
) -> LateCounts:
    """Return what is sent of counts, the values with most rows first."""
    return LateCounts(
        schema_version=LATE_COUNTS_SCHEMA,
        query_id=query_id,
        source=source,
        first_batch=first_batch,
        last_batch=last_batch,
        hour_us=hour_us,
        dimension=dimension,
        values=_ranked(counted),
        other=counted.other if counted.other.rows else None,
        partitions=() if partitions is None else _ranked(partitions),
        other_partitions=partitions.other if partitions is not None and partitions.other.rows else None,
    )


def hour_of(time_us: int) -> int:
    """Return the hour that a time is in, in microseconds since the epoch."""
    return time_us // HOUR_US * HOUR_US


def _ranked(counted: ByValue) -> tuple[ValueCounts, ...]:
    return tuple(ValueCounts(value=value, **_plain(counts)) for value, counts in _by_rows(counted.values))


def _by_rows(counts: Mapping[str | None, LossCounts]) -> list[tuple[str | None, LossCounts]]:
    return sorted(counts.items(), key=lambda item: (-item[1].rows, item[0] is None, item[0] or ""))


def _by_value(values: Iterable[ValueCounts], other: LossCounts | None) -> ByValue:
    return ByValue({counts.value: counts + NOTHING for counts in values}, other or NOTHING)


def _plain(counts: LossCounts) -> dict[str, Any]:
    return {field.name: getattr(counts, field.name) for field in fields(LossCounts)}


FACTOR = 2
"""A value is biased when it loses rows more often than the rest by more than this factor."""

MIN_ROWS = 100
"""Minimum number of rows of a value, and of the rest, for a verdict."""

MIN_LOST = 10
"""Minimum number of lost rows of a value for a verdict of bias: three are no evidence."""

CONFIDENCE_PPM = 990_000
"""Confidence, in parts per million, that no value of a stream is called biased by chance."""


def totals_of(counts: LossCounts) -> LossTotals:
    """Return counts with the figures that follow from them."""
    return LossTotals(**_totals(counts))


def _totals(counts: LossCounts) -> dict[str, Any]:
    totals = _plain(counts)
    del totals["late_by_age"]
    return totals | {
        "median_late_ms": counts.late_within_ms(PPM // 2),
        "p99_late_ms": counts.late_within_ms(PPM * 99 // 100),
        "lost": counts.lost,
        "lost_ppm": _ppm(counts.lost, counts.rows),
    }


def losses(counted: ByValue) -> list[ValueLoss]:
    """Return what each value loses, those with most lost rows first, and the rest of the values last.

    Rows are lost at two rates, a value's and that of all other rows. Given how many are lost in all, the value's part
    of them is binomial, which gives an exact lower confidence limit of the ratio of the two rates (J. Przyborowski and
    H. Wilenski, "Homogeneity of results in testing samples from Poisson series", Biometrika 31, 1940; the limit of the
    binomial share is that of C. J. Clopper and E. S. Pearson, Biometrika 26, 1934). The confidence is divided among the
    values that are tested (Bonferroni), so that a thousand devices do not make some biased by chance. Rows are taken to
    be independent; where they come in bursts the limit is too high.
    """
    total = counted.total
    tested = sum(_enough(counts, total) for counts in counted.values.values())
    lost = [_loss(value, counts, total, tested) for value, counts in counted.values.items()]
    lost.sort(key=lambda loss: (-loss.lost, -loss.rows, loss.value is None, loss.value or ""))
    if counted.other.rows:
        lost.append(_share(None, counted.other, total, other=True))
    return lost


def _loss(value: str | None, counts: LossCounts, total: LossCounts, tested: int) -> ValueLoss:
    if not _enough(counts, total):
        return _share(value, counts, total)
    limit = _limit(counts, total, (1 - CONFIDENCE_PPM / PPM) / tested)
    return _share(value, counts, total, factor_ppm=int(limit * PPM), biased=limit > FACTOR)


def _enough(counts: LossCounts, total: LossCounts) -> bool:
    return min(counts.rows, total.rows - counts.rows) >= MIN_ROWS and counts.lost >= MIN_LOST


def _limit(counts: LossCounts, total: LossCounts, tail: float) -> float:
    """Return the lower limit of the ratio of the value's rate to that of all other rows."""
    from scipy.special import betaincinv  # noqa: PLC0415 - a driver only counts, and need not load it

    lost, rest = counts.lost, total.lost - counts.lost
    # Below 1 even when the rest lost none: then it is tail ** (1 / lost).
    share = float(betaincinv(lost, rest + 1, tail))
    return share / (1 - share) * (total.rows - counts.rows) / counts.rows


def _share(
    value: str | None,
    counts: LossCounts,
    total: LossCounts,
    *,
    other: bool = False,
    factor_ppm: int | None = None,
    biased: bool = False,
) -> ValueLoss:
    return ValueLoss(
        value=value,
        other=other,
        **_totals(counts),
        of_rows_ppm=_ppm(counts.rows, total.rows),
        of_lost_ppm=_ppm(counts.lost, total.lost),
        factor_ppm=factor_ppm,
        biased=biased,
    )


def _ppm(part: int, whole: int) -> int | None:
    return part * PPM // whole if whole else None
