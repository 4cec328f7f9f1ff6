"""Rows and losses by the values of a dimension."""

from __future__ import annotations

from sqlalchemy.orm import Mapped

from tidemark.controller.base.db.tables.columns import (
    KeyIdentifier,
    KeyName,
    KeyNumber,
    Long,
    RowOfStream,
    Whole,
)


class LateStepRow(RowOfStream):
    """Some batches whose rows are counted by dimension; no two of a query overlap."""

    __tablename__ = "late_steps"

    query_id: Mapped[KeyIdentifier]
    first_batch: Mapped[KeyNumber]
    last_batch: Mapped[Whole]
    hour_us: Mapped[Whole]
    """The hour that they are counted in."""
    received_us: Mapped[Whole]


class LateSlotRow(RowOfStream):
    """Rows and losses of the batches of one hour, or of one day, by the values of a dimension."""

    __tablename__ = "late_slots"

    dimension: Mapped[KeyName]
    width_us: Mapped[KeyNumber]
    slot_us: Mapped[KeyNumber]
    counts: Mapped[Long]
    """As JSON: [[value or null, ...], [[rows, late, no event time, set aside, greatest lateness in ms, late rows by
    age ...], ...]]. Ages without rows at the end are left out.

    The values with most rows stand by themselves; the last list of numbers, without a value, is of all others.
    """
