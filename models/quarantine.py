"""Quarantine: batches whose event times are far ahead of every clock are not believed until others agree.

One row dated years ahead would move the base of every later batch, and so every need. A batch is quarantined only if it
is ahead of both the store's clock and the stream's newest event time; old data and jumps up to the clock never are.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.granules import SPARK_TICK_US
from tidemark.models.need_slots import DAY_US, HOUR_US

MAX_AHEAD_US = HOUR_US
"""How far a batch may be ahead of the store's clock or of the stream's newest event time, in microseconds."""

AGREED_US = HOUR_US
"""Time over which nothing but batches that agree ends their quarantine, in microseconds."""

KEPT_US = 3 * DAY_US
"""How long a batch stays in quarantine before it is deleted, in microseconds."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What event time a batch reached, and when."""

    event_time_us: int
    """Maximum of its rows' event times, its base and its watermark, in microseconds."""
    received_us: int
    """When its report was received, in microseconds."""

    def limit_us(self, now_us: int) -> int:
        """Return the event time that a batch may reach at ``now_us`` to agree with this one."""
        return self.event_time_us + max(now_us - self.received_us, 0) + MAX_AHEAD_US

    def agrees(self, later: Reached) -> bool:
        """Return whether a later batch goes on from this one, as a stream does, and not back or far ahead."""
        lowest_us = self.event_time_us - MAX_AHEAD_US
        return lowest_us <= later.event_time_us <= self.limit_us(later.received_us)


def reached_us(max_event_time_us: int | None, late_base_ms: int | None, watermark_ms: int) -> int | None:
    """Return the event time that a batch reached, in microseconds; None before the first row."""
    known = [] if max_event_time_us is None else [max_event_time_us]
    known += [time_ms * SPARK_TICK_US for time_ms in (late_base_ms, watermark_ms) if time_ms]
    return max(known, default=None)


def limit_us(last: Reached | None, now_us: int) -> int:
    """Return the greatest event time that is believed at ``now_us``, in microseconds.

    Args:
        last: the batch counted last; None before the first.
        now_us: the store's clock, in microseconds.
    """
    by_clock_us = now_us + MAX_AHEAD_US
    return by_clock_us if last is None else max(by_clock_us, last.limit_us(now_us))
