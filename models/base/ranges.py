"""Ranges of the numbers that go over the wire, and of the sums that they make.

Within them all that a stream's reports add up to is exact, in 64-bit integers and in floating point, and no step of a
decision takes longer for a large number than for a small one.
"""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Gt, Le

MAX_COUNT = 2**53
"""Maximum count, and maximum number of (row, key) pairs that a stream's reports may add up to: at ten million a second
that takes 28 years. Above it a floating-point number is not exact."""

MAX_ROWS = 2**40
"""Maximum number of rows in a batch."""

MAX_KEYS_PER_ROW = 50_000
"""Maximum number of windows that one row may be in, or all rows of a report together: each is a row of the ledger."""

MAX_VALUE_LENGTH = 200
"""Maximum length of a value."""

MAX_TIME_US = 2**60
"""Maximum distance of a time from the epoch in microseconds, some 36,000 years; sums of a few still fit in 64 bits."""

MAX_TIME_MS = MAX_TIME_US // 1_000
"""The same in milliseconds, and the maximum duration."""

Count = Annotated[int, Ge(0), Le(MAX_COUNT)]
TimeUs = Annotated[int, Ge(-MAX_TIME_US), Le(MAX_TIME_US)]
TimeMs = Annotated[int, Ge(-MAX_TIME_MS), Le(MAX_TIME_MS)]
DurationMs = Annotated[int, Ge(0), Le(MAX_TIME_MS)]
LengthUs = Annotated[int, Gt(0), Le(MAX_TIME_US)]
"""A length of event time that is not 0, in microseconds."""


# pydantic reads these of plain dataclasses; the driver does not need pydantic for it.
STRICT: dict[str, Any] = {"extra": "forbid", "strict": True}
"""How it validates what people write: no conversion, and no unknown field, since that is a slip of the pen."""

WIRE: dict[str, Any] = {**STRICT, "extra": "ignore"}
"""How it validates what a job sends: no conversion; a field that this release does not know is a later release's."""
