"""What follows from reports in the transaction that stores them: the ledger, the partitions, and needs that changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sqlalchemy.orm import Session

from tidemark.controller.base.db.statements import upsert_many
from tidemark.controller.base.db.tables import LedgerKeyRow, WindowAgeRow
from tidemark.controller.evidence import roll_up
from tidemark.controller.reports.partitions import (
    add_partitions,
    arrived_in,
    base_after_us,
    forget_partitions,
)
from tidemark.controller.reports.raise_bases import Corrected
from tidemark.controller.reports.store_reports import CountedReport
from tidemark.models.base.operators import TimeWindow
from tidemark.models.completeness.ages import slot_of
from tidemark.models.evidence.horizon import bucket_keys_us, horizon_from_us, key_span_us
from tidemark.models.evidence.key_counts import sum_runs
from tidemark.models.evidence.needs import late_base_ms

_COUNTS = ("rows", "late_min", "late_max")

_MAX_FORGOTTEN = 20_000
"""How many partitions that are gone may make room for those of one report."""


class StreamEvidence:
    """Follows the reports of all streams; see ``reports.store_reports.ReportFollower``.

    Args:
        horizon_ms_of: returns the horizon of a stream in milliseconds.
    """

    def __init__(self, horizon_ms_of: Callable[[Session, int], int]) -> None:
        self._horizon_ms_of = horizon_ms_of

    def forget_partitions(self, session: Session, stream_id: int, seen_us: int) -> int:
        """Delete partitions without a row over the horizon of a batch; return how many."""
        from_us = horizon_from_us(seen_us, self._horizon_ms_of(session, stream_id))
        return forget_partitions(session, stream_id, from_us, _MAX_FORGOTTEN)

    def add(self, session: Session, reports: Sequence[CountedReport]) -> None:
        """Add reports of different streams to the ledger and to their partitions; ``roll_up`` adds the rest later."""
        bases_us = [
            base_after_us(
                counted.new.report,
                late_base_ms(counted.new.report.late_base_ms, counted.new.stored.before_max_us),
                counted.facts.seen_us,
            )
            for counted in reports
        ]
        _add_to_ledger(session, reports, bases_us)
        add_partitions(
            session,
            [
                (
                    counted.new.stream_id,
                    counted.facts.seen_us,
                    base_us,
                    arrived_in(counted.new.report, counted.cells, counted.wrong, counted.clocks.latest_us),
                )
                for counted, base_us in zip(reports, bases_us, strict=True)
            ],
        )

    def correct(self, session: Session, stream_id: int, corrected: Sequence[Corrected]) -> None:
        """Replace the needs of stored reports of a stream."""
        roll_up.correct(session, stream_id, corrected)


def _add_to_ledger(session: Session, reports: Sequence[CountedReport], bases_us: Sequence[int]) -> None:
    """Add the judgements of reports by key, and by its age: sums over all partitions, in any order.

    They are no rollup: a key's rows come over many slots of time, and nothing that comes later changes them.
    """
    columns: dict[str, list[int]] = {name: [] for name in ("stream_id", "key_us", *_COUNTS)}
    slots: list[int] = []
    for counted, base_us in zip(reports, bases_us, strict=True):
        operator, from_us = counted.new.report.operator, counted.new.stored.ledger_from_us
        keys_us, counts = counted.judgement.keys_us, counted.judgement.counts
        if not isinstance(operator, TimeWindow):
            keys_us, counts = sum_runs(bucket_keys_us(operator, keys_us), counts)
        if from_us is not None:
            # A late row added to a key that is deleted would make its window look lost.
            first = int(keys_us.searchsorted(from_us))
            keys_us, counts = keys_us[first:], counts[:, first:]
        columns["stream_id"] += [counted.new.stream_id] * len(keys_us)
        columns["key_us"] += keys_us.tolist()
        slots += slot_of(base_us - keys_us, key_span_us(operator)).tolist()
        for name, values in zip(_COUNTS, counts.tolist(), strict=True):
            columns[name] += values
    upsert_many(session, LedgerKeyRow, columns, same={}, added=_COUNTS)
    ages = {
        **{name: columns[name] for name in ("stream_id", "key_us")},
        "slot": slots,
        "rows": columns["rows"],
    }
    upsert_many(session, WindowAgeRow, ages, same={}, added=("rows",))
