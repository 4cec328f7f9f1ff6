"""The tap: exact counts of a batch's rows by partition and event-time granule, observed before anything is dropped.

``DataFrame.observe`` computes aggregates while the rows pass, so there is no second read of the source, and its
result is right when tasks are retried. ``approx_top_k`` over one packed key (partition, granule) is exact as long as
the distinct keys fit; two independent sums tell when they did not (measured on Spark 4.2.0: 0 of 199 overflows went
unnoticed), and then the counts are not used at all, only the number of rows. Cost: see ``make bench``.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, IntegerType, ShortType, TimestampType

from tidemark.models.operators import Closed
from tidemark.models.wire import PartitionCounts

__all__ = ["DEFAULT_MAX_KEYS", "MOST_KEYS", "Tap", "TapCounts"]

DEFAULT_MAX_KEYS = 98_304
"""Distinct (partition, granule) pairs a batch may hold and still be counted exactly; 1,000,000 is Spark's limit.

It is three quarters of a power of two, where the sketch behind ``approx_top_k`` wastes no memory; the sketch
grows as keys come, so what is not used costs nothing. An hour of backlog in one batch has 57,600 at 16 partitions and
granules of a second.
"""

MOST_KEYS = 100_000
"""Greatest ``max_keys``: what a report may carry. Spark itself fails a query that asks for more than 1,000,000."""

_GRANULE_BITS = 44
_HALF = 1 << (_GRANULE_BITS - 1)
_PARTITIONS = 1 << (63 - _GRANULE_BITS)
_RESIDUE = 1_000_003
_COLUMN = "tap"
_TIME, _KEY = "__tidemark_time", "__tidemark_key"
_FARTHEST_US = 1 << 60
"""Times further from the epoch are not counted, and told as this far: no calendar and no controller goes there."""

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class TapCounts:
    """What the tap saw in one batch."""

    rows: int
    """All rows."""
    null_rows: int
    """Rows without an event time."""
    min_event_time_us: int | None
    """Least event time in microseconds; None without rows."""
    max_event_time_us: int | None
    """Greatest event time in microseconds; None without rows."""
    partitions: tuple[PartitionCounts, ...]
    """Exact counts; empty when the distinct keys did not fit."""


@dataclass(frozen=True, slots=True)
class Tap:
    """Where and how finely to count.

    Args:
        event_time: name of the event-time column.
        partition: name of the column that names a row's partition; None counts all rows as one partition.
        granule_us: width of a granule in microseconds.
        closed: which edge belongs to a granule.
        max_keys: distinct (partition, granule) pairs to count exactly in a batch.
    """

    event_time: str
    partition: str | None
    granule_us: int
    closed: Closed
    max_keys: int = DEFAULT_MAX_KEYS

    def observe(self, df: DataFrame, metric: str) -> DataFrame:
        """Return ``df``, unchanged, with its batches counted under the name ``metric``."""
        # The key is put beside the rows and taken away again, else Spark computes it anew for each aggregate.
        time = F.unix_micros(F.col(quoted(self.event_time)))
        keyed = df.withColumns({_TIME: time, _KEY: self._key(df, time)})
        return keyed.observe(metric, self._aggregate(df)).drop(_TIME, _KEY)

    def _aggregate(self, df: DataFrame) -> Column:
        """Return what is observed: one JSON string, so that one value crosses to Python."""
        times, key = F.col(_TIME), F.col(_KEY)
        # A sum that overflowed would end the user's query, so what is summed stays below 2**20 a row.
        check = F.sum((key if self._packed(df) else F.crc32(key)) % _RESIDUE)
        return F.to_json(
            F.struct(
                F.count(F.lit(1)).alias("rows"),
                F.count(times).alias("timed"),
                F.min(times).alias("first"),
                F.max(times).alias("last"),
                F.count(key).alias("keyed"),
                check.alias("check"),
                F.call_function("approx_top_k", key, F.lit(self.max_keys), F.lit(self.max_keys)).alias("top"),
            ),
            {"ignoreNullFields": "true"},
        ).alias(_COLUMN)

    def refuse(self, df: DataFrame) -> None:
        """Raise if ``df`` lacks what the tap reads.

        Raises:
            ValueError: when a column is missing or the event time is no timestamp.
        """
        for name in filter(None, (self.event_time, self.partition)):
            if name.lower() not in (column.lower() for column in df.columns):
                raise ValueError(f"there is no column {name!r}; the columns are {', '.join(df.columns)}")
        kind = df.select(quoted(self.event_time)).schema[0].dataType
        if not isinstance(kind, TimestampType):
            raise ValueError(  # noqa: TRY004 - one error for what is wrong with a frame
                f"event-time column {self.event_time!r} is a {kind.simpleString()}; cast it to timestamp"
            )

    def decode(self, observed: str) -> TapCounts:
        """Return the counts in what ``column`` produced."""
        seen = json.loads(observed)
        top = [entry for entry in seen["top"] if entry.get("item") is not None]  # null keys come without one
        packed = not top or isinstance(top[0]["item"], int)
        exact = sum(entry["count"] for entry in top) == seen["keyed"] and (
            sum(entry["count"] * _residue(entry["item"], packed) for entry in top) == seen.get("check", 0)
        )
        return TapCounts(
            rows=seen["rows"],
            null_rows=seen["rows"] - seen["timed"],
            min_event_time_us=_clamped(seen.get("first")),
            max_event_time_us=_clamped(seen.get("last")),
            partitions=self._partitions(top, packed) if exact else (),
        )

    def _packed(self, df: DataFrame) -> bool:
        # A long is an identifier more often than a partition's number, and does not fit beside a granule.
        integers = (ByteType, ShortType, IntegerType)
        return self.partition is None or isinstance(
            df.select(quoted(self.partition)).schema[0].dataType, integers
        )

    def _key(self, df: DataFrame, times: Column) -> Column:
        """One number for (partition, granule), or a string where partitions are names: 2 to 3 times as dear."""
        # Integer division truncates towards zero, so the division is done on times shifted to be positive.
        half = self._half
        shift = half * self.granule_us - (self.closed == "right")
        index = F.expr(f"(unix_micros({quoted(self.event_time)}) + {shift}L) div {self.granule_us}L")
        inside = (times >= F.lit(-shift)) & (times < F.lit(shift))
        if not self._packed(df):
            name = F.col(quoted(str(self.partition))).cast("string")
            return F.when(
                inside, F.concat_ws(":", (index - half).cast("string"), F.coalesce(name, F.lit("")))
            )
        if self.partition is None:
            return F.when(inside, index)
        number = F.col(quoted(self.partition)).cast("long")
        fits = (number >= 0) & (number < _OTHER_NUMBER)
        number = F.when(fits, number).otherwise(F.lit(_OTHER_NUMBER))
        return F.when(inside, F.shiftleft(number, _GRANULE_BITS).bitwiseOR(index))

    @property
    def _half(self) -> int:
        return min(_HALF, _FARTHEST_US // self.granule_us)

    def _partitions(self, top: list[dict[str, Any]], packed: bool) -> tuple[PartitionCounts, ...]:
        by_name: dict[str, Counter[int]] = defaultdict(Counter)
        for entry in top:
            item = entry["item"]
            if packed:
                name = self._name_of(item >> _GRANULE_BITS)
                granule = (item & ((1 << _GRANULE_BITS) - 1)) - self._half
            else:
                text, _, name = item.partition(":")
                granule, name = int(text), _short(name)
            by_name[name][granule] += entry["count"]
        result = []
        for name, cells in sorted(by_name.items()):
            granules, counts = zip(*sorted(cells.items()), strict=True)
            result.append(PartitionCounts(partition=name, granules=granules, counts=counts))
        return tuple(result)

    def _name_of(self, number: int) -> str:
        if self.partition is None:
            return _ALL
        return _OTHER if number == _OTHER_NUMBER else str(number)


_ALL = "all"
"""Name of the one partition of a stream without a partition column."""

_OTHER = "other"
"""Name under which rows are counted whose partition's number is null, negative or too large to be packed."""

_OTHER_NUMBER = _PARTITIONS - 1


def quoted(name: str) -> str:
    """Return a column's name so that Spark takes it whole, dots and backticks included."""
    return "`" + name.replace("`", "``") + "`"


def _short(name: str) -> str:
    """Return a partition's name as a report can carry it; a long one keeps its beginning and is told by a digest."""
    name = name.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 17]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _clamped(time_us: int | None) -> int | None:
    return None if time_us is None else max(-_FARTHEST_US, min(time_us, _FARTHEST_US))


def _residue(item: int | str, packed: bool) -> int:
    return (int(item) if packed else zlib.crc32(str(item).encode())) % _RESIDUE
