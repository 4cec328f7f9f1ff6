"""How long stored data is kept, and the minimum for each kind."""

from __future__ import annotations

from dataclasses import dataclass

from tidemark.models.need_slots import DAY_US

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
    """Reports as sent."""
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
