"""The ledger's table: judgements added up by key and partition, in any order."""

from __future__ import annotations

from sqlalchemy.orm import Session

from tidemark.controller.store.tables import LedgerRow
from tidemark.controller.store.upsert import insert_into
from tidemark.models.horizon import bucket_key_us
from tidemark.models.ledger import Judgement, Tally
from tidemark.models.operators import Operator

__all__ = ["add_judgement"]


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
