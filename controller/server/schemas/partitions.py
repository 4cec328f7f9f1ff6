"""Partitions of a stream, and who loses rows."""

from __future__ import annotations

from tidemark.controller.base.answer import Answer, OfStream
from tidemark.models.protocol.messages import PartitionState


class Partition(Answer):
    """One partition of a stream."""

    partition: str
    """Its name."""
    rows: int
    """Rows counted since it was first seen."""
    last_event_time_us: int
    """Maximum event time seen, to the granule, in microseconds since the epoch."""
    behind_ms: int
    """How far that is behind the maximum of all partitions, in milliseconds."""
    last_seen_us: int
    """Trigger time of the newest batch that held a row of it, in microseconds since the epoch."""
    pairs: int
    """(Row, key) pairs with a known need over the horizon."""
    need_ms: int | None
    """The bound that admits ``share_ppm`` of them, in milliseconds, at most the sketch's error too wide."""
    skew_ms: int | None
    """How far behind the stream's maximum event time it was when it was last seen, in milliseconds: a ceiling has to
    leave room for it; null when no report says."""
    future_rows: int
    """Future-dated rows of it, set back to the clock."""
    future: bool
    """Whether such rows came within the horizon."""
    misdated_rows: int
    """Rows of it whose event time no delay explains, such as those of 1970."""
    misdated: bool
    """Whether such rows came within the horizon."""
    state: PartitionState
    """Active; Idle: it used to report and is silent; Behind: its rows trail by more than the bound, or the source has
    rows of it that are not read; Gone: no row of it within the horizon."""
    skewed: bool
    """Whether without it the bound would be narrower by a share and an amount, as of the newest snapshot."""
    skewed_us: int | None
    """Since when it is, in microseconds since the epoch; null unless it is."""
    without_bound_ms: int | None
    """The bound that the other partitions need, in milliseconds; null when they have too little evidence."""
    costs_ms: int | None
    """By how much the bound would fall without it, in milliseconds; negative when it would rise."""
    text: str | None
    """What a skewed one costs, as a sentence; null unless it is skewed."""


class PartitionPage(Answer):
    """A page of partitions, by name."""

    partitions: list[Partition]
    """The partitions."""
    share_ppm: int
    """The share of rows that ``need_ms`` is about, in parts per million: the SLO's target, or 99 % without an SLO."""
    bound_ms: int | None
    """The bound that all partitions need together to certify that share, in milliseconds, before any rounding, guard
    rail or limit; ``without_bound_ms`` and ``costs_ms`` are compared with it; null without enough evidence."""
    next_cursor: str | None
    """Where the next page begins; null on the last."""


class LossTotals(Answer):
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


class LostValue(LossTotals):
    """What a value of the dimension loses, compared with all other rows."""

    value: str | None
    """The value as text; null is a value too, unless these are the others."""
    other: bool
    """Whether these are the rows of all values that are not counted by themselves."""
    of_rows_ppm: int | None
    """Its share of all rows, in parts per million."""
    of_lost_ppm: int | None
    """Its share of all lost rows, in parts per million; null when none is lost."""
    factor_ppm: int | None
    """Lower limit of its rate of loss against that of all other rows, in parts per million; null of too few rows."""
    biased: bool
    """Whether it loses rows more than twice as often as all other rows, with a confidence of 99 % for all values."""


class LossCounted(Answer):
    """How far the rows of the newest query are counted by dimension."""

    last_batch: int | None
    """The last batch of it that is counted; null while none is."""
    newest_batch: int
    """The newest batch of it that was reported, up to which the budget counts."""
    text: str
    """The same in words."""


class LostAnswer(OfStream):
    """The rows of a stream and those that are lost, by the values of a dimension."""

    dimension: str | None
    """Name of the column; null when nothing is counted by one."""
    dimensions: list[str]
    """All dimensions that are counted; partition is one, beside the one that the job names."""
    from_us: int | None
    """Start of the first hour that counts, in microseconds since the epoch; null when nothing is counted."""
    to_us: int | None
    """End of the last one."""
    counted: LossCounted | None
    """How far they are counted; null when nothing is counted, and without reports."""
    total: LossTotals
    """The counts of all rows."""
    values: list[LostValue]
    """The values with most lost rows, and after them the others."""
    more_values: int
    """How many values with counts of their own are not listed."""
