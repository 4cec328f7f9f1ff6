"""The ledger's two tables: judgements added up by key, and by key and partition, in any order.

By key they are added up with each report, by partition later, many reports at once (``waiting``): those are some
hundred rows a report, and whoever asks how a window came out asks for all partitions.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from sqlalchemy.orm import Session

from tidemark.controller.db.tables import LedgerKeyRow, LedgerRow
from tidemark.controller.db.upsert import upsert_many
from tidemark.models.horizon import bucket_keys_us
from tidemark.models.ledger import Judgement, Tally, joined
from tidemark.models.operators import Operator

__all__ = ["Judged", "add_by_key", "add_by_partition"]

Judged = tuple[Operator, Judgement]
"""What became of one report's rows, and the operator that their keys are of."""

COUNTS = ("rows", "late_min", "late_max")


def add_by_key(session: Session, stream_id: int, judged: Judged, from_us: int | None) -> None:
    """Add what became of one report's rows, all partitions together; the stream is locked.

    Keys below ``from_us`` are aged out: a late row would come back alone and make its window look lost.
    """
    tallies = _kept(judged, from_us).by_key
    upsert_many(
        session,
        LedgerKeyRow,
        {"key_us": list(tallies), **_counts(tallies.values())},
        same={"stream_id": stream_id},
        added=COUNTS,
    )


def add_by_partition(session: Session, stream_id: int, judged: Sequence[Judged], from_us: int | None) -> None:
    """Add what became of many reports' rows by partition; the stream is locked."""
    if not judged:
        return
    tallies = joined([_kept(each, from_us) for each in judged]).tallies
    # One order for all writers, that of the table: rows are locked in it.
    cells = sorted(tallies, key=lambda cell: cell[::-1])
    upsert_many(
        session,
        LedgerRow,
        {
            "key_us": [key_us for _, key_us in cells],
            "partition": [partition for partition, _ in cells],
            **_counts([tallies[cell] for cell in cells]),
        },
        same={"stream_id": stream_id},
        added=COUNTS,
    )


def _kept(judged: Judged, from_us: int | None) -> Judgement:
    """Return a judgement by the keys that are kept."""
    operator, judgement = judged
    found = replace(judgement, keys_us=bucket_keys_us(operator, judgement.keys_us))
    return found if from_us is None else found.in_order(np.flatnonzero(found.keys_us >= from_us))


def _counts(tallies: Collection[Tally]) -> dict[str, list[int]]:
    return {name: [getattr(tally, name) for tally in tallies] for name in COUNTS}
