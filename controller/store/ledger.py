"""The ledger's table: judgements added up by key and partition, in any order."""

from __future__ import annotations

from operator import itemgetter

from sqlalchemy.orm import Session

from tidemark.controller.store.tables import LedgerRow
from tidemark.controller.store.upsert import upsert_many
from tidemark.models.horizon import bucket_key_us
from tidemark.models.ledger import Judgement, Tally
from tidemark.models.operators import Operator, TimeWindow

__all__ = ["add_judgement"]


def add_judgement(
    session: Session, stream_id: int, operator: Operator, judgement: Judgement, from_us: int | None = None
) -> None:
    """Add what became of one report's rows.

    Keys below ``from_us`` are aged out: a late row would come back alone and make its window look lost.
    """
    tallies: dict[tuple[int, str], Tally] = {}
    if isinstance(operator, TimeWindow):
        tallies = {(key_us, partition): tally for (partition, key_us), tally in judgement.tallies.items()}
    else:
        for (partition, key_us), tally in judgement.tallies.items():
            cell = bucket_key_us(operator, key_us), partition
            tallies[cell] = tallies.get(cell, Tally()) + tally
    if from_us is not None:
        tallies = {cell: tally for cell, tally in tallies.items() if cell[0] >= from_us}
    upsert_many(
        session,
        LedgerRow,
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
            for (key_us, partition), tally in sorted(tallies.items(), key=itemgetter(0))
        ],
        added=("rows", "late_least", "late_most"),
    )
