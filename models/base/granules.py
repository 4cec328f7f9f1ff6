"""Granules: the event-time grid on which the tap counts rows.

Counts by granule are exact evidence where all rows of a granule share their fate. For windows that holds when
the granule divides size, slide and start and is closed on the left, as Spark's windows are; for row-level and
session keys when the watermark falls on a granule's edge and the granule is closed on the right, because Spark's
late rule is ``key <= watermark``. Elsewhere the ledger gives an interval.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import overload

from tidemark.models.base.duration import format_duration
from tidemark.models.base.operators import Closed, Int64s, Operator, TimeWindow

SPARK_TICK_US = 1_000
"""Spark's watermark has whole milliseconds; no granule is finer, since a finer one would tell nothing more."""

_PARTS_OF_A_SLIDE = 10
"""Maximum number of granules in a slide: more of them cost distinct keys in the tap and tell little more."""

_ROW_GRANULE_US = 100 * SPARK_TICK_US


@dataclass(frozen=True, slots=True)
class Granules:
    """A grid of granules."""

    granule_us: int
    """Width of a granule in microseconds."""
    closed: Closed
    """Which edge belongs to a granule."""

    def first_us(self, index: int) -> int:
        """Return the first whole microsecond of a granule."""
        return granule_first_us(index, self.granule_us, self.closed)


def granule_index(event_time_us: Int64s, granule_us: int, closed: Closed) -> Int64s:
    """Return the index i of each time's granule: ``[i*g, (i+1)*g)`` if closed on the left, else ``(i*g, (i+1)*g]``."""
    return (event_time_us if closed == "left" else event_time_us - 1) // granule_us


@overload
def granule_first_us(index: int, granule_us: int, closed: Closed) -> int: ...
@overload
def granule_first_us(index: Int64s, granule_us: int, closed: Closed) -> Int64s: ...
def granule_first_us(index: Int64s | int, granule_us: int, closed: Closed) -> Int64s | int:
    """Return the first whole microsecond of each granule."""
    return index * granule_us + (closed == "right")


@overload
def granule_last_us(index: int, granule_us: int, closed: Closed) -> int: ...
@overload
def granule_last_us(index: Int64s, granule_us: int, closed: Closed) -> Int64s: ...
def granule_last_us(index: Int64s | int, granule_us: int, closed: Closed) -> Int64s | int:
    """Return the last whole microsecond of each granule."""
    return (index + 1) * granule_us - (closed == "left")


def default_granule_us(operator: Operator, whole_us: int = SPARK_TICK_US) -> int:
    """Return the default granule of the tap, or of its reports where the tap counts by ``whole_us`` microseconds.

    For windows: an exact one (it divides size, slide and start) that cuts them into up to 10, so that a partition's
    progress inside a window is visible.
    For row-level and session keys: 100 ms, which bounds the ledger's interval to the rows of one granule.
    It is always a multiple of ``whole_us``.

    Raises:
        ValueError: when size, slide and start of a window are not.
    """
    if not isinstance(operator, TimeWindow):
        return math.ceil(_ROW_GRANULE_US / whole_us) * whole_us
    grid = math.gcd(operator.size_us, operator.slide_us, operator.start_us)
    if grid % whole_us:
        whole = "milliseconds" if whole_us == SPARK_TICK_US else f"multiples of {format_duration(whole_us)}"
        raise ValueError(
            f"{operator}: size, slide and start must be whole {whole} for its rows to be counted"
        )
    exact = [grid // parts for parts in range(1, _PARTS_OF_A_SLIDE + 1) if grid % (parts * whole_us) == 0]
    return min(exact)
