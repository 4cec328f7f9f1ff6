"""A mergeable sketch of signed, weighted values with a stated relative error: the store of needs.

Values fall into logarithmic buckets as in DDSketch (Masson, Rim, Lee, PVLDB 12(12), 2019): with relative accuracy ``a``
and ``gamma = (1 + a) / (1 - a)``, bucket ``i > 0`` holds ``(m * gamma**(i-1), m * gamma**i]``, where ``m`` is the
smallest magnitude distinguished from zero; negative values mirror that and bucket 0 holds ``[-m, m]``. Counts are exact
and buckets add up, so ``merge`` is commutative and associative and loses nothing. At 1 % and ``m`` = 1 ms a week spans
about 1,000 buckets. Unknown values are ``None``, never 0.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

DEFAULT_RELATIVE_ACCURACY_PPM = 5_000
"""0.5 %: a bound read at a bucket's upper edge is at most 1.01 % wider than the exact one."""

_MAGIC = b"TMSK"
_VERSION = 1
_HEADER = struct.Struct("<4sHIQI")
_CHECK = struct.Struct("<I")
_LEVEL, _WINDOW_BITS = 1, 12
"""How counts are compressed: some kilobytes at a time, six times as fast as by default and as small within 2 %."""
_COUNTED_SPAN = 1 << 16
"""Buckets that span less than this are counted in an array with an element for each; at 1 % that is all of them."""


class Sketch:
    """Counts of signed values in logarithmic buckets.

    Args:
        relative_accuracy_ppm: the accuracy ``a`` in parts per million, in (0, 500,000].
        min_magnitude: values at most this far from 0 share one bucket; in the values' unit, above 0.
    """

    __slots__ = ("_buckets", "_gamma_log", "_weights", "min_magnitude", "relative_accuracy_ppm")

    def __init__(
        self, relative_accuracy_ppm: int = DEFAULT_RELATIVE_ACCURACY_PPM, min_magnitude: int = 1_000
    ) -> None:
        if not 0 < relative_accuracy_ppm <= 500_000:
            raise ValueError(f"relative_accuracy_ppm must be in (0, 500000], not {relative_accuracy_ppm}")
        if min_magnitude <= 0:
            raise ValueError(f"min_magnitude must be above 0, not {min_magnitude}")
        self.relative_accuracy_ppm = relative_accuracy_ppm
        self.min_magnitude = min_magnitude
        accuracy = relative_accuracy_ppm / 1e6
        self._gamma_log = math.log((1 + accuracy) / (1 - accuracy))
        self._buckets: NDArray[np.int32] = np.empty(0, np.int32)
        self._weights: NDArray[np.float64] = np.empty(0, np.float64)

    # -- writing ------------------------------------------------------------------------------------------------

    def add(self, values: ArrayLike, weights: ArrayLike | None = None) -> None:
        """Count ``values``, shape (n,), each with its weight (default 1).

        Raises:
            ValueError: when the shapes differ, a value is not finite, or a weight is negative or not finite.
        """
        value = np.atleast_1d(np.asarray(values, np.float64))
        weight = np.ones_like(value) if weights is None else np.atleast_1d(np.asarray(weights, np.float64))
        if value.shape != weight.shape or value.ndim != 1:
            raise ValueError(f"values have shape {value.shape} but weights have shape {weight.shape}")
        if not np.isfinite(value).all():
            raise ValueError("a sketch takes finite values only")
        if not np.isfinite(weight).all() or (weight < 0).any():
            raise ValueError("weights must be finite and at least 0")
        self._absorb(self.buckets_of(value), weight)

    def merge(self, other: Sketch) -> None:
        """Add the counts of ``other``.

        Raises:
            ValueError: when the two were made with different parameters, whose buckets do not line up.
        """
        self._check_fits(other)
        self._absorb(other._buckets, other._weights)

    def merge_many(self, others: Sequence[Sketch]) -> None:
        """Add the counts of all ``others``; many at once cost little more than one.

        Raises:
            ValueError: when one was made with different parameters.
        """
        for other in others:
            self._check_fits(other)
        if others:
            self._absorb(
                np.concatenate([other._buckets for other in others]),  # noqa: SLF001 - the same class
                np.concatenate([other._weights for other in others]),  # noqa: SLF001 - the same class
            )

    def remove(self, other: Sketch) -> None:
        """Subtract the counts of ``other``, which were merged into this one; whole weights are subtracted exactly.

        Raises:
            ValueError: when less than that was counted, or the parameters differ; nothing is changed.
        """
        self._check_fits(other)
        before = self._buckets, self._weights
        self._absorb(other._buckets, -other._weights)
        if (self._weights < 0).any():
            self._buckets, self._weights = before
            raise ValueError("more is to be subtracted than the sketch counted")
        self._buckets, self._weights = self._buckets[self._weights > 0], self._weights[self._weights > 0]

    # -- reading ------------------------------------------------------------------------------------------------

    @property
    def counts(self) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Its buckets, ascending, and the weight in each, shape (buckets,) each; read-only."""
        return self._buckets, self._weights

    @property
    def upper_edges(self) -> NDArray[np.float64]:
        """Maximum value that each of its buckets can hold, ascending, shape (buckets,)."""
        return self._highs()

    @classmethod
    def of_counts(cls, buckets: NDArray[np.int32], weights: NDArray[np.float64]) -> Sketch:
        """Return the sketch with the default parameters that has these ``counts``: ascending, distinct, above 0."""
        sketch = cls()
        sketch._buckets, sketch._weights = buckets, weights
        return sketch

    def buckets_of(self, values: ArrayLike) -> NDArray[np.int32]:
        """Return the bucket that each of ``values``, finite and of shape (n,), falls into."""
        value = np.asarray(values, np.float64)
        magnitude = np.abs(value)
        index = np.ceil(np.log(np.maximum(magnitude / self.min_magnitude, 1)) / self._gamma_log)
        # The logarithm may miss an edge by its last bit; comparing with the edges makes "at most" exact.
        index += magnitude > self._edge(index)
        index -= (index > 0) & (magnitude <= self._edge(index - 1))
        return (index * np.sign(value)).astype(np.int32)

    @property
    def weight(self) -> float:
        """Sum of all weights."""
        return float(self._weights.sum())

    def quantile(self, share: float) -> float | None:
        """Return a value within the relative accuracy of the exact quantile, or None when nothing was counted.

        The exact quantile is the order statistic of rank ``ceil(share * weight)``, at least the first.
        """
        position = self._position(max(math.ceil(share * self.weight), 1))
        if position is None:
            return None
        if self._buckets[position] == 0:
            return 0.0
        low, high = float(self._lows()[position]), float(self._highs()[position])
        return 2 * low * high / (low + high)

    def value_at_rank(self, rank: float) -> float | None:
        """Return the upper edge of the bucket that holds the value of rank ``rank``, 1 being the smallest.

        So ``rank`` values certainly lie at or below it. None when nothing was counted or fewer than ``rank``.
        """
        position = self._position(rank)
        return None if position is None else float(self._highs()[position])

    def floor_at_rank(self, rank: float) -> float | None:
        """Return the lower edge of the bucket that holds the value of rank ``rank``, 1 being the smallest.

        None when nothing was counted or fewer than ``rank``.
        """
        position = self._position(rank)
        return None if position is None else float(self._lows()[position])

    def weight_at_most(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return for each of ``values``, shape (n,), the weight of the buckets wholly at or below it.

        It is a lower bound of the true weight there, and exact at the buckets' edges.
        """
        cumulative = np.concatenate([[0.0], np.cumsum(self._weights)])
        return cumulative[np.searchsorted(self._highs(), values, side="right")]

    # -- the wire -----------------------------------------------------------------------------------------------

    def to_bytes(self) -> bytes:
        """Return the sketch as bytes: header with version and parameters, compressed counts, checksum."""
        header = _HEADER.pack(
            _MAGIC, _VERSION, self.relative_accuracy_ppm, self.min_magnitude, len(self._buckets)
        )
        counts = self._buckets.astype("<i4").tobytes() + self._weights.astype("<f8").tobytes()
        body = zlib.compress(counts, _LEVEL, _WINDOW_BITS)
        return header + body + _CHECK.pack(zlib.crc32(header + body))

    @classmethod
    def from_bytes(cls, data: bytes) -> Sketch:
        """Return the sketch that ``to_bytes`` wrote.

        Raises:
            ValueError: when the bytes are no sketch, of an unknown version, truncated or damaged.
        """
        if len(data) < _HEADER.size + _CHECK.size or not data.startswith(_MAGIC):
            raise ValueError(f"{len(data)} bytes are not a sketch: they do not start with {_MAGIC!r}")
        _, version, accuracy, min_magnitude, size = _HEADER.unpack_from(data)
        if version != _VERSION:
            raise ValueError(f"sketch version {version} is unknown; this release reads version {_VERSION}")
        (check,) = _CHECK.unpack(data[-_CHECK.size :])
        if check != zlib.crc32(data[: -_CHECK.size]):
            raise ValueError("the sketch is damaged: its checksum does not match")
        try:
            body = zlib.decompressobj().decompress(data[_HEADER.size : -_CHECK.size], size * 12 + 1)
        except zlib.error as error:
            raise ValueError(f"the sketch is damaged: {error}") from None
        if len(body) != size * 12:
            raise ValueError(f"the sketch is damaged: {len(body)} bytes for {size} buckets")
        sketch = cls(accuracy, min_magnitude)
        sketch._buckets = np.frombuffer(body, "<i4", size).astype(np.int32)
        sketch._weights = np.frombuffer(body, "<f8", size, size * 4).astype(np.float64)
        return sketch

    def __eq__(self, other: object) -> bool:
        """Equal parameters and equal counts."""
        return (
            isinstance(other, Sketch)
            and self._parameters() == other._parameters()
            and np.array_equal(self._buckets, other._buckets)
            and np.array_equal(self._weights, other._weights)
        )

    __hash__ = None  # type: ignore[assignment]  # mutable

    # -- inside -------------------------------------------------------------------------------------------------

    def _check_fits(self, other: Sketch) -> None:
        if self._parameters() != other._parameters():
            raise ValueError(
                f"sketches with parameters {self._parameters()} and {other._parameters()} cannot merge"
            )

    def _parameters(self) -> tuple[int, int]:
        return self.relative_accuracy_ppm, self.min_magnitude

    def _absorb(self, buckets: NDArray[np.int32], weights: NDArray[np.float64]) -> None:
        both = np.concatenate([self._buckets, buckets])
        weight = np.concatenate([self._weights, weights])
        if both.size and (span := int(both.max()) - (lowest := int(both.min()))) < _COUNTED_SPAN:
            # Counting is some ten times as fast as sorting.
            where = both - lowest
            filled = np.flatnonzero(np.bincount(where, minlength=span + 1))
            self._buckets = (filled + lowest).astype(np.int32)
            self._weights = np.bincount(where, weight)[filled].astype(np.float64)
            return
        self._buckets, where = np.unique(both, return_inverse=True)
        self._weights = np.bincount(where, weight, minlength=len(self._buckets)).astype(np.float64)

    def _position(self, rank: float) -> int | None:
        if not 0 < rank <= self.weight:
            return None
        # Sums of fractions may differ in the last bit from the weight, and then the last bucket holds the rank.
        position = np.searchsorted(np.cumsum(self._weights), rank, side="left")
        return min(int(position), len(self._weights) - 1)

    def _edge(self, exponent: NDArray[np.float64]) -> NDArray[np.float64]:
        edge: NDArray[np.float64] = self.min_magnitude * np.exp(exponent * self._gamma_log)
        return edge

    def _highs(self) -> NDArray[np.float64]:
        bucket = self._buckets.astype(np.float64)
        return np.where(bucket >= 0, self._edge(bucket), -self._edge(-bucket - 1))

    def _lows(self) -> NDArray[np.float64]:
        bucket = self._buckets.astype(np.float64)
        return np.where(bucket > 0, self._edge(bucket - 1), -self._edge(-bucket))
