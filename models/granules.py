"""Granules: the event-time grid on which the tap counts rows.

Counts by granule are exact evidence where all rows of a granule share their fate. For windows that holds when
the granule divides size, slide and start and is closed on the left, as Spark's windows are; for row-level and
session keys when the watermark falls on a granule's edge and the granule is closed on the right, because Spark's
late rule is ``key <= watermark``. Elsewhere the ledger gives an interval.
"""

from __future__ import annotations

import math
from typing import overload

from tidemark.models.operators import Closed, Int64s, Operator, TimeWindow

SPARK_TICK_US = 1_000
"""Spark's watermark has whole milliseconds; no granule is finer, since a finer one would tell nothing more."""

_PARTS_OF_A_SLIDE = 10
"""Maximum number of granules in a slide: more of them cost distinct keys in the tap and tell little more."""


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


def default_granule_us(operator: Operator) -> int:
    """Return the default granule of the tap.

    For windows: an exact one (it divides size, slide and start) that cuts them into up to 10, so that a partition's
    progress inside a window is visible; never finer than a millisecond.
    For row-level and session keys: 100 ms, which bounds the ledger's interval to the rows of one granule.
    """
    if not isinstance(operator, TimeWindow):
        return 100 * SPARK_TICK_US
    grid = math.gcd(operator.size_us, operator.slide_us, operator.start_us)
    if grid % SPARK_TICK_US:
        raise ValueError(
            f"{operator}: size, slide and start must be whole milliseconds for its rows to be counted"
        )
    exact = [
        grid // parts for parts in range(1, _PARTS_OF_A_SLIDE + 1) if grid % (parts * SPARK_TICK_US) == 0
    ]
    return min(exact)
