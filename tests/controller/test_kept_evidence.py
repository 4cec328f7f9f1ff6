"""Evidence that is kept and moved on is exactly what the store gives when it is read from scratch."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
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

from tidemark.controller.db.database import Database
from tidemark.controller.db.leases import LeaseKeeper
from tidemark.controller.db.tables import StreamRow
from tidemark.controller.errors import ReportTooOldError
from tidemark.controller.evidence import evidence_cache, kept_progress
from tidemark.controller.evidence.evidence_cache import EvidenceCache
from tidemark.controller.evidence.horizon import Horizon, emissions_in, facts_from, horizon_of
from tidemark.controller.evidence.hourly_sums import sums_in
from tidemark.controller.evidence.kept_evidence import KeptEvidence
from tidemark.controller.evidence.kept_progress import KeptBatches
from tidemark.controller.evidence.kept_steps import KeptSteps
from tidemark.controller.evidence.needs import needs_in
from tidemark.controller.evidence.upkeep import Upkeep
from tidemark.controller.intake.take_reports import take_report
from tidemark.models.base.operators import Operator, RowLevel, sliding, tumbling
from tidemark.models.evidence.curve import Emissions
from tidemark.models.evidence.slots import Retention
from tidemark.models.protocol.messages import Report

from support.empty_store import open_empty
from support.reports import START_US
from support.streams import SECOND, report_of

HORIZONS_MS = (120_000, 3_600_000, 86_400_000, 3 * 86_400_000)
OPERATORS: tuple[Operator, ...] = (
    tumbling("10 seconds"),
    sliding("30 seconds", "10 seconds"),
    RowLevel(),
)


@dataclass
class Story:
    """A stream whose reports come one by one, and what is kept of it."""

    database: Database
    kept: EvidenceCache = field(default_factory=EvidenceCache)
    now_us: int = START_US
    batches: dict[str, int] = field(default_factory=dict)

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
        self.batches[query] = batch = self.batches.get(query, -1) + 1 + skipped
        base_ms = self.now_us // 1_000 - 7_000
        return report_of(
            [("p", self.now_us - delay * SECOND) for delay in delays],
            operator,
            granule_us=10 * SECOND,
            query_id=query,
            batch_id=batch,
            started_us=self.now_us,
            duration_ms=400,
            late_watermark_ms=base_ms - 30_000,
            watermark_ms=base_ms - 25_000,
            late_base_ms=base_ms if known else None,
        )

    def take(self, report: Report) -> None:
        with self.database.write() as session:
            take_report(session, report, self.now_us + SECOND)

    def check(self, horizon_ms: int) -> None:
        """Compare what is kept with what the store says, from scratch."""
        with self.database.read() as session:
            self.check_in(session, horizon_ms)

    def check_in(self, session: Session, horizon_ms: int) -> None:
        stream_id = session.scalars(select(StreamRow.id)).one()
        horizon = horizon_of(session, stream_id, horizon_ms)
        assert horizon is not None
        facts, curve = self.kept.facts_and_curve(session, horizon)
        sums = sums_in(session, horizon.span)
        assert sums is not None
        assert facts == facts_from(session, horizon, sums)
        assert curve.needs == needs_in(session, horizon.span)
        assert_same(curve.emissions, emissions_in(session, horizon.span, horizon.newest))
        pace = self.kept.pace(session, horizon)
        for found, wanted in (
            (self.kept.everything(session, horizon), (facts, curve, pace)),
            (self.kept.facts_and_pace(session, horizon), (facts, pace)),
        ):
            assert found[0] == wanted[0]
            np.testing.assert_array_equal(found[-1], wanted[-1])
        np.testing.assert_array_equal(pace, KeptBatches(session, horizon).table)

    def upkeep(self) -> None:
        leases = LeaseKeeper(self.database, 15)
        Upkeep(self.database, leases, Retention(minutes_days=2, bodies_days=1, reports_days=32)).run_upkeep(1)


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
        self.story = Story(open_empty(f"sqlite:///{Path(self.folder.name) / 't.db'}"))
        self.late: Report | None = None

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

    @rule()
    def upkeep(self) -> None:
        self.story.upkeep()

    @rule(horizon_ms=st.sampled_from(HORIZONS_MS))
    def read(self, horizon_ms: int) -> None:
        self.story.check(horizon_ms)


@pytest.mark.slow
def test_whatever_comes_in_whatever_order_what_is_kept_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_progress, "PACE_BATCHES", 7)  # or none would ever be left out
    run_state_machine_as_test(Kept, settings=settings(max_examples=25, stateful_step_count=30, deadline=None))


@pytest.fixture
def story(tmp_path: Path) -> Iterator[Story]:
    database = open_empty(f"sqlite:///{tmp_path / 't.db'}")
    yield Story(database)
    database.close()


@pytest.fixture
def from_scratch(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The horizons that were read from scratch."""
    found: list[int] = []

    class Counted(KeptEvidence):
        def __init__(self, session: Session, horizon: Horizon) -> None:
            found.append(horizon.length_ms)
            super().__init__(session, horizon)

    monkeypatch.setattr(evidence_cache, "KeptEvidence", Counted)
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
    size = 9 * story.kept.nbytes
    story.kept = EvidenceCache(max_bytes=size)
    for horizon_ms in [*horizons] * rounds:
        story.check(horizon_ms)
        assert story.kept.nbytes <= size
    assert len(from_scratch) < rounds * len(horizons) / 2


def test_what_is_dropped_while_it_is_read_is_not_counted(story: Story) -> None:
    story.take(story.report("a", 20, 0, [0]))
    story.kept = EvidenceCache(max_bytes=1)
    with story.database.read() as session:
        first, second = (horizon_of(session, 1, horizon_ms) for horizon_ms in HORIZONS_MS[:2])
        assert first is not None
        assert second is not None
        story.kept._of(session, first, lambda _: story.kept.facts(session, second))
        held = story.kept.nbytes
        story.kept.facts(session, second)
    assert story.kept.nbytes == held > 0


def test_what_fails_half_way_is_read_from_scratch(
    story: Story, from_scratch: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.take(story.report("a", 20, 0, [0]))
    story.check(3_600_000)
    story.take(story.report("a", 20, 0, [0]))
    with monkeypatch.context() as broken:
        broken.setattr(KeptSteps, "move_to", lambda *_: 1 // 0)
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
