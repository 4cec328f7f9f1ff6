"""How many rows of a batch have which key: the two aggregates of Spark that tell, and how each one's answer is read.

``approx_top_k`` (Spark 4.1) takes numbers and texts, and is exact as long as the distinct keys fit. Before it there is
``histogram_numeric``, which keeps one bin for each distinct value as long as they fit. Of several tasks it may return
several bins with the same value, whose counts are added up here. It takes doubles: whole numbers of 53 bits, no texts.

Another sum over the keys shows whether one of them is missing or wrong.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pyspark.sql import Column
from pyspark.sql import functions as F

from tidemark.spark_jobs.this_spark import is_since

Key = int | str
"""A packed number, or a text."""

_RESIDUE = (1 << 20) - 1
_ANY = (1 << 31) - 1
_BINS_A_KEY = 4
"""Bins that a key may have, on an average; it has one of each task in which it is."""


@dataclass(frozen=True, slots=True)
class CountedKeys:
    """The keys of a batch."""

    counts: list[tuple[Key, int]]
    """Each distinct key with its rows; wrong unless ``exact``."""
    null_rows: int
    """Rows without a key."""
    exact: bool
    """Whether all keys fitted, by the sum over them. How many rows there are is the caller's to compare."""


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

    def columns(self, key: Column, max_keys: int, *, packed: bool) -> list[Column]:
        """Return what is to be observed.

        Args:
            key: the keys; null for a row without one.
            max_keys: distinct keys to count exactly.
            packed: whether keys are numbers.
        """
        ...

    def read(self, seen: Mapping[str, Any]) -> CountedKeys:
        """Return the counts in what was observed."""
        ...


class ApproxTopK:
    """Counts by ``approx_top_k``."""

    bits = 63
    takes_texts = True

    def columns(self, key: Column, max_keys: int, *, packed: bool) -> list[Column]:
        """Return what is to be observed."""
        # A sum that overflowed would end the user's query, so what is summed stays below 2**20 a row (2**32 a text).
        residue = key.bitwiseAND(F.lit(_RESIDUE)) if packed else F.crc32(key)
        return [
            F.sum(residue).alias("check"),
            F.call_function("approx_top_k", key, F.lit(max_keys), F.lit(max_keys)).alias("top"),
        ]

    def read(self, seen: Mapping[str, Any]) -> CountedKeys:
        """Return the counts in what was observed."""
        counts = [(entry["item"], entry["count"]) for entry in seen["top"] if entry.get("item") is not None]
        rows = sum(entry["count"] for entry in seen["top"])
        packed = not counts or isinstance(counts[0][0], int)
        check = sum(count * (key & _RESIDUE if packed else _checksum(key)) for key, count in counts)
        return CountedKeys(
            counts, rows - sum(count for _, count in counts), exact=check == seen.get("check", 0)
        )


class HistogramNumeric:
    """Counts by ``histogram_numeric``.

    It may have any number of bins, because a row that finds none free goes through all of them (70 us at 4,096), and so
    does each bin that two tasks have in common. So what a batch needs grows with its distinct keys: some 40 bytes for
    each, in each task that has it and in the driver.
    """

    bits = 53
    takes_texts = False

    def columns(self, key: Column, max_keys: int, *, packed: bool) -> list[Column]:  # noqa: ARG002 - it takes no texts
        """Return what is to be observed."""
        bins = F.histogram_numeric(key.cast("double"), F.lit(_ANY))
        return [
            F.sum(F.crc32(key.cast("string"))).alias("check"),
            F.when(F.size(bins) <= _BINS_A_KEY * max_keys, bins).alias("bins"),
            F.count(F.when(key.isNull(), F.lit(1))).alias("nulls"),
        ]

    def read(self, seen: Mapping[str, Any]) -> CountedKeys:
        """Return the counts in what was observed."""
        counts: Counter[int] = Counter()
        for entry in seen.get("bins", ()):
            counts[int(entry["x"])] += int(entry["y"])
        check = sum(count * _checksum(key) for key, count in counts.items())
        return CountedKeys([*counts.items()], seen["nulls"], exact=check == seen.get("check", 0))


APPROX_TOP_K, HISTOGRAM_NUMERIC = ApproxTopK(), HistogramNumeric()


def key_counter() -> KeyCounter:
    """Return the best counter that this Spark has. Its catalog is not asked, which may be far away, or refuse."""
    return APPROX_TOP_K if is_since(4, 1) else HISTOGRAM_NUMERIC


def _checksum(key: Key) -> int:
    return zlib.crc32(str(key).encode())
