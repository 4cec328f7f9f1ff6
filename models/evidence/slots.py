"""Time slots of a minute, an hour or a day, whose needs add up to those of any horizon.

Of older times only the wider slots are kept. The narrowest slot of a time follows from two limits alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tidemark.models.base.operators import Int64s
from tidemark.models.evidence.sketch import Sketch

SLOT_US = 60_000_000
"""Width of the narrowest time slot in microseconds."""

HOUR_US = 60 * SLOT_US

DAY_US = 24 * HOUR_US


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

    def append(self, slot_us: int, needs: Sketch) -> None:
        """Begin a slot, later than those before, with the needs that it has so far."""
        self._newer.append((slot_us, needs))
        self._newer_whole.merge(needs)

    def add(self, need_us: Int64s, count: Int64s) -> None:
        """Count needs, shape (counts,) each, in the newest slot."""
        self._newer[-1][1].add(need_us, count)
        self._newer_whole.add(need_us, count)

    def forget_before(self, from_us: int) -> None:
        """Drop the slots before ``from_us``."""
        while self._older and self._older[-1][0] < from_us:
            self._older.pop()
        if self._older or not self._newer or self._newer[0][0] >= from_us:
            return
        # More may be counted in the newest one.
        newest = [slot for slot in self._newer[-1:] if slot[0] >= from_us]
        merged = Sketch()
        for slot_us, sketch in reversed(self._newer[:-1]):
            if slot_us >= from_us:
                merged.merge(sketch)
                self._older.append((slot_us, merge_all([merged])))
        self._newer, self._newer_whole = newest, merge_all(sketch for _, sketch in newest)

    def merged(self) -> Sketch:
        """Return the needs of all slots held."""
        return merge_all([*(sketch for _, sketch in self._older[-1:]), self._newer_whole])


SERIES_WIDTHS_US = (
    *(minutes * SLOT_US for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * HOUR_US for hours in (1, 2, 3, 6, 12)),
    *(days * DAY_US for days in (1, 2, 7, 28)),
)
"""Widths that match a clock or a calendar, ascending, in microseconds."""


@dataclass(frozen=True, slots=True)
class Slots:
    """Slots of one width that cover a span."""

    width_us: int
    from_us: int
    until_us: int

    @property
    def starts_us(self) -> range:
        """Their starts."""
        return range(self.from_us, self.until_us, self.width_us)


def slots_of(
    from_us: int,
    until_us: int,
    max_slots: int,
    levels: Levels,
    widths_us: Sequence[int] = SERIES_WIDTHS_US,
) -> Slots:
    """Return the narrowest slots that cover a span and are not narrower than the stored ones.

    When even the widest are more than ``max_slots``, the oldest are left out.
    """
    stored_us = levels.width_us(from_us)
    fitting = [
        width_us
        for width_us in widths_us
        if width_us >= stored_us and -(-until_us // width_us) - from_us // width_us <= max_slots
    ]
    width_us = fitting[0] if fitting else widths_us[-1]
    end_us = -(-until_us // width_us) * width_us
    return Slots(width_us, max(edge_us(from_us, width_us), end_us - max_slots * width_us), end_us)


MIN_DAYS_BY_MINUTE = 2
"""Horizons of up to this many days begin on the edge of a minute."""

MIN_DAYS_BY_HOUR = 32
"""Longer than the longest horizon that an SLO may have, 31 days, which begins on the edge of an hour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long each kind of data is kept, in days back from the stream's newest batch."""

    minutes_days: int = 3
    """Rollups of minutes and ten minutes."""
    hours_days: int = 40
    """Rollups of hours."""
    days_days: int = 400
    """Rollups of days."""
    reports_days: int = 35
    """Facts of each report: they say whether a report came before, and how late windows were emitted."""
    bodies_days: int = 3
    ledger_days: int = 35
    """Admitted and late rows, by key and partition."""
    events_days: int = 400
    """Events of a stream, with their reasons."""
    history_days: int = 90
    """Acknowledgements, queries, published bounds, predictions, rollouts and failed bounds."""

    def __post_init__(self) -> None:
        """Reject settings that would make a horizon inexact."""
        minimum = {
            "minutes_days": MIN_DAYS_BY_MINUTE,
            "hours_days": max(MIN_DAYS_BY_HOUR, self.minutes_days),
            "days_days": max(self.hours_days, self.reports_days),
            "reports_days": MIN_DAYS_BY_HOUR,
            "bodies_days": 1,
            "ledger_days": MIN_DAYS_BY_HOUR,
            "events_days": 1,
            # A cooldown, which looks back at rollouts, may be as long as the longest horizon.
            "history_days": MIN_DAYS_BY_HOUR,
        }
        for name, days in minimum.items():
            if getattr(self, name) < days:
                raise ValueError(
                    f"retention_{name} must be at least {days} beside the other settings, not {getattr(self, name)}"
                )

    @property
    def minutes_us(self) -> int:
        """``minutes_days`` in microseconds."""
        return self.minutes_days * DAY_US

    @property
    def hours_us(self) -> int:
        """``hours_days`` in microseconds."""
        return self.hours_days * DAY_US

    @property
    def days_us(self) -> int:
        """``days_days`` in microseconds."""
        return self.days_days * DAY_US

    @property
    def reports_us(self) -> int:
        """``reports_days`` in microseconds."""
        return self.reports_days * DAY_US

    @property
    def bodies_us(self) -> int:
        """``bodies_days`` in microseconds."""
        return self.bodies_days * DAY_US

    @property
    def ledger_us(self) -> int:
        """``ledger_days`` in microseconds."""
        return self.ledger_days * DAY_US

    @property
    def events_us(self) -> int:
        """``events_days`` in microseconds."""
        return self.events_days * DAY_US

    @property
    def history_us(self) -> int:
        """``history_days`` in microseconds."""
        return self.history_days * DAY_US
