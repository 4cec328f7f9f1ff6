"""The ledger's table: judgements added up by key and partition, in any order."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tidemark.controller.store.tables import LedgerRow
from tidemark.controller.store.upsert import insert_into
from tidemark.models.ledger import Judgement, Tally
from tidemark.models.operators import Operator, TimeWindow

__all__ = ["KEY_BUCKET_US", "add_judgement", "bucket_key_us"]

KEY_BUCKET_US = 60_000_000
"""Width of the buckets that row-level and session keys are put in, in microseconds: they are all different."""


def bucket_key_us(operator: Operator, key_us: int) -> int:
    """Return the ledger's key: a window's end as it is, any other key as the end of its minute ``(..., end]``."""
    if isinstance(operator, TimeWindow):
        return key_us
    return -(-key_us // KEY_BUCKET_US) * KEY_BUCKET_US


def add_judgement(session: Session, stream_id: int, operator: Operator, judgement: Judgement) -> None:
    """Add what became of one report's rows."""
    tallies: dict[tuple[int, str], Tally] = {}
    for (partition, key_us), tally in judgement.tallies.items():
        cell = bucket_key_us(operator, key_us), partition
        tallies[cell] = tallies.get(cell, Tally()) + tally
    if not tallies:
        return
    insert = insert_into(session, LedgerRow)
    added = {
        name: getattr(LedgerRow, name) + insert.excluded[name] for name in ("rows", "late_least", "late_most")
    }
    session.execute(
        insert.on_conflict_do_update(index_elements=["stream_id", "key_us", "partition"], set_=added),
        [
            {
                "stream_id": stream_id,
                "key_us": key_us,
                "partition": partition,
                "rows": tally.rows,
                "late_least": tally.late_least,
                "late_most": tally.late_most,
            }
            # One order for all writers: rows are locked in it.
            for (key_us, partition), tally in sorted(tallies.items())
        ],
    )
