"""Roll-ups and retention: no count is lost or doubled, whatever comes when, and what is asked for stays exact."""

from __future__ import annotations

import random
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlalchemy import func, select

from tidemark.controller.base.db.leases import LeaseKeeper
from tidemark.controller.base.db.tables import (
    LedgerKeyRow,
    OffsetRow,
    QueryRow,
    ReportBodyRow,
    ReportRow,
    RollupRow,
    StreamRow,
)
from tidemark.controller.base.errors import ReportTooOldError
from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.controller.evidence.rollups import (
    Span,
    levels_of,
    needs_of,
    partition_needs,
    rollups_in,
    sums_of,
)
from tidemark.models.evidence.coverage import merge_ranges
from tidemark.models.evidence.needs import needs_against
from tidemark.models.evidence.partition_needs import PartitionNeeds
from tidemark.models.evidence.sketch import Sketch
from tidemark.models.evidence.slots import DAY_US, HOUR_US, SLOT_US, Retention
from tidemark.models.protocol.messages import Report

from support.controller_app import Controller
from support.empty_store import open_empty
from support.examples import examples
from support.patience import PATIENCE_S, until
from support.reports import START_US, query_reports
from support.streams import SECOND
from support.taking import take_report

pytestmark = pytest.mark.slow

EVERYTHING = Retention(minutes_days=2, hours_days=32, days_days=4_000, reports_days=4_000, bodies_days=4_000)
AGEING = Retention(
    minutes_days=2, hours_days=32, days_days=60, reports_days=32, bodies_days=1, ledger_days=32
)
PARTITIONS = ("p0", "p1", "p2")


def spread_reports(seed: int, count: int, days: int) -> list[Report]:
    """Reports of one query at random times over ``days``: some share a minute, some an hour, some nothing."""
    dice = random.Random(seed)
    at = sorted(
        dice.choice([0, 1, 2]) * 20 * SECOND + dice.randrange(days * 24) * HOUR_US for _ in range(count)
    )
    batches = [
        [
            (dice.choice(PARTITIONS), START_US + time + dice.randrange(-60, 10) * SECOND)
            for _ in range(dice.randrange(1, 6))
        ]
        for time in at
    ]
    reports = query_reports(batches)
    # The driver of a second run knows no base from the run before, only the store does.
    return [
        replace(report, started_us=START_US + time, late_base_ms=None if number % 7 else report.late_base_ms)
        for number, (report, time) in enumerate(zip(reports, at, strict=True))
    ]


class Store:
    """A store, two replicas that run its upkeep, and the reports sent to it."""

    def __init__(self, url: str, retention: Retention) -> None:
        self.database = open_empty(url)
        self.replicas = [Upkeep(self.database, LeaseKeeper(self.database, 15), retention) for _ in range(2)]
        self.taken: dict[int, Report] = {}
        self.bases: dict[int, int | None] = {}

    @property
    def stream_id(self) -> int:
        with self.database.read() as session:
            return session.scalars(select(StreamRow.id)).one()

    def take(self, report: Report) -> bool:
        try:
            with self.database.write() as session:
                receipt = take_report(session, report, report.started_us + DAY_US)
        except ReportTooOldError:
            return False
        assert receipt.duplicate == (report.batch_id in self.taken)
        self.taken[report.batch_id] = report
        self.note()
        return True

    def note(self) -> None:
        """Remember what each report's needs were counted against: facts that age out do not say so any more."""
        with self.database.read() as session:
            self.bases.update(session.execute(select(ReportRow.batch_id, ReportRow.need_base_ms)).all())

    def age(self) -> None:
        """Take all steps that are due."""
        _, finished = self.replicas[0].run_upkeep(self.stream_id, 10_000)
        assert finished

    def crash(self, replica: int) -> None:
        """Take a step and lose it before it is committed."""
        with pytest.raises(InterruptedError), self.database.write() as outer:  # noqa: PT012
            kept = self.replicas[replica]._database
            try:
                self.replicas[replica]._database = _Within(outer)  # type: ignore[assignment]
                self.replicas[replica].step(_id(outer))
            finally:
                self.replicas[replica]._database = kept
            outer.flush()
            raise InterruptedError

    def check(self) -> None:
        """Compare every sum in the store with that of the reports it took, one by one."""
        if not self.taken:
            return
        whole, parts = Sketch(), dict[str, Sketch]()
        with self.database.read() as session:
            stream_id = _id(session)
            offset = session.get(OffsetRow, stream_id)
            gone_us = 0 if offset is None else offset.rollups_from_us
            facts = dict.fromkeys(("rows", "need_pairs", "need_unknown_rows", "early_rows"), 0)
            kept = {number for number, report in self.taken.items() if report.started_us >= gone_us}
            for number in kept:
                report = self.taken[number]
                needs = needs_against(report, self.bases[number])
                for name, (need_us, count) in needs.by_partition.items():
                    parts.setdefault(name, Sketch()).add(need_us, count)
                    whole.add(need_us, count)
                facts["rows"] += report.rows
                facts["need_pairs"] += needs.pairs
                facts["need_unknown_rows"] += needs.unknown_rows
                facts["early_rows"] += needs.early_rows
            read = rollups_in(session, Span(stream_id, 0))
            assert needs_of(read) == whole
            assert partition_needs(session, Span(stream_id, 0)) == PartitionNeeds.of(parts)
            found = sums_of(read)
            assert found is not None
            assert found.batches == len(kept)
            assert {name: found.sums[name] for name in facts} == facts
            assert found.batches_of == {"query": merge_ranges((number, number) for number in kept)}
            # Narrow slots are there from where their offsets say.
            slots = session.execute(select(RollupRow.slot_us, RollupRow.width_us)).all()
            levels = levels_of(offset)
            for slot_us, width_us in slots:
                assert slot_us % width_us == 0
                assert width_us >= levels.width_us(slot_us)
            stream = session.scalars(select(StreamRow)).one()
            assert stream.reports == len(self.taken)


class _Within:
    """Hands out the session of a transaction that somebody else ends."""

    def __init__(self, session: Any) -> None:
        self._session = session

    @contextmanager
    def write(self) -> Iterator[Any]:
        yield self._session


def _id(session: Any) -> int:
    return int(session.scalars(select(StreamRow.id)).one())


def interleave(store: Store, reports: Sequence[Report], dice: random.Random) -> None:
    waiting = sorted(reports, key=lambda report: report.batch_id + dice.choice([0, 0, 0, 2, 10, 40]))
    for report in waiting:
        store.take(report)
        for _ in range(dice.randrange(4)):
            replica = dice.randrange(2)
            if dice.random() < 0.3:
                store.crash(replica)
            else:
                store.replicas[replica].step(store.stream_id)
                store.replicas[replica].age(store.stream_id)
        if dice.random() < 0.1:
            store.take(dice.choice(waiting[: waiting.index(report) + 1]))
        if dice.random() < 0.1:
            store.check()
    store.age()
    store.check()


@contextmanager
def sqlite_store(retention: Retention) -> Iterator[Store]:
    with tempfile.TemporaryDirectory() as folder:
        store = Store(f"sqlite:///{Path(folder) / 't.db'}", retention)
        yield store
        store.database.close()


@pytest.mark.long
@given(seed=st.integers(0, 10**6), days=st.sampled_from([3, 10, 50]))
@examples(6)
def test_any_interleaving_of_reports_steps_crashes_and_two_replicas_counts_everything_once(
    seed: int, days: int
) -> None:
    reports = spread_reports(seed, 25, days)
    with sqlite_store(EVERYTHING) as store:
        interleave(store, reports, random.Random(seed))
        with sqlite_store(EVERYTHING) as plain:
            for report in reports:
                plain.take(report)
            with store.database.read() as one, plain.database.read() as other:
                # In any order, rolled up or not, it is the same.
                ours, theirs = (rollups_in(session, Span(_id(session), 0)) for session in (one, other))
                assert needs_of(ours) == needs_of(theirs)
                assert sums_of(ours) == sums_of(theirs)


@pytest.mark.long
# A store ages a day at a time: what a longer story costs is upkeep of days on which nothing comes.
@given(seed=st.integers(0, 10**6), days=st.just(80))
@example(seed=19, days=120)  # a report comes for an hour that is summed up already
@examples(1)
def test_what_ages_out_is_gone_whole_and_the_rest_stays_exact(seed: int, days: int) -> None:
    with sqlite_store(AGEING) as store:
        interleave(store, spread_reports(seed, 30, days), random.Random(seed))
        with store.database.read() as session:
            offset = session.scalars(select(OffsetRow)).one()
            newest = session.scalars(select(func.max(ReportRow.seen_us))).one()
            assert newest is not None
            oldest = session.scalars(select(func.min(ReportRow.started_us))).one()
            assert oldest is not None
            assert oldest >= newest - 32 * DAY_US - HOUR_US * 24
            assert offset.reports_from_us > 0
            assert offset.rollups_from_us > 0
            slots = session.scalars(select(func.min(RollupRow.slot_us))).one()
            assert slots >= offset.rollups_from_us


def test_a_report_that_comes_after_its_hour_was_summed_up_corrects_the_needs_of_those_after_it(
    database_url: str,
) -> None:
    """Their base is the greatest event time before them, and that was not known when they were counted."""
    made = query_reports([[("p0", START_US + n * 6 * HOUR_US - 60 * SECOND)] for n in range(40)])
    reports = [
        replace(report, started_us=START_US + n * 6 * HOUR_US, late_base_ms=None)
        for n, report in enumerate(made)
    ]
    store = Store(database_url, EVERYTHING)
    for report in (*reports[:4], *reports[5:]):
        store.take(report)
    store.age()
    before = store.bases[6]
    assert store.take(reports[4])
    assert before is not None
    assert store.bases[6] == before + 6 * HOUR_US // 1_000
    store.check()
    store.database.close()


@pytest.mark.long
def test_on_postgresql_too_with_replicas_that_really_run_at_once(new_postgres_url: str) -> None:
    store = Store(new_postgres_url, EVERYTHING)
    reports = spread_reports(5, 80, 50)
    dice = random.Random(5)
    waiting = sorted(reports, key=lambda report: report.batch_id + dice.choice([0, 0, 0, 2, 10, 40]))
    store.take(waiting[0])
    stream_id, over = store.stream_id, threading.Event()
    failed: list[BaseException] = []

    def run_upkeep(replica: Upkeep) -> None:
        try:
            while not over.is_set():
                replica.step(stream_id)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=run_upkeep, args=(replica,)) for replica in store.replicas]
    for thread in threads:
        thread.start()
    try:
        for number, report in enumerate(waiting[1:]):
            assert store.take(report)
            if number % 8 == 0:
                store.check()
    finally:
        over.set()
        for thread in threads:
            thread.join(PATIENCE_S)
    assert not failed
    store.age()
    store.check()
    with store.database.read() as session:
        assert session.scalars(select(func.count()).select_from(RollupRow)).one() > 50
    store.database.close()


def test_a_report_of_a_time_whose_reports_are_gone_is_refused_with_the_way_out(tmp_path: Path) -> None:
    reports = spread_reports(3, 40, 100)
    with Controller(f"sqlite:///{tmp_path / 't.db'}", retention_reports_days=32) as controller:
        controller.clock.now_us = START_US + 200 * DAY_US
        controller.report_all(reports)
        assert controller.service.ticker._upkeep.run_upkeep(1, 10_000)[1]
        # It came before, but nobody can know that any more.
        answer = controller.report(reports[0])
        assert (answer.status_code, answer.json()["type"]) == (422, "urn:tidemark:problem:report-too-old")
        assert "TIDEMARK_RETENTION_REPORTS_DAYS" in answer.json()["detail"]
        assert controller.report(reports[-1]).json()["duplicate"] is True
        with controller.service.database.read() as session:
            assert session.scalars(select(StreamRow.reports)).one() == len(reports)
            query = session.scalars(select(QueryRow)).one()
            assert query.deleted_batch is not None
            # What they leave behind: nothing but sums.
            left = session.scalars(select(func.count()).select_from(ReportRow)).one()
            assert 0 < left < len(reports)
            assert session.scalars(select(func.count()).select_from(ReportBodyRow)).one() <= left


def test_a_key_that_was_aged_out_does_not_come_back_as_a_window_of_late_rows_alone(tmp_path: Path) -> None:
    early, late = START_US, START_US + 90 * DAY_US
    reports = query_reports([[("p", early + n * SECOND)] for n in range(30)])
    later = [
        replace(
            report,
            batch_id=30 + n,
            started_us=late + n * SECOND,
            # It comes back with the checkpoint.
            watermark_ms=max(report.watermark_ms, reports[-1].watermark_ms),
        )
        for n, report in enumerate(query_reports([[("p", late + n * SECOND)] for n in range(30)]))
    ]
    straggler = query_reports([[("p", early)]])[0]
    straggler = replace(
        straggler,
        batch_id=60,
        started_us=late + 60 * SECOND,
        late_watermark_ms=later[-1].watermark_ms,
        watermark_ms=later[-1].watermark_ms,
    )
    with Controller(f"sqlite:///{tmp_path / 't.db'}") as controller:
        controller.clock.now_us = late + DAY_US
        controller.report_all([*reports, *later])
        assert controller.service.ticker._upkeep.run_upkeep(1, 10_000)[1]
        controller.report_all([straggler])
        with controller.service.database.read() as session:
            # All that no kept batch can emit is gone, the window of the straggler too.
            assert (
                session.scalars(select(func.min(LedgerKeyRow.key_us))).one()
                >= reports[-1].watermark_ms * 1_000
            )
            stream = session.scalars(select(StreamRow)).one()
            assert stream.late_min >= 1


def test_any_past_span_has_its_curve_and_says_which_span_it_covers(tmp_path: Path) -> None:
    reports = spread_reports(4, 60, 50)
    with Controller(f"sqlite:///{tmp_path / 't.db'}", retention_reports_days=32) as controller:
        controller.clock.now_us = START_US + 60 * DAY_US
        controller.report_all(reports)
        whole = {"horizon_ms": 100 * DAY_US // 1_000, "bound_ms": [0, 5_000, 30_000]}
        before = controller.get("/curve", params=whole).json()
        assert controller.service.ticker._upkeep.run_upkeep(1, 10_000)[1]
        after = controller.get("/curve", params=whole).json()
        counts = [[(point["rows"], point["late"]) for point in body["points"]] for body in (before, after)]
        assert counts[0] == counts[1]
        assert counts[0][0][0] > 0
        # The reports of the first days are gone, and with them when windows were emitted.
        assert before["points"][0]["latency_wall_ms"] is not None
        assert after["points"][0]["latency_wall_ms"] is None

        newest_us = max(report.started_us for report in reports)
        for back, width_us in ((1, SLOT_US), (10, HOUR_US), (45, DAY_US)):
            until_us = newest_us - back * DAY_US + 17 * SECOND
            asked = {"until_us": until_us, "horizon_ms": DAY_US // 1_000, "bound_ms": [0]}
            body = controller.get("/curve", params=asked).json()
            from_us, end_us = body["basis"]["covers_from_us"], body["basis"]["covers_until_us"]
            inside = (
                [report for report in reports if from_us <= report.started_us < end_us] if from_us else []
            )
            assert bool(body["points"]) == bool(inside)
            if not inside:
                continue
            assert from_us % width_us == end_us % width_us == 0
            assert until_us - DAY_US - width_us < from_us <= until_us - DAY_US
            assert until_us <= end_us < until_us + width_us
            assert body["basis"]["from_us"] == min(report.started_us for report in inside)
            assert body["basis"]["to_us"] == max(report.started_us for report in inside)
        assert controller.get("/curve", params={"horizon_ms": 0}).status_code == 422


def test_a_change_on_one_replica_reaches_a_long_poll_on_another_within_its_second(
    new_postgres_url: str,
) -> None:
    with Controller(new_postgres_url) as one, Controller(new_postgres_url) as other:
        assert one.put("/slo", {"target_ppm": 900_000}).status_code == 200
        held = one.get("/bound").headers["etag"]
        answers: list[Any] = []
        asked = {"If-None-Match": held, "Prefer": "wait=60"}
        waiting = threading.Thread(target=lambda: answers.append(one.get("/bound", headers=asked)))
        waiting.start()
        until(lambda: one.service.watch.waiting, "the long poll")
        assert other.put("/policy", {"mode": "OnRestart"}).status_code == 200
        polls = one.service.watch.polls
        waiting.join(PATIENCE_S)
        assert answers[0].json()["mode"] == "OnRestart"
        # There is a second between two questions: one may have been under way, and the next brings the answer.
        assert one.service.watch.polls <= polls + 3


def test_the_needs_of_partitions_wait_for_their_minute_and_are_there_all_the_time(tmp_path: Path) -> None:
    reports = query_reports([[("p", START_US + n * SECOND), ("q", START_US)] for n in range(200)])
    with Controller(f"sqlite:///{tmp_path / 't.db'}") as controller:
        controller.report_all(reports)
        before = controller.get("/partitions").json()
        with controller.service.database.read() as session:
            assert session.scalars(select(func.count()).select_from(RollupRow)).one() == 0
        controller.clock.now_us += 60 * SECOND
        controller.service.ticker._upkeep.tick(controller.clock())
        with controller.service.database.read() as session:
            assert session.scalars(select(func.count()).select_from(RollupRow)).one() > 0
        assert controller.get("/partitions").json() == before
        assert sum(part["pairs"] for part in before["partitions"]) > 300


@pytest.mark.parametrize(
    ("changes", "body"),
    [
        ({"hours_days": 31}, "retention_hours_days must be at least 32"),
        ({"reports_days": 20}, "retention_reports_days must be at least 32"),
        ({"minutes_days": 50, "hours_days": 40}, "retention_hours_days must be at least 50"),
        ({"days_days": 30, "hours_days": 32}, "retention_days_days must be at least 35"),
        ({"bodies_days": 0}, "retention_bodies_days must be at least 1"),
    ],
)
def test_a_retention_below_what_a_horizon_rests_on_is_refused(changes: dict[str, int], body: str) -> None:
    with pytest.raises(ValueError, match=body):
        Retention(**changes)
