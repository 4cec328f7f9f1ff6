"""The ledger's two tables: sums of judgements by key, and by key and partition, added in any order.

Sums by key are updated with each report. Sums by key and partition take hundreds of rows a report, so they are updated
later for many reports at once (``count_waiting``); the result of a window needs only the sums by key.
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

Judged = tuple[Operator, Judgement]
"""The judgement of one report's rows, and the operator of their keys."""

_COUNTS = ("rows", "late_min", "late_max")


def add_by_key(session: Session, stream_id: int, judged: Judged, from_us: int | None) -> None:
    """Add the judgement of one report's rows, over all partitions; the stream is locked.

    Keys below ``from_us`` are deleted: a late row added there would make its window look lost.
    """
    tallies = _stored_keys(judged, from_us).by_key
    upsert_many(
        session,
        LedgerKeyRow,
        {"key_us": list(tallies), **_counts(tallies.values())},
        same={"stream_id": stream_id},
        added=_COUNTS,
    )


def add_by_partition(session: Session, stream_id: int, judged: Sequence[Judged], from_us: int | None) -> None:
    """Add the judgements of many reports' rows by partition; the stream is locked."""
    if not judged:
        return
    tallies = joined([_stored_keys(each, from_us) for each in judged]).tallies
    # The same order for all writers, because rows are locked in it.
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
        added=_COUNTS,
    )


def _stored_keys(judged: Judged, from_us: int | None) -> Judgement:
    """Return a judgement limited to the keys that the ledger stores."""
    operator, judgement = judged
    found = replace(judgement, keys_us=bucket_keys_us(operator, judgement.keys_us))
    return found if from_us is None else found.in_order(np.flatnonzero(found.keys_us >= from_us))


def _counts(tallies: Collection[Tally]) -> dict[str, list[int]]:
    return {name: [getattr(tally, name) for tally in tallies] for name in _COUNTS}
