"""What a policy has learned of a stream, in a form that outlives the driver.

Stored are distributions, forecasts and the account, not what is open: after a restart the rows of open keys may have
been read or not, and time in which the job was down shows nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tidemark.models.base.read_json import read_object

FORMAT = 5
"""Raised whenever a number in the arrays changes its meaning; what has another one is not read."""

_SIZE = 4
"""Bytes of the length of the part that says what the numbers are."""

Arrays = dict[str, NDArray[Any]]
"""Arrays by name; parts of a whole have its name and a dot before theirs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """What was learned, and of what."""

    operator: str
    """The operator, in words; of another one nothing of this is true."""
    target_ppm: int
    """The completeness target in parts per million; the account is for one target."""
    trigger_us: int
    """The trigger in microseconds; ages are counted in triggers."""
    partitions: tuple[str, ...]
    """The partitions in order of their numbers."""
    arrays: Arrays

    def packed(self) -> bytes:
        """Return it as bytes, compressed, with a checksum."""
        head = {
            "format": FORMAT,
            "operator": self.operator,
            "target_ppm": self.target_ppm,
            "trigger_us": self.trigger_us,
            "partitions": self.partitions,
            "arrays": [(name, array.dtype.str, array.shape) for name, array in self.arrays.items()],
        }
        text = json.dumps(head).encode()
        numbers = b"".join(array.tobytes() for array in self.arrays.values())
        packed = zlib.compress(len(text).to_bytes(_SIZE, "big") + text + numbers)
        return _checksum(packed) + packed


def unpacked(data: bytes) -> Learned:
    """Return what ``Learned.packed`` returned the bytes of.

    Raises:
        ValueError: when it is damaged, or this release cannot use it.
    """
    start = len(_checksum(b""))
    if data[:start] != _checksum(data[start:]):
        raise ValueError("it is damaged: its checksum is wrong")
    content = zlib.decompress(data[start:])
    at = _SIZE + int.from_bytes(content[:_SIZE], "big")
    head = json.loads(content[_SIZE:at])
    if head["format"] != FORMAT:
        raise ValueError(f"it has format {head['format']}, and this Tidemark reads {FORMAT}")
    arrays = {}
    for name, kind, shape in head["arrays"]:
        array = np.frombuffer(content, kind, math.prod(shape), at).reshape(shape)
        arrays[name], at = array, at + array.nbytes
    return read_object(Learned, {**head, "arrays": arrays})


def _checksum(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def joined(parts: Mapping[str, Arrays]) -> Arrays:
    """Return the arrays of several parts as those of a whole."""
    return {f"{part}.{name}": array for part, arrays in parts.items() for name, array in arrays.items()}


def part_of(arrays: Arrays, part: str) -> Arrays:
    """Return the arrays of one part."""
    return {
        name.removeprefix(f"{part}."): array for name, array in arrays.items() if name.startswith(f"{part}.")
    }


def checked(arrays: Arrays, shapes: Mapping[str, Sequence[int | None]]) -> Arrays:
    """Return ``arrays`` if they have these shapes and can be counts or times; None stands for any length.

    Raises:
        ValueError: when an array is missing, has another shape, or numbers that are negative or not finite.
    """
    for name, shape in shapes.items():
        array = arrays.get(name)
        if array is None:
            raise ValueError(f"{name} is missing")
        fits = len(array.shape) == len(shape) and all(
            expected in (None, length) for expected, length in zip(shape, array.shape, strict=True)
        )
        if not fits or not (np.isfinite(array) & (array >= 0)).all():
            raise ValueError(f"{name} has shape {array.shape}, or numbers that are negative or not finite")
    return arrays
