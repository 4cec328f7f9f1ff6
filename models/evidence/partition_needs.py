"""The needs of all partitions of a stream together: many small sketches as three arrays.

A stream of a thousand partitions is merged, cut and queried as a whole in a few array operations; sketch by sketch,
each partition would cost as much as all of them do here. Counts are exact, so counts that were added can be subtracted.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.target import PPM
from tidemark.models.evidence.key_counts import run_starts, sum_runs
from tidemark.models.evidence.needs import Needs
from tidemark.models.evidence.sketch import DEFAULT_RELATIVE_ACCURACY_PPM, Sketch

_MAGIC = b"TMPN"
_VERSION = 1
_HEADER = struct.Struct("<4sHIQIII")
_CHECK = struct.Struct("<I")
_SHIFT = 32
_MIDDLE = 2**31
"""Added to a bucket so that it is not negative."""

_MAX_MERGED = 500_000
"""How many counts more than there are at the end are concatenated before they are added up."""

_Int64s = NDArray[np.int64]


class PartitionNeeds:
    """Counts of needs by partition and bucket; immutable.

    Args:
        names: names of the partitions, ascending and distinct.
        keys: for each count the number of its partition and its bucket in one, ascending and distinct.
        weights: the counts, above 0, same shape.
    """

    __slots__ = ("_keys", "_weights", "names")

    def __init__(self, names: Sequence[str], keys: _Int64s, weights: _Int64s) -> None:
        self.names = tuple(names)
        """Names of the partitions, ascending."""
        self._keys = keys
        self._weights = weights

    # -- making -------------------------------------------------------------------------------------------------

    @classmethod
    def of(cls, sketches: Mapping[str, Sketch]) -> PartitionNeeds:
        """Return the needs of partitions by name, without partitions that have none."""
        names = sorted(name for name, sketch in sketches.items() if sketch.weight)
        counts = [sketches[name].counts for name in names]
        keys = [_keys_of(number, buckets) for number, (buckets, _) in enumerate(counts)]
        return cls(names, _joined(keys), _joined([weights.astype(np.int64) for _, weights in counts]))

    @classmethod
    def counted(cls, needs: Needs) -> PartitionNeeds:
        """Return the needs of a report as they were counted, without partitions that have none."""
        names = sorted(needs.partitions)
        number = {name: index for index, name in enumerate(names)}
        moved = np.array([number[name] for name in needs.partitions], np.int64)
        keys = _keys_of(moved[needs.parts], Sketch().buckets_of(needs.need_us))
        if not len(keys):
            return cls((), keys, keys)
        return _counted(names, keys, needs.counts)

    @classmethod
    def merged(cls, many: Iterable[PartitionNeeds]) -> PartitionNeeds:
        """Return the counts of all of ``many``, of which few are in memory at once if it is an iterator."""
        parts: list[PartitionNeeds] = []
        size, limit = 0, _MAX_MERGED
        for part in many:
            parts.append(part)
            size += len(part._keys)  # noqa: SLF001 - the same class
            if size > limit:
                parts = [_summed([(earlier, 1) for earlier in parts])]
                size = len(parts[0]._keys)  # noqa: SLF001 - the same class
                limit = 2 * size + _MAX_MERGED
        return parts[0] if len(parts) == 1 else _summed([(part, 1) for part in parts])

    def minus(self, other: PartitionNeeds) -> PartitionNeeds:
        """Return the counts less those of ``other``.

        Raises:
            ValueError: when ``other`` has more than was counted.
        """
        left = _summed([(self, 1), (other, -1)])
        if (left._weights < 0).any():  # noqa: SLF001 - the same class
            raise ValueError("more is to be subtracted than was counted")
        return left

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def pairs(self) -> _Int64s:
        """How many (row, key) pairs each partition has, in the order of ``names``, shape (partitions,)."""
        counted = np.bincount(self._keys >> _SHIFT, self._weights, minlength=len(self.names))
        return counted.astype(np.int64)

    @property
    def counts(self) -> tuple[NDArray[np.int32], _Int64s]:
        """The buckets of all partitions, one after the other, and the count in each, shape (counts,) each."""
        return self._buckets, self._weights

    @property
    def size(self) -> int:
        """Approximate memory in bytes."""
        return 100 * len(self.names) + self._keys.nbytes + self._weights.nbytes

    @property
    def whole(self) -> Sketch:
        """The needs of all partitions as one sketch."""
        buckets, weights = sum_runs(self._keys & (2**_SHIFT - 1), self._weights)
        return Sketch.of_counts((buckets - _MIDDLE).astype(np.int32), weights.astype(np.float64))

    def sketch(self, name: str) -> Sketch:
        """Return the needs of one partition; an empty sketch when it has none."""
        number = int(np.searchsorted(np.array(self.names, object), name)) if self.names else 0
        if number == len(self.names) or self.names[number] != name:
            return Sketch()
        first, last = np.searchsorted(self._keys, [number << _SHIFT, (number + 1) << _SHIFT])
        return Sketch.of_counts(self._buckets[first:last], self._weights[first:last].astype(np.float64))

    def needs_at(self, share_ppm: int) -> NDArray[np.float64]:
        """Return for each partition a need in microseconds that ``share_ppm`` of its pairs certainly do not exceed."""
        if not self.names:
            return np.empty(0)
        pairs = self.pairs
        # As -(-share_ppm * pairs // PPM), whose product may not fit in 64 bits.
        whole, rest = np.divmod(pairs, PPM)
        ranks = np.maximum(share_ppm * whole - (-share_ppm * rest // PPM), 1)
        position = np.searchsorted(np.cumsum(self._weights), np.cumsum(pairs) - pairs + ranks, side="left")
        buckets, where = np.unique(self._buckets[position], return_inverse=True)
        edges = Sketch.of_counts(buckets, np.ones(len(buckets))).upper_edges
        needs: NDArray[np.float64] = edges[where]
        return needs

    def table(self) -> tuple[NDArray[np.float64], _Int64s]:
        """Return all counts as a table: upper edges of buckets, shape (buckets,); counts, (partitions, buckets)."""
        buckets, where = np.unique(self._buckets, return_inverse=True)
        counts = np.zeros((len(self.names), len(buckets)), np.int64)
        counts[self._keys >> _SHIFT, where] = self._weights
        return Sketch.of_counts(buckets, np.ones(len(buckets))).upper_edges, counts

    # -- the wire -----------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the counts as bytes: header with version and parameters, names and compressed counts, checksum."""
        names = json.dumps(self.names, separators=(",", ":"), ensure_ascii=False).encode()
        sizes = np.bincount(self._keys >> _SHIFT, minlength=len(self.names))
        header = _HEADER.pack(
            _MAGIC,
            _VERSION,
            DEFAULT_RELATIVE_ACCURACY_PPM,
            Sketch().min_magnitude,
            len(self.names),
            len(self._keys),
            len(names),
        )
        arrays = sizes.astype("<i4").tobytes() + self._buckets.astype("<i4").tobytes()
        # The fastest level: these are written often, and a higher one saves little.
        body = zlib.compress(names + arrays + self._weights.astype("<i8").tobytes(), 1)
        return header + body + _CHECK.pack(zlib.crc32(header + body))

    @classmethod
    def from_bytes(cls, data: bytes) -> PartitionNeeds:
        """Return what ``to_bytes`` wrote.

        Raises:
            ValueError: when the bytes are something else, of an unknown version, truncated or damaged.
        """
        if len(data) < _HEADER.size + _CHECK.size or not data.startswith(_MAGIC):
            raise ValueError(
                f"{len(data)} bytes are not the needs of partitions: they do not start with {_MAGIC!r}"
            )
        _, version, accuracy, min_magnitude, partitions, size, named = _HEADER.unpack_from(data)
        if version != _VERSION:
            raise ValueError(f"version {version} of needs is unknown; this release reads version {_VERSION}")
        if (accuracy, min_magnitude) != (DEFAULT_RELATIVE_ACCURACY_PPM, Sketch().min_magnitude):
            raise ValueError(
                f"needs with the parameters {accuracy}, {min_magnitude} do not match this release's"
            )
        (check,) = _CHECK.unpack(data[-_CHECK.size :])
        if check != zlib.crc32(data[: -_CHECK.size]):
            raise ValueError("the needs of partitions are damaged: their checksum does not match")
        body = zlib.decompress(data[_HEADER.size : -_CHECK.size])
        sizes = np.frombuffer(body, "<i4", partitions, named)
        buckets = np.frombuffer(body, "<i4", size, named + 4 * partitions)
        weights = np.frombuffer(body, "<i8", size, named + 4 * (partitions + size))
        numbers = np.repeat(np.arange(partitions, dtype=np.int64), sizes)
        return cls(
            json.loads(body[:named]),
            (numbers << _SHIFT) | (buckets.astype(np.int64) + _MIDDLE),
            weights.astype(np.int64),
        )

    def __eq__(self, other: object) -> bool:
        """Equal counts of partitions of the same names."""
        return (
            isinstance(other, PartitionNeeds)
            and self.names == other.names
            and np.array_equal(self._keys, other._keys)
            and np.array_equal(self._weights, other._weights)
        )

    def __hash__(self) -> int:
        """Return a number that equal needs share."""
        return hash((self.names, self._keys.tobytes(), self._weights.tobytes()))

    # -- inside -------------------------------------------------------------------------------------------------

    @property
    def _buckets(self) -> NDArray[np.int32]:
        buckets: NDArray[np.int32] = ((self._keys & (2**_SHIFT - 1)) - _MIDDLE).astype(np.int32)
        return buckets


def _keys_of(number: int | _Int64s, buckets: NDArray[np.int32]) -> _Int64s:
    return (number << _SHIFT) | (buckets.astype(np.int64) + _MIDDLE)


def _joined(arrays: list[_Int64s]) -> _Int64s:
    return np.concatenate(arrays) if arrays else np.empty(0, np.int64)


def _summed(parts: list[tuple[PartitionNeeds, int]]) -> PartitionNeeds:
    """Return the sum of ``parts``, each times its sign, without partitions that end up empty."""
    names = sorted({name for part, _ in parts for name in part.names})
    number = {name: index for index, name in enumerate(names)}
    keys, weights = [], []
    for part, sign in parts:
        moved = np.array([number[name] for name in part.names], np.int64)
        own = part._keys  # noqa: SLF001 - the same class
        keys.append((moved[own >> _SHIFT] << _SHIFT) | (own & (2**_SHIFT - 1)))
        weights.append(part._weights * sign)  # noqa: SLF001 - the same class
    return _counted(names, _joined(keys), _joined(weights))


def _counted(names: list[str], keys: _Int64s, weights: _Int64s) -> PartitionNeeds:
    kept, summed = sum_runs(keys, weights)
    there = summed != 0
    return _without_empty(names, kept[there], summed[there])


def _without_empty(names: list[str], keys: _Int64s, weights: _Int64s) -> PartitionNeeds:
    numbers = keys >> _SHIFT
    used = numbers[run_starts(numbers)]
    if len(used) == len(names):
        return PartitionNeeds(names, keys, weights)
    renumbered = np.searchsorted(used, numbers)
    return PartitionNeeds(
        [names[number] for number in used.tolist()],
        (renumbered << _SHIFT) | (keys & (2**_SHIFT - 1)),
        weights,
    )
