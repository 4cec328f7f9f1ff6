"""Partitions of a stream, and who loses rows."""

from __future__ import annotations

from tidemark.controller.base.answer import Answer, OfStream, Page
from tidemark.models.evidence.losses import CountedUpTo, LossTotals, ValueLoss
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


class PartitionPage(Page):
    """A page of partitions, by name."""

    partitions: list[Partition]
    """The partitions."""
    share_ppm: int
    """The share of rows that ``need_ms`` is about, in parts per million: the SLO's target, or 99 % without an SLO."""
    bound_ms: int | None
    """The bound that all partitions need together to certify that share, in milliseconds, before any rounding, guard
    rail or limit; ``without_bound_ms`` and ``costs_ms`` are compared with it; null without enough evidence."""


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
    counted: CountedUpTo | None
    """How far they are counted; null when nothing is counted, and without reports."""
    total: LossTotals
    """The counts of all rows."""
    values: list[ValueLoss]
    """The values with most lost rows, and after them the others."""
    more_values: int
    """How many values with counts of their own are not listed."""
