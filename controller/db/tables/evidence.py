"""Evidence by key, partition and time: the ledger, needs, series, and how far they are rolled up."""

from __future__ import annotations

from sqlalchemy.orm import Mapped

from tidemark.controller.db.tables.columns import (
    Base,
    Blob,
    Counter,
    KeyIdentifier,
    KeyName,
    KeyNumber,
    Long,
    OfStream,
    SlotWidth,
    Whole,
)


class LedgerKeyRow(Base):
    """The ledger by key: rows admitted and late, over all partitions and batches."""

    __tablename__ = "ledger_keys"

    stream_id: Mapped[OfStream]
    key_us: Mapped[KeyNumber]
    """The window's end; for row-level and session keys the end of their minute (..., end]."""
    rows: Mapped[Whole]
    late_min: Mapped[Whole]
    late_max: Mapped[Whole]


class NeedSlotRow(Base):
    """The needs of all partitions of a stream in one minute, hour or day of batches, as one sketch."""

    __tablename__ = "need_slots"

    stream_id: Mapped[OfStream]
    slot_us: Mapped[KeyNumber]
    sketch: Mapped[Blob]
    width_us: Mapped[SlotWidth]


class NeedSketchRow(Base):
    """The needs of one partition in one minute, hour or day of batches."""

    __tablename__ = "need_sketches"

    stream_id: Mapped[OfStream]
    slot_us: Mapped[KeyNumber]
    partition: Mapped[KeyName]
    sketch: Mapped[Blob]
    width_us: Mapped[SlotWidth]


class PartitionSumsRow(Base):
    """The needs of all partitions of a stream over its horizon, up to the reports that are counted in them."""

    __tablename__ = "partition_sums"

    stream_id: Mapped[OfStream]
    from_us: Mapped[Whole]
    """Where it begins: it holds exactly the slots of ``NeedSketchRow`` from here on."""
    needs: Mapped[Blob]
    """``models.partition_needs``."""


class NeedBlockRow(Base):
    """The needs of a stream's partitions in one past span of ten minutes, an hour or a day."""

    __tablename__ = "need_blocks"

    stream_id: Mapped[OfStream]
    width_us: Mapped[KeyNumber]
    slot_us: Mapped[KeyNumber]
    share_ppm: Mapped[Whole]
    """The share of pairs that ``cells`` are about: the target when it was made."""
    cells: Mapped[Long]
    """As JSON: [[partition, ...], [need in milliseconds, ...], [pairs, ...]]."""
    needs: Mapped[Blob | None]
    """The needs themselves (``models.partition_needs``), from which a day is made; null except for an hour."""


class SeriesRow(Base):
    """Sums over the reports of a stream in one minute or hour of batches."""

    __tablename__ = "series"

    stream_id: Mapped[OfStream]
    width_us: Mapped[KeyNumber]
    slot_us: Mapped[KeyNumber]
    batches: Mapped[Whole]
    rows: Mapped[Whole]
    pairs: Mapped[Whole]
    late_min: Mapped[Whole]
    late_max: Mapped[Whole]
    unjudged_rows: Mapped[Whole]
    future_rows: Mapped[Whole]
    keys_per_row: Mapped[Whole]
    """Maximum number of keys of one row."""
    newest_us: Mapped[Whole]
    """Trigger time of the newest batch, which the columns below describe."""
    bound_ms: Mapped[Whole]
    effective_bound_ms: Mapped[Whole | None]
    state_rows: Mapped[Whole]


class ReportHourRow(Base):
    """Sums over the reports of one query in one hour, for spans that are rolled up."""

    __tablename__ = "report_hours"

    stream_id: Mapped[OfStream]
    slot_us: Mapped[KeyNumber]
    query_id: Mapped[KeyIdentifier]
    batches: Mapped[Whole]
    batch_ranges: Mapped[Long]
    """Ids of the batches as JSON: [[first, last], ...], ascending and disjoint."""
    from_us: Mapped[Whole]
    """Trigger time of the first batch."""
    to_us: Mapped[Whole]
    """Trigger time of the newest batch."""
    keys_per_row: Mapped[Whole]
    rows: Mapped[Whole]
    uncounted_rows: Mapped[Whole]
    pairs: Mapped[Whole]
    late_min: Mapped[Whole]
    late_max: Mapped[Whole]
    corrected_min: Mapped[Counter]
    corrected_max: Mapped[Counter]
    unjudged_rows: Mapped[Whole]
    need_pairs: Mapped[Whole]
    need_unknown_rows: Mapped[Whole]
    early_rows: Mapped[Whole]
    future_rows: Mapped[Whole]
    misdated_rows: Mapped[Counter]
    misdated_late: Mapped[Counter]


class RollupRow(Base):
    """How far a stream's data are rolled up and aged out; without a row, none are."""

    __tablename__ = "rollups"

    stream_id: Mapped[OfStream]
    hours_until_us: Mapped[Counter]
    """Older data are kept by the hour."""
    days_until_us: Mapped[Counter]
    """Older data are kept by the day."""
    split_report_id: Mapped[Counter]
    """Reports up to this one are counted by partition and in the series (``intake.count_waiting``)."""
    needs_from_us: Mapped[Counter]
    """Older needs and hourly sums are deleted."""
    reports_from_us: Mapped[Counter]
    """Reports of batches that started before are deleted."""
    bodies_from_us: Mapped[Counter]
    """Bodies of older reports are deleted."""
    ledger_from_us: Mapped[Whole | None]
    """Lower keys are deleted from the ledger; null while none is."""
    aged_us: Mapped[Counter]
    """The time that ages are measured from: the newest batch's, but never more than a day's step at once."""
    tens_until_us: Mapped[Counter]
    """Blocks of ten minutes are made up to here."""
    hour_blocks_until_us: Mapped[Counter]
    """Blocks of an hour are made up to here."""
    day_blocks_until_us: Mapped[Counter]
    """Blocks of a day are made up to here."""
