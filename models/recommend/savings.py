"""What a stream would save under the recommended bound: waiting, late rows and state, each as an interval.

*Waiting* adds up over results: each window of a day is waited for from its end until it comes out. A stream with a
result a minute that comes 50 s earlier saves 20 hours of waiting a day.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidemark.models.evidence.curve import Emissions, MeanLatency

_DAY_US = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Interval:
    """A whole number that is at least ``min`` and at most ``max``; None: nobody knows such a limit."""

    min: int | None = None
    """It is at least this; null when nobody knows."""
    max: int | None = None
    """It is at most this; null when nobody knows."""

    @classmethod
    def exactly(cls, number: int | None) -> Interval:
        """Return the interval of a number; of None that of the unknown."""
        return cls(number, number)

    def __add__(self, other: Interval) -> Interval:
        """Return the limits of a sum."""
        return Interval(_added(self.min, other.min), _added(self.max, other.max))

    def __sub__(self, other: Interval) -> Interval:
        """Return the limits of a difference."""
        return Interval(_added(self.min, _negative(other.max)), _added(self.max, _negative(other.min)))

    def times(self, count: int | None) -> Interval:
        """Return it ``count`` times, which is at least 0; of None it is unknown."""
        if count is None:
            return UNKNOWN
        limits = (None if limit is None else limit * count for limit in (self.min, self.max))
        return Interval(*limits)

    def saved_to(self, other: Interval, *, less: bool) -> Interval:
        """Return the limits of the difference to one that is known to be less, or more, whatever both are."""
        if UNKNOWN in (self, other):
            return UNKNOWN
        saved = self - other
        least = max(saved.min or 0, 0) if less else saved.min
        most = saved.max if less else min(saved.max or 0, 0)
        # Means over different windows may contradict it.
        return saved if least is not None and most is not None and least > most else Interval(least, most)


UNKNOWN = Interval()
"""The interval of a number of which nothing is known."""

ZERO = Interval.exactly(0)


def _added(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


def _negative(number: int | None) -> int | None:
    return None if number is None else -number


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a stream costs under one bound, or the difference between two."""

    latency_ms: Interval = UNKNOWN
    """Mean wall latency of a result, in milliseconds."""
    waiting_ms: Interval = UNKNOWN
    """That of all results of a day together, in milliseconds."""
    late_rows: Interval = UNKNOWN
    """(Row, key) pairs that come too late in a day."""
    state_rows: Interval = UNKNOWN
    """Rows of state."""
    state_bytes: Interval = UNKNOWN
    """Memory of the state, in bytes."""

    def saved_to(self, other: Figures, *, narrower: bool) -> Figures:
        """Return the difference to those of a bound that is narrower, or wider: late rows alone grow as it narrows."""
        savings = {}
        for figure in fields(Figures):
            was, will = getattr(self, figure.name), getattr(other, figure.name)
            savings[figure.name] = was.saved_to(will, less=narrower != (figure.name == "late_rows"))
        return Figures(**savings)


NOTHING = Figures(**{figure.name: ZERO for figure in fields(Figures)})
"""What a bound saves that is in force already."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Savings:
    """What a stream would save. None is unknown."""

    reason: str
    """How far the recommended bound is on its way into force, or why there is none, as a sentence."""
    loses: bool = False
    """Whether it certainly loses more rows than its SLO allows, or without an SLO any."""
    provisional: bool = False
    """Whether nothing is under way to put the recommended bound into force."""
    awaits_approval: int | None = None
    """Number of the rollout that waits for an approval; None when none does."""
    unknown: tuple[str, ...] = ()
    """Why figures are unknown, or no single numbers, as sentences."""
    target_ppm: int | None = None
    """Share that the SLO wants good, of the rows or of the windows, in parts per million; None without an SLO."""
    completeness_min_ppm: int | None = None
    """Minimum share that was good over the SLO's window, or without an SLO over the horizon, in parts per million."""
    completeness_max_ppm: int | None = None
    """The maximum of the same."""
    bound_ms: int | None = None
    """The bound in force, in milliseconds."""
    recommended_bound_ms: int | None = None
    """The recommended bound, in milliseconds; null when there is none."""
    windows_a_day: int | None = None
    """Windows that come out in a day; None for operators without windows."""
    now: Figures | None = None
    """Under the bound in force; None without reports."""
    recommended: Figures | None = None
    """Under the recommended bound; None without one."""

    @property
    def saved(self) -> Figures | None:
        """What the recommended bound saves: below 0 is what it costs. None without one."""
        if self.now is None or self.recommended is None:
            return None
        was_ms, will_ms = self.bound_ms or 0, self.recommended_bound_ms or 0
        saved = self.now.saved_to(self.recommended, narrower=will_ms < was_ms)
        return NOTHING if was_ms == will_ms else saved

    @property
    def place(self) -> tuple[int, int, int, int]:
        """Where it stands in a list: streams that lose most rows first, then those that save most waiting, then rows.

        What nobody knows counts as 0.
        """
        saved = self.saved or NOTHING
        lost = 0 if not self.loses or self.now is None else self.now.late_rows.min or 0
        return (0 if self.loses else 1, -lost, -(saved.waiting_ms.min or 0), -(saved.late_rows.min or 0))


@dataclass(frozen=True, slots=True)
class Total:
    """The sum of one figure over the streams of which anything is known of it under both bounds."""

    streams: int
    """How many these are."""
    now: Interval
    """Under the bounds in force."""
    recommended: Interval
    """Under the recommended bounds."""
    saved: Interval
    """The difference: below 0 is what the recommended bounds cost."""


def total_of(name: str, streams: Iterable[Savings]) -> Total:
    """Return the sum of one figure.

    Args:
        name: a field of ``Figures``.
        streams: the streams; those are left out of which nothing is known. One limit is enough: what is at least so
            much adds up to what is at least so much.
    """
    count, now, recommended, saved = 0, ZERO, ZERO, ZERO
    for stream in streams:
        difference = stream.saved
        if stream.now is None or stream.recommended is None or difference is None:
            continue
        was, will = getattr(stream.now, name), getattr(stream.recommended, name)
        if UNKNOWN in (was, will):
            continue
        count += 1
        now, recommended, saved = now + was, recommended + will, saved + getattr(difference, name)
    return Total(count, now, recommended, saved)


def latency_between(wall: MeanLatency | None) -> Interval:
    """Return the mean latency in milliseconds: a minimum while it is censored."""
    if wall is None:
        return UNKNOWN
    mean_ms = round(wall.mean_us / 1_000)
    return Interval(mean_ms, None if wall.censored else mean_ms)


def a_day(count: Interval, span_us: int) -> Interval:
    """Return how many of what came within ``span_us``, above 0, come in a day."""
    least, most = count.min, count.max
    return Interval(
        None if least is None else least * _DAY_US // span_us,
        None if most is None else -(-most * _DAY_US // span_us),
    )


def windows_a_day(emissions: Emissions | None, slide_us: int) -> int | None:
    """Return how many windows come out in a day of event time, pauses counted; None without any.

    Args:
        emissions: when windows come out; None for operators without windows.
        slide_us: distance between two of them.
    """
    if emissions is None or not len(emissions.end_us):
        return None
    span_us = int(emissions.end_us[-1] - emissions.end_us[0]) + slide_us
    return round(len(emissions.end_us) * _DAY_US / span_us)
