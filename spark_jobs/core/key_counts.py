"""How many rows of a batch have which key: Spark's two aggregates that tell, the text of it, and what tells repeats.

``approx_top_k_accumulate`` (Spark 4.1) takes numbers and texts, and is exact as long as the distinct keys fit, which
its sketch says. Before it there is ``histogram_numeric``, which keeps one bin for each distinct value as long as they
fit. Of several tasks it may return several bins with the same value, whose counts are added up here. It takes doubles:
whole numbers of 53 bits, no texts. A sum over the keys shows whether one of them is missing or wrong.

The counts are short text: Spark keeps a hundred of them and logs each. Keys are sorted, so that most of them are the
one before plus a step, and only the count has to be written. 96,000 pairs of partition and granule take 0.3 MB, where a
JSON object for each of them took 3.7 MB.

``/3:12 15 9 /7:1`` are 12 rows of key 3, 15 and 9 rows of the two next ones, and a row of key 7 of the next name, or of
the same one where numbers are too far apart to be subtracted.

A stage that ran again is observed again. Spark adds up what each task observed, of a stage that it runs again too (an
executor was lost, with what others were still to read), and of a batch that ``foreachBatch`` reads twice.
``numInputRows`` is no yardstick: it is counted in the same tasks (tried on 3.5.9 and 4.2.0: 100 rows, 200 of both).

So each row draws a number from a generator that begins with the number of the task's partition, as ``rand(seed)`` does:
the n-th row of a partition draws the same number whenever the partition is read, whatever row it is then. As many
distinct numbers as rows means that no row was counted twice. They are counted by a sketch (HyperLogLog).
"""

from __future__ import annotations

import base64
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.models.base.operators import Int64s
from tidemark.spark_jobs.core.time_numbers import TimeNumbers
from tidemark.spark_jobs.spark.jvm import is_since

_ANY = (1 << 31) - 1
_BINS_A_KEY = 4
"""Bins that a key may have, on an average; it has one of each task in which it is."""

_HEAD, _TAIL = 32, 8
"""Bytes before the counts of a sketch, and after its items."""


Key = int | tuple[str, int]
"""A number, or a name and a number."""

_ANEW, _DELTA, _SEPARATOR = "/", ":", " "
NAME_AND_NUMBER = ":"
"""What separates name and number in a key that is text; the number comes last and does not have it."""

_SEED = 35
_DRAWS = 1 << 53
"""Different numbers; a double has as many."""

_LOG_CELLS = 16
"""Of the sketch: 64 kB in each task."""

_EXACT_ROWS = 4_096
"""Up to so many distinct numbers the sketch keeps each, and misses one where it cannot tell two apart."""

_ROWS = 5
"""How many it may miss then: six are missed once in 200 million batches."""

_TOLERANCE = 0.025
"""Six standard errors of the sketch beyond that."""


@dataclass(frozen=True, slots=True)
class CountedKeys:
    """The keys of a batch."""

    keys: Int64s
    """The distinct keys; wrong unless ``exact``. Of a name and a number, the name's position in ``names`` stands above
    the bits of a time's number, and all bits are turned where the number is negative."""
    counts: Int64s
    """The rows of each."""
    names: Sequence[str] | None
    """The names; None where keys are numbers."""
    rows: int
    """All rows, with and without a key; right also where not ``exact``, unless the form of a sketch is not known."""
    null_rows: int
    """Rows without a key; right as ``rows`` is."""
    exact: bool
    """Whether all keys fitted."""
    batch_known: bool = True
    """Whether it is known of which batch they are."""


class KeyCounter(Protocol):
    """Counts keys by one aggregate of Spark's."""

    @property
    def bits(self) -> int:
        """Bits that a packed key may have, beside its sign."""
        ...

    @property
    def takes_texts(self) -> bool:
        """Whether keys may be texts."""
        ...

    def columns(self, key: Column, max_keys: int, *, packed: bool, step: int) -> list[Column]:
        """Return what is to be observed.

        Args:
            key: the keys; null for a row without one.
            max_keys: distinct keys to count exactly.
            packed: whether keys are numbers; else they are texts of a name and a number (``compacted``).
            step: the usual distance of two numbers.
        """
        ...

    def read(self, seen: Mapping[str, Any], times: TimeNumbers) -> CountedKeys:
        """Return the counts in what was observed."""
        ...


class ApproxTopK:
    """Counts by ``approx_top_k_accumulate``, whose sketch has how many rows it took and whether it dropped a key.

    The sketch is one of frequent items of Apache DataSketches (``org.apache.datasketches.frequencies``,
    ``PreambleUtil``), to whose bytes Spark appends the number of nulls.
    """

    bits = 63
    takes_texts = True

    def columns(self, key: Column, max_keys: int, *, packed: bool, step: int) -> list[Column]:
        """Return what is to be observed."""

        def state(accumulated: Column) -> Column:
            sketch, limit = accumulated["sketch"], F.lit(max_keys)
            entries = F.call_function("approx_top_k_estimate", accumulated, limit)
            return F.struct(
                F.hex(F.concat(F.substring(sketch, 1, _HEAD), F.substring(sketch, -_TAIL, _TAIL))).alias(
                    "state"
                ),
                compacted(
                    F.filter(entries, lambda entry: entry["item"].isNotNull()), named=not packed, step=step
                ).alias("keys"),
            )

        return [let(F.call_function("approx_top_k_accumulate", key, F.lit(max_keys)), state).alias("top")]

    def read(self, seen: Mapping[str, Any], times: TimeNumbers) -> CountedKeys:
        """Return the counts in what was observed."""
        top = seen["top"]
        state = _sketch_state(bytes.fromhex(top["state"]))
        null_rows = int(top["state"][-2 * _TAIL :], 16)
        cells = expanded(top["keys"]["cells"], top["keys"].get("names"), times.step)
        keys, counts, names = _columns(cells, times.bits)
        counted = int(counts.sum())
        keyed_rows, complete = (counted, False) if state is None else state
        return CountedKeys(
            keys, counts, names, keyed_rows + null_rows, null_rows, complete and counted == keyed_rows
        )


class HistogramNumeric:
    """Counts by ``histogram_numeric``.

    It may have any number of bins, because a row that finds none free goes through all of them (70 us at 4,096), and so
    does each bin that two tasks have in common. So what a batch needs grows with its distinct keys: some 40 bytes for
    each, in each task that has it and in the driver.
    """

    bits = 53
    takes_texts = False

    def columns(self, key: Column, max_keys: int, *, packed: bool, step: int) -> list[Column]:  # noqa: ARG002 - it takes no texts
        """Return what is to be observed."""

        def keys(bins: Column) -> Column:
            entries = F.transform(
                bins,
                lambda a_bin: F.struct(
                    a_bin["x"].cast("long").alias("item"), a_bin["y"].cast("long").alias("count")
                ),
            )
            return F.when(F.size(bins) <= _BINS_A_KEY * max_keys, compacted(entries, named=False, step=step))

        return [
            F.count(F.lit(1)).alias("all"),
            F.count(key).alias("keyed"),
            F.sum(F.crc32(key.cast("string"))).alias("check"),
            let(F.histogram_numeric(key.cast("double"), F.lit(_ANY)), keys).alias("keys"),
        ]

    def read(self, seen: Mapping[str, Any], times: TimeNumbers) -> CountedKeys:
        """Return the counts in what was observed."""
        cells: Counter[Key] = Counter()
        for key, count in expanded(seen.get("keys", {}).get("cells", ""), None, times.step):
            cells[key] += count
        check = sum(count * zlib.crc32(str(key).encode()) for key, count in cells.items())
        return CountedKeys(
            *_columns(cells.items(), times.bits),
            seen["all"],
            seen["all"] - seen["keyed"],
            exact=check == seen.get("check", 0) and cells.total() == seen["keyed"],
        )


APPROX_TOP_K, HISTOGRAM_NUMERIC = ApproxTopK(), HistogramNumeric()


def key_counter() -> KeyCounter:
    """Return the best counter that this Spark has. Its catalog is not asked, which may be far away, or refuse."""
    return APPROX_TOP_K if is_since(4, 1) else HISTOGRAM_NUMERIC


def stage_counts(seen: Mapping[str, Any]) -> CountedKeys:
    """Return the counts in what ``RowCounter.java`` counted; its form is ``BatchCounts.Sum.toJson``'s."""
    names = seen.get("names")
    if names is not None:
        names = [base64.b64decode(name).decode(errors="replace") for name in names]
    steps, counts = (np.fromstring(seen[column], np.int64, sep=" ") for column in ("steps", "counts"))
    return CountedKeys(
        np.cumsum(steps), counts, names, seen["all"], seen["nulls"], seen["exact"], batch_known=seen["known"]
    )


def _columns(cells: Iterable[tuple[Key, int]], bits: int) -> tuple[Int64s, Int64s, list[str] | None]:
    """Return keys, counts and names, as ``CountedKeys`` has them."""
    keys, counts, positions = [], [], dict[str, int]()
    for key, count in cells:
        if isinstance(key, int):
            keys.append(key)
        else:
            name, number = key
            above = positions.setdefault(name, len(positions)) << bits
            keys.append(above | number if number >= 0 else ~(above | ~number))
        counts.append(count)
    return np.array(keys, np.int64), np.array(counts, np.int64), list(positions) or None


def _sketch_state(sketch: bytes) -> tuple[int, bool] | None:
    """Return how many rows a sketch took, and whether it still has every key; None for a form that is not known."""
    if sketch[1:3] != bytes((1, 10)):  # of serialization, and of the family of sketches
        return None
    if sketch[0] & 0x3F == 1:
        return 0, True
    rows, dropped = (int.from_bytes(sketch[at : at + 8], sys.byteorder) for at in (16, 24))
    return rows, dropped == 0


def let(value: Column, body: Callable[[Column], Column]) -> Column:
    """Return ``body(value)`` with ``value`` computed once, however often it is named there."""
    # A lambda's variable keeps its last value, and a plan that runs again is sent to the executors with it: let it be
    # the null.
    values = F.array(value, F.lit(None))
    return F.transform(values, lambda item: F.when(item.isNotNull(), body(item)))[0]


def compacted(entries: Column, *, named: bool, step: int) -> Column:
    """Return a struct of the columns ``cells`` and, for texts, ``names``, which ``expanded`` reads.

    Args:
        entries: an array of structs of a key, ``item``, which is not null, and its ``count``.
        named: whether keys are texts of a name, ``NAME_AND_NUMBER`` and a number; else they are numbers.
        step: the usual distance of two numbers.
    """
    if not named:
        return let(
            F.sort_array(entries), lambda sorted_: F.struct(_cells(sorted_, named, step).alias("cells"))
        )
    return let(
        F.sort_array(F.transform(entries, _named)),
        lambda sorted_: F.struct(
            _cells(sorted_, named, step).alias("cells"),
            F.transform(
                F.filter(sorted_, lambda entry, index: _begins(sorted_, entry, index, named)),
                lambda entry: entry["name"],
            ).alias("names"),
        ),
    )


def expanded(cells: str, names: Sequence[str] | None, step: int) -> Iterator[tuple[Key, int]]:
    """Yield each key with its count."""
    number, left, name = 0, iter(names or ()), ""
    for cell in cells.split(_SEPARATOR) if cells else ():
        if cell.startswith(_ANEW):
            number, name, cell = 0, next(left, ""), cell[1:]  # noqa: PLW2901 - the rest of it
        delta, separator, count = cell.rpartition(_DELTA)
        number += int(delta) if separator else step
        yield (number if names is None else (name, number)), int(count)


def _named(entry: Column) -> Column:
    number = F.substring_index(entry["item"], NAME_AND_NUMBER, -1)
    length = F.length(entry["item"]) - F.length(number) - len(NAME_AND_NUMBER)
    return F.struct(
        F.left(entry["item"], length).alias("name"),
        number.cast("long").alias("item"),
        entry["count"].alias("count"),
    )


def _delta(sorted_: Column, entry: Column, index: Column) -> Column:
    """Return the distance to the number before; null for the first one, and where no number is as large."""
    return F.try_subtract(entry["item"], F.get(sorted_, index - 1)["item"])


def _begins(sorted_: Column, entry: Column, index: Column, named: bool) -> Column:
    """Return whether the number is written whole: it does not follow one before, or not of the same name."""
    alone = _delta(sorted_, entry, index).isNull()
    return alone | (F.get(sorted_, index - 1)["name"] != entry["name"]) if named else alone


def _cells(sorted_: Column, named: bool, step: int) -> Column:
    def cell(entry: Column, index: Column) -> Column:
        delta = _delta(sorted_, entry, index)
        written = F.when(
            _begins(sorted_, entry, index, named), F.concat(F.lit(_ANEW), entry["item"], F.lit(_DELTA))
        ).when(delta != step, F.concat(delta, F.lit(_DELTA)))
        return F.concat(F.coalesce(written, F.lit("")), entry["count"])

    return F.array_join(F.transform(sorted_, cell), _SEPARATOR)


def drawn() -> Column:
    """Return the numbers that the rows of a frame draw."""
    return (F.rand(_SEED) * _DRAWS).cast("long")


def distinct(draws: Column) -> Column:
    """Return how many different numbers were drawn, about."""
    return F.hll_sketch_estimate(F.hll_sketch_agg(draws, F.lit(_LOG_CELLS)))


def are_repeated(rows: int, different: int) -> bool:
    """Return whether some rows were surely counted more than once."""
    return rows > different + _ROWS + (_TOLERANCE * rows if rows > _EXACT_ROWS else 0)
