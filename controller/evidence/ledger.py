"""The ledger's table: sums of judgements by key over all partitions, added in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy.orm import Session

from tidemark.controller.db.statements import upsert_many
from tidemark.controller.db.tables import LedgerKeyRow
from tidemark.models.base.operators import Operator, TimeWindow
from tidemark.models.evidence.horizon import bucket_keys_us
from tidemark.models.evidence.key_counts import sum_runs
from tidemark.models.evidence.ledger import Judgement

_COUNTS = ("rows", "late_min", "late_max")


@dataclass(frozen=True, slots=True)
class NewKeys:
    """The judgement of one report's rows."""

    stream_id: int
    operator: Operator
    """The operator of its keys."""
    judgement: Judgement
    from_us: int | None
    """Keys below are deleted: a late row added there would make its window look lost. None while none is."""


def add_to_ledger(session: Session, reports: Sequence[NewKeys]) -> None:
    """Add the judgements of reports of different streams, which are locked."""
    columns: dict[str, list[int]] = {name: [] for name in ("stream_id", "key_us", *_COUNTS)}
    for new in reports:
        keys_us, counts = new.judgement.keys_us, new.judgement.counts
        if not isinstance(new.operator, TimeWindow):
            keys_us, counts = sum_runs(bucket_keys_us(new.operator, keys_us), counts)
        if new.from_us is not None:
            first = int(keys_us.searchsorted(new.from_us))
            keys_us, counts = keys_us[first:], counts[:, first:]
        columns["stream_id"] += [new.stream_id] * len(keys_us)
        columns["key_us"] += keys_us.tolist()
        for name, values in zip(_COUNTS, counts.tolist(), strict=True):
            columns[name] += values
    upsert_many(session, LedgerKeyRow, columns, same={}, added=_COUNTS)
