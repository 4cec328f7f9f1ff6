"""Rows and those that are lost, of all values of a dimension and of each, as people are told of them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LossTotals:
    """How many rows came, and what became of those that the query did not take. A row counts once."""

    rows: int
    """All rows."""
    lost: int
    """Rows that Spark dropped: those that were late, and those without an event time."""
    late: int
    """Rows that were at or below the watermark, of a sliding window with one key at least."""
    no_event_time: int
    """Rows that windows dropped because they have no event time."""
    set_aside: int
    """Future-dated rows that were taken out by the job's own choice; they are not lost."""
    max_late_ms: int | None
    """How far below the watermark the lowest key was, in milliseconds; null without a late row."""
    median_late_ms: int | None
    """Half of the late rows were at most this far below it: the upper edge of a class, such as 30 s or 1 min, and not
    above ``max_late_ms``; null when no age was counted."""
    p99_late_ms: int | None
    """The same of 99 in 100 late rows."""
    lost_ppm: int | None
    """Share of the rows that were lost, in parts per million; null without rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueLoss(LossTotals):
    """What a value of the dimension loses, compared with all other rows."""

    value: str | None
    """The value as text; null is a value too, unless these are the others."""
    other: bool = False
    """Whether these are the rows of all values that are not counted by themselves."""
    of_rows_ppm: int | None
    """Its share of all rows, in parts per million."""
    of_lost_ppm: int | None
    """Its share of all lost rows, in parts per million; null when none is lost."""
    factor_ppm: int | None = None
    """Lower limit of its rate of loss against that of all other rows, in parts per million; null of too few rows."""
    biased: bool = False
    """Whether it loses rows more than twice as often as all other rows, with a confidence of 99 % for all values."""


@dataclass(frozen=True, slots=True)
class LostOfValue:
    """What a value lost over the SLO's window."""

    value: str | None
    rows: int
    lost: int


@dataclass(frozen=True, slots=True)
class LostSummary:
    """What the values of a stream's dimension lost over the SLO's window."""

    dimension: str
    """Name of the column."""
    values: tuple[LostOfValue, ...]
    """Those with most lost rows."""
    bias: str | None
    """Which values lose rows far more often than the rest, as a sentence; None when none does."""
    partitions: tuple[LostOfValue, ...] = ()
    """The partitions with most lost rows, where they are counted beside another dimension."""


@dataclass(frozen=True, slots=True)
class CountedUpTo:
    """How far the newest query's rows are counted by dimension: the job counts them some batches later."""

    last_batch: int | None
    """The last batch of it that is counted; null while none is."""
    newest_batch: int
    """The newest batch of it that was reported, up to which the budget counts."""
    text: str
    """The same in words."""
