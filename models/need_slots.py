"""Time slots of a minute, an hour or a day, whose needs add up to those of any horizon.

Of older times only the wider slots are kept. The narrowest slot of a time follows from two limits alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidemark.models.operators import Int64s
from tidemark.models.sketch import Sketch

SLOT_US = 60_000_000
"""Width of the narrowest time slot in microseconds."""

HOUR_US = 60 * SLOT_US
"""Width of an hour in microseconds."""

DAY_US = 24 * HOUR_US
"""Width of a day in microseconds."""


def edge_us(time_us: int, width_us: int) -> int:
    """Return the start of the slot of ``width_us`` that holds ``time_us``."""
    return time_us // width_us * width_us


def slot_of_us(time_us: int) -> int:
    """Return the start of the narrowest slot that holds ``time_us``."""
    return edge_us(time_us, SLOT_US)


def merge_all(sketches: Iterable[Sketch]) -> Sketch:
    """Return the counts of all ``sketches``."""
    merged = Sketch()
    merged.merge_many(list(sketches))
    return merged


@dataclass(frozen=True, slots=True)
class Levels:
    """How far narrow slots are aged out."""

    hours_until_us: int = 0
    """Of batches triggered before, there are slots of an hour or more; the edge of an hour."""
    days_until_us: int = 0
    """Of batches triggered before, there are slots of a day; the edge of a day, not after ``hours_until_us``."""

    def width_us(self, time_us: int) -> int:
        """Return the width of the narrowest slot of batches triggered at ``time_us``."""
        if time_us < self.days_until_us:
            return DAY_US
        return HOUR_US if time_us < self.hours_until_us else SLOT_US

    def slot_us(self, time_us: int) -> int:
        """Return the start of the narrowest slot of batches triggered at ``time_us``."""
        return edge_us(time_us, self.width_us(time_us))

    def ceiling_us(self, time_us: int) -> int:
        """Return the first edge of a slot at or after ``time_us``."""
        start_us = self.slot_us(time_us)
        return start_us if start_us == time_us else start_us + self.width_us(time_us)


class SlidingNeeds:
    """The needs of the latest slots as one sketch, for slots that come in order and are queried often.

    It has two stacks: each older slot is held merged with all older slots that follow it; the newer ones are held one
    by one and merged. When the older ones are used up, the newer ones take their place. So a slot is merged twice in
    its life, and a query merges two sketches, however many slots there are.
    """

    __slots__ = ("_newer", "_newer_whole", "_older")

    def __init__(self) -> None:
        self._older: list[tuple[int, Sketch]] = []
        self._newer: list[tuple[int, Sketch]] = []
        self._newer_whole = Sketch()

    def add(self, slot_us: int, need_us: Int64s, count: Int64s) -> None:
        """Count needs, shape (counts,) each, in a slot; one that lies before the newest is counted in the newest."""
        if not self._newer or self._newer[-1][0] < slot_us:
            self._newer.append((slot_us, Sketch()))
        self._newer[-1][1].add(need_us, count)
        self._newer_whole.add(need_us, count)

    def forget_before(self, from_us: int) -> None:
        """Drop the slots before ``from_us``."""
        while self._older and self._older[-1][0] < from_us:
            self._older.pop()
        if self._older or not self._newer or self._newer[0][0] >= from_us:
            return
        merged = Sketch()
        for slot_us, sketch in reversed(self._newer):
            if slot_us >= from_us:
                merged.merge(sketch)
                self._older.append((slot_us, merge_all([merged])))
        self._newer, self._newer_whole = [], Sketch()

    def merged(self) -> Sketch:
        """Return the needs of all slots held."""
        return merge_all([*(sketch for _, sketch in self._older[-1:]), self._newer_whole])
