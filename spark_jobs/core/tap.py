"""The tap: exact counts of a batch's rows by partition and event-time granule, observed before anything is dropped.

``DataFrame.observe`` computes aggregates while the rows pass, so there is no second read of the source, and its
result is right when tasks are retried. Counts by one packed key (partition, granule) are exact as long as the distinct
keys fit (``key_counts``); where they did not, the counts are not used at all, only the number of rows. Each aggregate
costs some 20 ns a row, so there are no more than needed: what follows from the keys is taken from them. Cost: see
``make bench``.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ByteType, IntegerType, ShortType

from tidemark.models.base.granules import Granules, granule_last_us
from tidemark.models.base.operators import Closed
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import AppendDelay
from tidemark.spark_jobs.core.key_counts import (
    APPROX_TOP_K,
    NAME_AND_NUMBER,
    CountedKeys,
    KeyCounter,
    are_repeated,
    distinct,
    drawn,
    stage_counts,
)
from tidemark.spark_jobs.core.time_numbers import (
    AFTER,
    ASIDE,
    BEFORE,
    FARTHEST_US,
    NO_KEYS,
    KeyReading,
    TimeNumbers,
)
from tidemark.spark_jobs.spark.event_time import quoted

DEFAULT_MAX_KEYS = 98_304
"""Distinct (partition, granule) pairs a batch may hold and still be counted exactly; 1,000,000 is Spark's limit.

It is three quarters of a power of two, where the sketch behind ``approx_top_k`` wastes no memory; the sketch
grows as keys come, so what is not used costs nothing. An hour of backlog in one batch has 57,600 at 16 partitions and
granules of a second.
"""

MAX_KEYS = 100_000
"""Maximum of ``max_keys``: what a report may carry. Spark itself fails a query that asks for more than 1,000,000."""

TAP_KEY = "spark.tidemark.tap"
"""How rows are counted: by a function that is compiled into the stage, or by ``observe``."""

_COLUMN = "tap"
_KEY, _DRAW = "__tidemark_key", "__tidemark_draw"
TAKEN, SET_BACK, SET_ASIDE = 0, 1, 2
"""Values of the column ``ahead``: the row is taken as it is, set back to the clock, or taken out."""

_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class TapCounts:
    """What the tap saw in one batch."""

    rows: int
    """All rows."""
    null_rows: int
    """Rows without an event time."""
    min_event_time_us: int | None
    """Minimum event time in microseconds, to the granule; None without rows. Future-dated rows do not count."""
    max_event_time_us: int | None
    """Maximum event time in microseconds; None without rows. Future-dated rows do not count.

    In a batch with rows ahead of its clock it is exact to the granule, and None when rows were not counted.
    """
    by_granule: GranuleCounts
    """Exact counts; empty when the distinct keys did not fit."""
    newest_granules: dict[str, int] = field(default_factory=dict)
    """Index of the newest granule of each partition's rows that are not future-dated."""
    append_delay: AppendDelay | None = None
    """How late the source had the rows; None where no column has it."""
    uncounted: str | None = None
    """Why rows are not in ``by_granule``, as a clause; None where all are that have a time in range."""


NO_ROWS = TapCounts(0, 0, None, None, GranuleCounts.of(()))
"""The counts of a batch without rows."""


@dataclass(frozen=True, slots=True)
class Tap:
    """Where and how finely to count.

    Args:
        event_time: name of the event-time column.
        partition: name of the column that names a row's partition; None counts all rows as one partition.
        granule_us: width of a granule in microseconds.
        closed: which edge belongs to a granule; None while the operator is not known (``time_numbers``).
        max_keys: distinct (partition, granule) pairs to count exactly in a batch.
        ahead: name of the column that marks rows that are future-dated by their own arrival; None when none are marked.
        takes_out: whether some of those rows are taken out after the tap: they are counted as future-dated, and are no
            rows of the stream.
        arrival_time: name of the column with the source's own timestamp; None when there is none.
        arrival_type: name of the column that is 1 where that timestamp is the broker's, as Kafka's source has it.
        allowance_us: how far ahead of the batch's clock a row may be dated, in microseconds; None when that is not
            checked. Rows further ahead, by ``first_future_us``, are set back to the clock above the tap.
        counter: how keys are counted.
    """

    event_time: str
    partition: str | None
    granule_us: int
    closed: Closed | None
    max_keys: int = DEFAULT_MAX_KEYS
    ahead: str | None = None
    takes_out: bool = False
    arrival_time: str | None = None
    arrival_type: str | None = None
    allowance_us: int | None = None
    counter: KeyCounter = APPROX_TOP_K

    def observe(self, df: DataFrame, metric: str) -> DataFrame:
        """Return ``df``, unchanged, with its batches counted under the name ``metric``."""
        # The key is put beside the rows and taken away again, else Spark computes it anew for each aggregate.
        keyed = df.withColumn(_KEY, self._key(df)).withColumn(_DRAW, drawn())
        return keyed.observe(metric, self._aggregate(df, distinct(F.col(_DRAW)).alias("draws"))).drop(
            _KEY, _DRAW
        )

    def count(self, df: DataFrame) -> str:
        """Return what ``observe`` would have had of the rows of ``df``, which are read for it."""
        aggregate = df.withColumn(_KEY, self._key(df)).agg(self._aggregate(df)).first()
        assert aggregate is not None, "an aggregate without keys has one row"
        return str(aggregate[0])

    def _aggregate(self, df: DataFrame, *more: Column) -> Column:
        """Return what is observed: one JSON string, so that one value crosses to Python."""
        time, key, packed = F.col(quoted(self.event_time)), F.col(_KEY), self.packed(df)
        if self.ahead is not None:
            # The key has it, so no other column is needed: the fewer there are, the less is copied.
            time = F.when(key >= 0 if packed else F.col(self.ahead) == TAKEN, time)
        columns = self.counter.columns(key, self.max_keys, packed=packed, step=self.times.step)
        if self.takes_out:
            columns.append(F.count(F.when(F.col(str(self.ahead)) != SET_ASIDE, F.lit(1))).alias("rows"))
        return F.to_json(
            F.struct(
                *columns,
                *more,
                F.unix_micros(F.max(time)).alias("last"),
                *self._append_delay(F.unix_micros(time)),
            ),
            {"ignoreNullFields": "true"},
        ).alias(_COLUMN)

    def _append_delay(self, times: Column) -> list[Column]:
        if self.arrival_time is None:
            return []
        # Times a quarter of a million years apart have no difference; one that failed would end the user's query.
        delay = F.try_subtract(F.unix_micros(F.col(quoted(self.arrival_time)).cast("timestamp")), times)
        if self.allowance_us is not None:
            delay = F.when(delay >= -self.allowance_us, delay)  # a future-dated row has no delay
        kind = F.lit(0) if self.arrival_type is None else F.col(quoted(self.arrival_type))
        return [
            F.count(delay).alias("appended"),
            F.min(delay).alias("min_delay"),
            F.avg(delay).alias("mean_delay"),
            F.max(delay).alias("max_delay"),
            F.min(kind).alias("append_type"),
        ]

    def can_name_partitions(self, df: DataFrame) -> bool:
        """Return whether the rows of ``df`` can be counted by partition: not every counter takes names."""
        return self.counter.takes_texts or self.packed(df)

    @property
    def cut(self) -> Closed:
        """Which edge belongs to a granule where rows ahead of the clock are found."""
        return self.closed or "left"

    def first_future_us(self, clock_us: int | None) -> int | None:
        """Return the minimum event time that is ahead of a batch's clock: the first granule's beyond the allowance.

        None when the clock is not known, or not checked.
        """
        if clock_us is None or self.allowance_us is None:
            return None
        latest_us = clock_us + min(self.allowance_us, FARTHEST_US)
        return (
            granule_last_us(TimeNumbers(self.granule_us, self.cut).of(latest_us), self.granule_us, self.cut)
            + 1
        )

    def decode(self, observed: str, granules: Granules, clock_us: int | None = None) -> TapCounts:
        """Return the counts in what ``observe`` produced.

        Where a second counter has the rows that reach the operator, it is those, with the maximum event time of all,
        which the watermark is made of.

        Args:
            observed: the observed metric of the batch.
            granules: the granules to return; their width is a multiple of the tap's.
            clock_us: the batch's clock, as its checkpoint has it; without it no row counts as ahead of it.
        """
        seen = json.loads(observed)
        counts = self._counts(seen, granules, clock_us)
        if "behind" not in seen:
            return counts
        there = NO_ROWS if seen["behind"] is None else self._counts(seen["behind"], granules, clock_us)
        newest_us = there.max_event_time_us if counts.max_event_time_us is None else counts.max_event_time_us
        # Where no row with an event time is left, the times are those of the rows that the watermark is made of.
        oldest_us = newest_us if there.min_event_time_us is None else there.min_event_time_us
        return replace(there, min_event_time_us=oldest_us, max_event_time_us=newest_us)

    def _counts(self, seen: dict[str, Any], granules: Granules, clock_us: int | None) -> TapCounts:
        keys = stage_counts(seen) if "steps" in seen else self.counter.read(seen, self.times)
        first_future_us = self.first_future_us(clock_us)
        future = None
        if clock_us is not None and first_future_us is not None:
            future = self.times.of(first_future_us), self.times.of(clock_us)
        different = seen.get("draws", keys.rows)
        repeated = are_repeated(keys.rows, different)
        counted = keys.exact and not repeated
        reading = KeyReading(self.times, granules, partial(self._name_of, keys.names), future)
        by_granule, newest = reading.read(keys.keys, keys.counts) if counted else NO_KEYS
        last_us = _clamped(seen.get("last"))
        if last_us is not None and first_future_us is not None and last_us >= first_future_us:
            newest_granule = max(newest.values(), default=None)
            last_us = None if newest_granule is None else granules.first_us(newest_granule)
        if repeated:
            return TapCounts(
                different, 0, last_us, last_us, by_granule, uncounted=_repeated(keys.rows, different)
            )
        return TapCounts(
            rows=seen.get("rows", keys.rows),
            null_rows=keys.null_rows,
            min_event_time_us=_first_us(by_granule, granules, last_us),
            max_event_time_us=last_us,
            by_granule=by_granule,
            newest_granules=newest,
            append_delay=_append_delay(seen),
            uncounted=None if keys.exact else self._why_uncounted(keys),
        )

    def _why_uncounted(self, keys: CountedKeys) -> str:
        if keys.batch_known:
            return f"more than {self.max_keys} distinct (partition, granule) pairs; widen the granule or raise max_keys"
        return (
            "the batch was read by threads without Spark's local properties, which name the batch; use "
            f"pyspark.InheritableThread, or set {TAP_KEY}=observe"
        )

    @property
    def times(self) -> TimeNumbers:
        """How times are numbered in keys."""
        return TimeNumbers.within(self.counter.bits, self.granule_us, self.closed)

    @property
    def other_number(self) -> int:
        """The number that all partitions share whose own does not fit beside a time's."""
        return (1 << (self.counter.bits - self.times.bits)) - 1

    def packed(self, df: DataFrame) -> bool:
        """Return whether partitions are numbers that fit beside a time's, and not names."""
        # A long is an identifier more often than a partition's number, and does not fit beside a granule.
        integers = (ByteType, ShortType, IntegerType)
        return self.partition is None or isinstance(
            df.select(quoted(self.partition)).schema[0].dataType, integers
        )

    def _key(self, df: DataFrame) -> Column:
        """One number for (partition, granule), or a text where partitions are names, at 2 to 3 times the cost.

        Numbers of future-dated rows have all bits turned, which makes them negative.
        """
        time, packed = quoted(self.event_time), self.packed(df)
        number, before, after = self.times.columns(time)
        number = (
            F.when(before, F.lit(BEFORE).cast("long"))
            .when(after, F.lit(AFTER).cast("long"))
            .otherwise(number)
        )
        if packed:
            number = self._with_time(number)
        number = F.when(F.col(time).isNotNull(), number)
        if self.ahead is not None:
            ahead = F.col(self.ahead)
            # Without a branch, in which Spark would compute the number anew.
            number = number.bitwiseXOR(F.when(ahead == TAKEN, F.lit(0)).otherwise(-1).cast("long"))
            if self.takes_out:
                aside = F.lit(ASIDE).cast("long")
                aside = F.bitwise_not(self._with_time(aside) if packed else aside)
                number = F.when(ahead == SET_ASIDE, aside).otherwise(number)
        return number if packed else F.concat(self.name(), F.lit(NAME_AND_NUMBER), number)

    def name(self) -> Column:
        """Return the names of the rows' partitions."""
        return F.coalesce(F.col(quoted(str(self.partition))).cast("string"), F.lit(""))

    def _with_time(self, number: Column) -> Column:
        """Return the packed key of a row's partition and its time's ``number``."""
        if self.partition is None:
            return number
        partition = F.col(quoted(self.partition)).cast("long")
        bits, other = self.times.bits, self.other_number
        partition = F.when((partition >= 0) & (partition < other), partition).otherwise(F.lit(other))
        return F.shiftleft(partition, bits).bitwiseOR(number)

    def _name_of(self, names: Sequence[str] | None, number: int) -> str:
        """Return the name of a partition.

        Args:
            names: the names of the partitions, where they have some.
            number: its number, or the position of its name.
        """
        if names is not None:
            return _short(names[number])
        if self.partition is None:
            return _ALL
        return _OTHER if number == self.other_number else str(number)


_ALL = "all"
"""Name of the one partition of a stream without a partition column."""

_OTHER = "other"
"""Name under which rows are counted whose partition's number is null, negative or too large to be packed."""


def _short(name: str) -> str:
    """Return a partition's name as a report can carry it; a long one keeps its beginning and gets a digest."""
    name = name.replace("\0", "\N{REPLACEMENT CHARACTER}")
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[: _LONGEST_NAME - 17]}~{hashlib.sha256(name.encode()).hexdigest()[:16]}"


def _first_us(by_granule: GranuleCounts, granules: Granules, last_us: int | None) -> int | None:
    """Return the minimum time of the oldest granule, at most ``last_us``."""
    oldest = min((first for _, first, _ in by_granule.edges()), default=None)
    return last_us if oldest is None or last_us is None else min(granules.first_us(oldest), last_us)


def _append_delay(seen: dict[str, Any]) -> AppendDelay | None:
    if not seen.get("appended"):
        return None
    return AppendDelay(
        rows=seen["appended"],
        min_us=seen["min_delay"],
        mean_us=math.floor(seen["mean_delay"]),
        max_us=seen["max_delay"],
        by_broker=seen["append_type"] == 1,
    )


def _repeated(rows: int, different: int) -> str:
    return (
        f"rows were read more than once: {rows} were counted, where there are about {different}. A stage ran again, or "
        "foreachBatch read the batch twice: persist it there"
    )


def _clamped(time_us: int | None) -> int | None:
    return None if time_us is None else max(-FARTHEST_US, min(time_us, FARTHEST_US))
