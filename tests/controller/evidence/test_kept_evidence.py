"""Rollups, the tail and what is kept in memory are exactly what the reports give when they are read from scratch."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
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
from tidemark.controller.base.errors import ReportTooOldError
from tidemark.controller.control.retention.delete_stream import delete_stream
from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.controller.evidence import batch_cache, evidence_cache
from tidemark.controller.evidence.batch_cache import BatchCache, CachedSteps
from tidemark.controller.evidence.evidence_cache import CachedHorizon, EvidenceCache
from tidemark.controller.evidence.horizon import Horizon, emissions_in, facts_from, horizon_of
from tidemark.controller.evidence.roll_up import locked_offset
from tidemark.controller.evidence.rollups import (
    WIDTHS_US,
    Rollup,
    Sums,
    cover,
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
from tidemark.models.evidence.slots import DAY_US, SLOT_US, Levels, Retention, edge_us
from tidemark.models.protocol.messages import Report

from support.empty_store import open_empty
from support.reports import START_US
from support.streams import SECOND, report_of
from support.taking import take_report

HORIZONS_MS = (120_000, 3_600_000, 86_400_000, 3 * 86_400_000)
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


class Kept(RuleBasedStateMachine):
    """Reports come in and out of order, clocks jump, data roll up and age out; whatever is read is exact."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "t.db"
        self.story = Story(open_empty(f"sqlite:///{self.path}"))
        self.late: Report | None = None
        self.copied: tuple[dict[tuple[str, int], Taken], dict[str, int]] | None = None

    def teardown(self) -> None:
        self.story.database.close()
        self.folder.cleanup()

    @initialize()
    def begin(self) -> None:
        self.story.take(self.story.report("a", 0, 0, [0, 5]))

    @rule(
        query=st.sampled_from("aaab"),
        seconds=st.sampled_from([3, 3, 3, 20, 61, 70, 700, 3_500, 4_000, 90_000]),
        skipped=st.sampled_from([0, 0, 0, 1]),
        delays=st.lists(st.sampled_from([0, 1, 5, 12, 40, 100]), max_size=3),
        operator=st.sampled_from([*[OPERATORS[0]] * 3, *OPERATORS]),
        known=st.booleans(),
        held_back=st.sampled_from([False] * 7 + [True]),
    )
    def report(
        self,
        query: str,
        seconds: int,
        skipped: int,
        delays: list[int],
        *,
        operator: Operator,
        known: bool,
        held_back: bool,
    ) -> None:
        report = self.story.report(query, seconds, skipped, delays, operator=operator, known=known)
        if held_back and self.late is None:
            self.late = report
        else:
            self.story.take(report)

    @precondition(lambda self: self.late is not None)
    @rule()
    def what_was_held_back_comes(self) -> None:
        assert self.late is not None
        with suppress(ReportTooOldError):
            self.story.take(self.late)
        self.late = None

    @rule(seconds=st.sampled_from([2, 100]))
    def a_clock_goes_back(self, seconds: int) -> None:
        self.story.now_us -= seconds * SECOND

    @rule(days=st.sampled_from([0, 0, 1, 30]))
    def clocks_are_ahead(self, days: int) -> None:
        self.story.ahead_us = days * DAY_US

    @precondition(lambda self: not self.story.ahead_us)
    @rule()
    def clocks_agree_for_an_hour_and_are_believed(self) -> None:
        for _ in range(5):
            self.story.take(self.story.report("a", 1_000, 0, [0, 5]))
        self.story.put_clocks_right()
        self.story.check_rollups()

    @rule()
    def upkeep(self) -> None:
        self.story.upkeep()
        self.story.check_rollups()

    @rule(often=st.sampled_from([False] * 9 + [True]))
    def the_stream_is_deleted_and_begins_anew(self, *, often: bool) -> None:
        if often:
            self.story.delete()
            self.late = None
            self.story.take(self.story.report("a", 3, 0, [0, 5]))

    @rule()
    def the_store_is_copied(self) -> None:
        copy_sqlite(self.path, self.path.with_name("copy.db"))
        self.copied = deepcopy((self.story.taken, self.story.batches))

    @precondition(lambda self: self.copied is not None)
    @rule()
    def the_store_is_restored(self) -> None:
        """And the controller starts again."""
        assert self.copied is not None
        self.story.taken, self.story.batches = deepcopy(self.copied)
        copy_sqlite(self.path.with_name("copy.db"), self.path)
        self.story.cache, self.late = EvidenceCache(), None

    @rule(horizon_ms=st.sampled_from(HORIZONS_MS))
    def read(self, horizon_ms: int) -> None:
        self.story.check(horizon_ms)


def copy_sqlite(source: Path, target: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(target)) as new:
        old.backup(new)


@pytest.mark.slow
def test_whatever_comes_in_whatever_order_rollups_and_what_is_kept_are_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batch_cache, "PACE_BATCHES", 7)  # or none would ever be left out
    run_state_machine_as_test(Kept, settings=settings(max_examples=25, stateful_step_count=30, deadline=None))


@given(
    from_min=st.integers(0, 5_000),
    minutes=st.none() | st.integers(0, 5_000),
    width_us=st.sampled_from(WIDTHS_US),
)
def test_a_span_is_covered_by_slots_that_follow_one_another_and_are_few(
    from_min: int, minutes: int | None, width_us: int
) -> None:
    from_us = from_min * SLOT_US
    until_us = None if minutes is None else from_us + minutes * SLOT_US
    parts = cover(from_us, until_us, Levels(), width_us)
    ends = [from_us, *(end_us for _, _, end_us in parts)]
    assert ends[:-1] == [start_us for _, start_us, _ in parts]
    assert until_us in (None, ends[-1])
    for width, start_us, end_us in parts:
        assert width_us % width == start_us % width == 0
        assert end_us % width == 0 or until_us is None
        # The days themselves are as many as they are.
        assert width == width_us or (end_us - start_us) // width < 24


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    database = open_empty(f"sqlite:///{tmp_path / 't.db'}")
    yield Story(database)
    database.close()


@pytest.fixture
def from_scratch(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The horizons that were read from scratch."""
    found: list[int] = []

    class Counted(CachedHorizon):
        def __init__(self, session: Session, horizon: Horizon, marker: evidence_cache._Marker) -> None:
            found.append(horizon.length_ms)
            super().__init__(session, horizon, marker)

    monkeypatch.setattr(evidence_cache, "CachedHorizon", Counted)
    return found


@pytest.mark.slow
def test_a_stream_in_order_is_read_from_scratch_once(story: Story, from_scratch: list[int]) -> None:
    for number in range(100):
        story.take(story.report("a", 40, number % 9 == 8, [0, 5, 40]))
        story.check(3_600_000)
    assert from_scratch == [3_600_000]


@pytest.mark.parametrize(
    ("what", "seconds"), [("a report out of order", 20), ("a pause longer than an hour", 4_000)]
)
def test_what_cannot_be_moved_on_exactly_is_read_from_scratch(
    story: Story, from_scratch: list[int], what: str, seconds: int
) -> None:
    story.take(story.report("a", 20, 0, [0]))
    story.check(86_400_000)
    first, second = story.report("a", seconds, 0, [0]), story.report("a", seconds, 0, [0])
    for report in (second, first) if what == "a report out of order" else (first, second):
        story.take(report)
        story.check(3_600_000)
    assert len(from_scratch) == 3


def test_a_late_report_of_another_query_is_seen_in_slots_that_were_added_up_already(
    story: Story, from_scratch: list[int]
) -> None:
    story.take(story.report("a", 72_000, 0, [0]))
    late = story.report("b", 0, 0, [0, 5])
    for seconds in (4_000, 21_600):
        story.take(story.report("a", seconds, 0, [0]))
    story.upkeep()
    story.check(86_400_000)
    story.take(late)
    story.upkeep()
    story.check(86_400_000)
    assert len(from_scratch) == 1


def test_batches_that_came_and_left_a_short_horizon_since_the_last_read_count_towards_its_start(
    story: Story,
) -> None:
    story.take(story.report("a", 20, 0, [0]))
    story.check(120_000)
    for seconds in (3, 700):
        story.take(story.report("a", seconds, 0, [0], known=False))
    story.check(120_000)


def test_a_reader_with_an_older_snapshot_of_the_store_gets_what_it_sees(story: Story) -> None:
    story.take(story.report("a", 20, 0, [0]))
    with story.database.read() as old:
        story.check_in(old, 3_600_000)
        story.take(story.report("a", 20, 0, [0, 5]))
        story.check(3_600_000)
        old.expire_all()
        story.check_in(old, 3_600_000)
    story.check(3_600_000)


def test_a_full_cache_still_has_most_of_what_is_read_in_turn(story: Story, from_scratch: list[int]) -> None:
    story.take(story.report("a", 20, 0, [0]))
    rounds, horizons = 10, range(60_000, 660_000, 60_000)
    story.check(horizons[0])
    size = 9 * story.cache.nbytes
    story.cache = EvidenceCache(max_bytes=size)
    for horizon_ms in [*horizons] * rounds:
        story.check(horizon_ms)
        assert story.cache.nbytes <= size
    assert len(from_scratch) < rounds * len(horizons) / 2


def test_what_is_dropped_while_it_is_read_is_not_counted(story: Story) -> None:
    story.take(story.report("a", 20, 0, [0]))
    story.cache = EvidenceCache(max_bytes=1)
    with story.database.read() as session:
        first, second = (horizon_of(session, 1, horizon_ms) for horizon_ms in HORIZONS_MS[:2])
        assert first is not None
        assert second is not None
        story.cache._of(session, first, lambda _: story.cache.pace(session, second))
        held = story.cache.nbytes
        story.cache.pace(session, second)
    assert story.cache.nbytes == held > 0


def test_what_fails_half_way_is_read_from_scratch(
    story: Story, from_scratch: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.take(story.report("a", 20, 0, [0]))
    story.check(3_600_000)
    story.take(story.report("a", 20, 0, [0]))
    with monkeypatch.context() as broken:
        broken.setattr(CachedSteps, "move_to", lambda *_: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            story.check(3_600_000)
    story.check(3_600_000)
    assert len(from_scratch) == 2


def test_postgresql_keeps_the_same(new_postgres_url: str) -> None:
    story = Story(open_empty(new_postgres_url))
    for number in range(45):
        story.take(story.report("a", 122, number % 9 == 8, [0, 5, 40]))
        for horizon_ms in HORIZONS_MS:
            story.check(horizon_ms)
    story.database.close()
