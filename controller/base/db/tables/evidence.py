"""Evidence by key and time: the ledger, the rollups of reports, and how far a stream is rolled up."""

from __future__ import annotations

from sqlalchemy.orm import Mapped

from tidemark.controller.base.db.tables.columns import Blob, Counter, KeyNumber, Long, RowOfStream, Whole


class LedgerKeyRow(RowOfStream):
    """The ledger by key: rows admitted and late, over all partitions and batches."""

    __tablename__ = "ledger_keys"

    key_us: Mapped[KeyNumber]
    """The window's end; for row-level and session keys the end of their minute (..., end]."""
    rows: Mapped[Whole]
    late_min: Mapped[Whole]
    late_max: Mapped[Whole]


class WindowAgeRow(RowOfStream):
    """The ledger's rows by key and by how old the key was when they were read, of the newest keys."""

    __tablename__ = "window_ages"

    key_us: Mapped[KeyNumber]
    """As in the ledger."""
    slot: Mapped[KeyNumber]
    """Slot of age (``models.completeness.ages``)."""
    rows: Mapped[Whole]


class RollupRow(RowOfStream):
    """What the reports of a stream in one slot add up to: a minute, ten minutes, an hour or a day of batches."""

    __tablename__ = "rollups"

    width_us: Mapped[KeyNumber]
    slot_us: Mapped[KeyNumber]
    batches: Mapped[Whole]
    rows: Mapped[Whole]
    uncounted_rows: Mapped[Whole]
    pairs: Mapped[Whole]
    late_min: Mapped[Whole]
    late_max: Mapped[Whole]
    corrected_min: Mapped[Whole]
    corrected_max: Mapped[Whole]
    unjudged_rows: Mapped[Whole]
    need_pairs: Mapped[Whole]
    need_unknown_rows: Mapped[Whole]
    early_rows: Mapped[Whole]
    future_rows: Mapped[Whole]
    misdated_rows: Mapped[Whole]
    misdated_late: Mapped[Whole]
    excessive_rows: Mapped[Whole]
    replayed_rows: Mapped[Whole]
    keys_per_row: Mapped[Whole]
    """Maximum number of keys of one row."""
    from_us: Mapped[Whole]
    """Trigger time of the first batch."""
    newest_us: Mapped[Whole]
    """Trigger time of the newest batch, which the next three columns describe."""
    bound_ms: Mapped[Whole]
    effective_bound_ms: Mapped[Whole | None]
    state_rows: Mapped[Whole]
    batch_ranges: Mapped[Long]
    """Ids of the batches as JSON by query: {query: [[first, last], ...]}, ascending and disjoint."""
    needs: Mapped[Blob]
    """The needs of all partitions as one sketch (``models.sketch``)."""
    late_batches: Mapped[Blob]
    """How many rows of a batch need more than each of some bounds, with squares (``models.evidence.events``)."""


class PartitionRollupRow(RowOfStream):
    """The needs of a stream's partitions in the slot of a rollup; apart, so that scans of rollups stay short."""

    __tablename__ = "partition_rollups"

    width_us: Mapped[KeyNumber]
    slot_us: Mapped[KeyNumber]
    needs: Mapped[Blob]
    """``models.partition_needs``."""


class OffsetRow(RowOfStream):
    """How far a stream is rolled up and aged out; without a row, nothing is."""

    __tablename__ = "offsets"

    last_report_id: Mapped[Counter]
    """Reports up to this one are in the rollups; later ones are the tail, which readers add."""
    hours_until_us: Mapped[Counter]
    """Rollups that begin before are of an hour or a day; narrower ones are deleted."""
    days_until_us: Mapped[Counter]
    """Rollups that begin before are of a day."""
    rollups_from_us: Mapped[Counter]
    """Rollups that begin before are deleted."""
    reports_from_us: Mapped[Counter]
    """Reports of batches that started before are deleted."""
    bodies_from_us: Mapped[Counter]
    """Bodies of older reports are deleted."""
    ledger_from_us: Mapped[Whole | None]
    """Lower keys are deleted from the ledger; null while none is."""
    aged_us: Mapped[Counter]
    """The time that ages are measured from: the newest batch's, but never more than a day's step at once."""
