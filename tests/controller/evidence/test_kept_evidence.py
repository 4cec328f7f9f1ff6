"""Rollups, the tail and what is kept in memory are exactly what the reports give when they are read from scratch."""

from __future__ import annotations

import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from copy import deepcopy
from pathlib import Path

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
from sqlalchemy.orm import Session

from tidemark.controller.base.errors import ReportTooOldError
from tidemark.controller.evidence import batch_cache, evidence_cache
from tidemark.controller.evidence.batch_cache import CachedSteps
from tidemark.controller.evidence.evidence_cache import CachedHorizon, EvidenceCache
from tidemark.controller.evidence.horizon import Horizon, horizon_of
from tidemark.controller.evidence.rollups import (
    WIDTHS_US,
    cover,
)
from tidemark.models.base.operators import Operator
from tidemark.models.evidence.slots import DAY_US, SLOT_US, Levels
from tidemark.models.protocol.messages import Report

from support.empty_store import open_empty
from support.kept_evidence import OPERATORS, Story, Taken
from support.streams import SECOND

HORIZONS_MS = (120_000, 3_600_000, 86_400_000, 3 * 86_400_000)


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


@pytest.mark.long
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


@pytest.mark.long
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


@pytest.mark.long
def test_postgresql_keeps_the_same(new_postgres_url: str) -> None:
    story = Story(open_empty(new_postgres_url))
    for number in range(45):
        story.take(story.report("a", 122, number % 9 == 8, [0, 5, 40]))
        for horizon_ms in HORIZONS_MS:
            story.check(horizon_ms)
    story.database.close()
