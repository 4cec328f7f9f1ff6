"""A stream whose reports come one by one in any order, and what the reports say of it, counted from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from sqlalchemy import select
from sqlalchemy.orm import Session

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.leases import LeaseKeeper
from tidemark.controller.base.db.tables import (
    KNOWN,
    OffsetRow,
    PartitionRollupRow,
    ReportRow,
    RollupRow,
    StreamRow,
)
from tidemark.controller.control.retention.delete_stream import delete_stream
from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.controller.evidence.batch_cache import BatchCache
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.evidence.horizon import emissions_in, facts_from, horizon_of
from tidemark.controller.evidence.roll_up import locked_offset
from tidemark.controller.evidence.rollups import (
    WIDTHS_US,
    Rollup,
    Sums,
    levels_of,
    partition_needs,
)
from tidemark.controller.evidence.rollups import sums_of as rollup_sums
from tidemark.controller.evidence.set_back import set_back
from tidemark.controller.reports.store import newest_report_id
from tidemark.models.base.operators import Operator, RowLevel, sliding, tumbling
from tidemark.models.evidence.coverage import Range, merge_ranges
from tidemark.models.evidence.curve import Emissions
from tidemark.models.evidence.events import NO_BATCHES, LateBatches, Overdispersion
from tidemark.models.evidence.horizon import SUMMED, event_slot_us
from tidemark.models.evidence.needs import needs_against
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.slots import SLOT_US, Retention, edge_us
from tidemark.models.protocol.messages import Report

from support.reports import START_US
from support.streams import SECOND, report_of
from support.taking import take_report

__all__ = ["OPERATORS", "Story", "Taken"]

OPERATORS: tuple[Operator, ...] = (
    tumbling("10 seconds"),
    sliding("30 seconds", "10 seconds"),
    RowLevel(),
)


@dataclass
class Taken:
    """A report that was taken, and what the store says of it, as long as it does."""

    report: Report
    report_id: int
    seen_us: int
    base_ms: int | None
    facts: dict[str, int]


@dataclass
class Story:
    """A stream whose reports come one by one, and what is kept of it."""

    database: Database
    cache: EvidenceCache = field(default_factory=EvidenceCache)
    now_us: int = START_US
    ahead_us: int = 0
    """By how much the clocks are ahead."""
    batches: dict[str, int] = field(default_factory=dict)
    taken: dict[tuple[str, int], Taken] = field(default_factory=dict)

    def report(
        self,
        query: str,
        seconds: int,
        skipped: int,
        delays: list[int],
        *,
        operator: Operator = OPERATORS[0],
        known: bool = True,
    ) -> Report:
        """The report of a query's next batch, ``seconds`` later; its rows are delayed by ``delays`` seconds."""
        self.now_us += seconds * SECOND
        now_us = self.now_us + self.ahead_us
        self.batches[query] = batch = self.batches.get(query, -1) + 1 + skipped
        base_ms = now_us // 1_000 - 7_000
        return report_of(
            [("pq"[delay % 2], now_us - delay * SECOND) for delay in delays],
            operator,
            granule_us=10 * SECOND,
            query_id=query,
            batch_id=batch,
            started_us=now_us,
            duration_ms=400,
            late_watermark_ms=base_ms - 30_000,
            watermark_ms=base_ms - 25_000,
            late_base_ms=base_ms if known else None,
        )

    def take(self, report: Report) -> None:
        with self.database.write() as session:
            take_report(session, report, self.now_us + self.ahead_us + SECOND)
        self.note(report)

    def note(self, new: Report | None = None) -> None:
        """Remember what the store says of each report: once it is deleted, nobody does."""
        with self.database.read() as session:
            for row in session.scalars(select(ReportRow).where(ReportRow.stream_id == stream_id_in(session))):
                key = row.query_id, row.batch_id
                report = self.taken[key].report if new is None or key in self.taken else new
                facts = {name: getattr(row, name) for name in (*SUMMED, "keys_per_row")}
                self.taken[key] = Taken(report, row.id, row.seen_us, row.need_base_ms, facts)

    def check(self, horizon_ms: int) -> None:
        """Compare what is read with what the reports say, from scratch."""
        with self.database.read() as session:
            self.check_in(session, horizon_ms)

    def check_in(self, session: Session, horizon_ms: int) -> None:
        horizon = horizon_of(session, stream_id_in(session), horizon_ms)
        assert horizon is not None
        facts, curve, pace = self.cache.everything(session, horizon)
        # Where minutes are aged out, as by a wrong clock, the hour counts.
        from_us = levels_of(session.get(OffsetRow, horizon.stream_id)).slot_us(horizon.from_us)
        last_id = newest_report_id(session, horizon.stream_id)
        taken = [
            each for each in self.taken.values() if each.seen_us >= from_us and each.report_id <= last_id
        ]
        assert facts == facts_from(session, horizon, sums_of(taken))
        assert curve.needs == needs_of(taken).whole
        assert partition_needs(session, horizon.span) == needs_of(taken)
        assert self.cache.partition_needs(session, horizon) == needs_of(taken)
        assert_same(curve.emissions, emissions_in(session, horizon.span, horizon.newest))
        facts_again, overdispersion, pace_again = self.cache.facts(session, horizon)
        assert facts_again == facts
        np.testing.assert_array_equal(pace_again, pace)
        assert overdispersion.rows_per_event(990_000) == curve.rows_per_event(990_000)
        width_us = event_slot_us(horizon_ms)
        by_slot: dict[int, list[Taken]] = {}
        for each in taken:
            by_slot.setdefault(edge_us(each.seen_us, width_us), []).append(each)
        exact = Overdispersion.of(late_batches_of(some) for some in by_slot.values())
        assert curve.rows_per_event(990_000) == exact.rows_per_event(990_000)
        np.testing.assert_array_equal(self.cache.pace(session, horizon), pace)
        np.testing.assert_array_equal(pace, BatchCache(session, horizon).table)

    def check_rollups(self) -> None:
        """Compare every rollup with the reports in its slot."""
        with self.database.read() as session:
            stream_id = stream_id_in(session)
            offset = session.get(OffsetRow, stream_id) or OffsetRow(last_report_id=0, rollups_from_us=0)
            slots: dict[tuple[int, int], list[Taken]] = {}
            for each in self.taken.values():
                least = levels_of(offset).width_us(each.seen_us) if offset.stream_id else SLOT_US
                for width_us in WIDTHS_US:
                    rolled_up = (
                        each.report_id <= offset.last_report_id and each.seen_us >= offset.rollups_from_us
                    )
                    if rolled_up and width_us >= least:
                        slots.setdefault((width_us, edge_us(each.seen_us, width_us)), []).append(each)
            rows = session.scalars(select(RollupRow).where(RollupRow.stream_id == stream_id)).all()
            parts = session.scalars(
                select(PartitionRollupRow).where(PartitionRollupRow.stream_id == stream_id)
            ).all()
            assert {(row.width_us, row.slot_us) for row in rows} == slots.keys()
            for row in rows:
                taken, found = slots[row.width_us, row.slot_us], Rollup.of_row(row)
                assert rollup_sums([found]) == sums_of(taken)
                assert found.needs == needs_of(taken).whole
                assert_alike(LateBatches.from_bytes(row.late_batches), late_batches_of(taken))
            assert {(row.width_us, row.slot_us): PartitionNeeds.from_bytes(row.needs) for row in parts} == {
                slot: needs_of(taken) for slot, taken in slots.items()
            }

    def delete(self) -> None:
        with self.database.write() as session:
            delete_stream(session, session.get_one(StreamRow, stream_id_in(session)), "over", self.now_us)
        self.taken.clear()
        self.batches.clear()

    def put_clocks_right(self) -> None:
        """Have the times of what was stored while clocks were ahead set back, if that is sure."""
        with self.database.write() as session:
            found = locked_offset(session, stream_id_in(session))
            while found is not None and set_back(session, found[0], self.now_us):
                pass
        self.note()

    def upkeep(self) -> None:
        leases = LeaseKeeper(self.database, 15)
        retention = Retention(minutes_days=2, bodies_days=1, reports_days=32)
        with self.database.read() as session:
            stream_id = stream_id_in(session)
        Upkeep(self.database, leases, retention, tail=self.cache.tail).run_upkeep(stream_id, 10_000)


def stream_id_in(session: Session) -> int:
    return session.scalars(select(StreamRow.id).where(KNOWN)).one()


def sums_of(taken: Sequence[Taken]) -> Sums:
    """What reports add up to, counted one by one."""
    batches_of: dict[str, list[Range]] = {}
    for each in taken:
        batches_of.setdefault(each.report.query_id, []).append((each.report.batch_id, each.report.batch_id))
    return Sums(
        len(taken),
        min(each.seen_us for each in taken),
        max(each.seen_us for each in taken),
        max(each.facts["keys_per_row"] for each in taken),
        {name: sum(each.facts[name] for each in taken) for name in SUMMED},
        {query_id: merge_ranges(ranges) for query_id, ranges in batches_of.items()},
    )


def needs_of(taken: Sequence[Taken]) -> PartitionNeeds:
    return PartitionNeeds.merged(
        PartitionNeeds.counted(needs_against(each.report, each.base_ms)) for each in taken
    )


def late_batches_of(taken: Sequence[Taken]) -> LateBatches:
    return sum((LateBatches.of_batch(*needs_of([each]).counts) for each in taken), NO_BATCHES)


def assert_alike(found: LateBatches, wanted: LateBatches) -> None:
    np.testing.assert_array_equal(found.late, wanted.late)
    np.testing.assert_array_equal(found.squares, wanted.squares)
    # Thirds, which add up to another last bit by hours first.
    np.testing.assert_allclose(found.shares, wanted.shares, rtol=1e-12)


def assert_same(found: Emissions | None, wanted: Emissions | None) -> None:
    assert (found is None) == (wanted is None)
    if found is not None and wanted is not None:
        for name in ("end_us", "emit_base_us", "wall_us"):
            np.testing.assert_array_equal(getattr(found, name), getattr(wanted, name))
