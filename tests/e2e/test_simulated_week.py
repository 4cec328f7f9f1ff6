"""A week of 200 streams with faults, on a clock that a test moves: every verdict is compared with the truth."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from scipy.stats import binom
from sqlalchemy import select

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.tables import LedgerKeyRow, StreamRow

from support.failover import ReplicatedPostgres, replicated_postgres
from support.faults import Compared
from support.postgres import postgres_or_skip
from support.simulated_week import REPLICAS, SimulatedWeek
from support.week_job import WeekJob
from support.week_streams import DAY_S, LASTING, fleet
from support.week_truth import PPM, Truth, admitted_by

pytestmark = [pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(7_200)]

STREAMS, DAYS, SEED = 200, 7, 39
TICKS_A_DAY = 2


@pytest.fixture
def server() -> Iterator[ReplicatedPostgres]:
    """A PostgreSQL of the test's own, with a standby."""
    with replicated_postgres(postgres_or_skip()) as running:
        yield running


class Verdicts:
    """What Tidemark said, compared with the truth."""

    def __init__(self, week: SimulatedWeek) -> None:
        self.checks: dict[str, list[bool]] = {}
        """By what was compared, whether each was right."""
        self.wrong: list[str] = []
        self.certified: dict[str, list[int]] = {}
        """By stream whose delays stay the same, each bound that was certified, in milliseconds."""
        self._week = week

    def check(self, what: str, said: object, true: object, where: object) -> None:
        self.checks.setdefault(what, []).append(said == true)
        if said != true:
            self.wrong.append(f"{what}, {where}: {said} is said, and {true} is true")

    def after_tick(self, tick: int) -> None:
        """Note what is certified; once a day compare all that is said of the SLOs."""
        lasting = {kind.__name__ for kind in LASTING}
        for job in self._week.jobs:
            if job.made.kind in lasting:
                found = self._week.controller.get(job.path)["recommended"]
                step = None if found is None else found["steps"][0]
                if step is not None and step["bound_ms"] is not None and "certifies" in step["reason"]:
                    self.certified.setdefault(job.made.name, []).append(step["bound_ms"])
        if tick % TICKS_A_DAY == 0:
            self._compare_slos(tick // TICKS_A_DAY)

    def _compare_slos(self, day: int) -> None:
        listed = {each["job"]: each for each in self._all("/v1/fleet", "streams")}
        saved = {each["job"]: each for each in self._all("/v1/savings", "streams")}
        for job in self._week.jobs:
            name, where = job.made.name, (job.made.name, f"day {day}")
            spent = Truth(job).spent()
            budget = self._week.controller.get(job.path)["budget"]
            exact = job.made.operator.kind == "window"
            said = (budget["counted"], budget["bad_min"], budget["bad_max"])
            bad_min, bad_max = (spent.bad, spent.bad) if exact else said[1:]
            self.check(
                "rows and late rows of an SLO's window", said, (spent.counted, bad_min, bad_max), where
            )
            between = budget["bad_min"] <= spent.bad <= budget["bad_max"]
            self.check("rows and late rows of an SLO's window", between, True, where)
            self.check("batches without a report", budget["missing_batches"], spent.missing, where)
            verdict = _verdict(budget)
            if verdict is not None:
                self.check("SLO met or missed", verdict, spent.missed, where)
            in_list = (listed[name]["window_min_ppm"], listed[name]["window_max_ppm"])
            self.check(
                "completeness in the fleet's list", in_list, (budget["min_ppm"], budget["max_ppm"]), where
            )
            if exact:
                self.check(
                    "loses more rows than it may", saved[name]["savings"]["loses"], spent.missed, where
                )

    def at_the_end(self, server: ReplicatedPostgres) -> None:
        """Compare the ledger, and what was published with what each run had."""
        database = Database(server.url)
        with database.read() as session:
            names = dict(session.execute(select(StreamRow.job, StreamRow.id)).all())
            for job in self._week.jobs:
                rows = session.execute(
                    select(
                        LedgerKeyRow.key_us, LedgerKeyRow.rows, LedgerKeyRow.late_min, LedgerKeyRow.late_max
                    ).where(LedgerKeyRow.stream_id == names[job.made.name])
                )
                self._compare_ledger(job, {key_us: counts for key_us, *counts in rows})
        database.close()
        for job in self._week.jobs:
            self._compare_bounds(job)
            for right in job.found_missing:
                self.check("batches that a driver is asked to read again", right, True, job.made.name)

    def _compare_ledger(self, job: WeekJob, ledger: dict[int, Sequence[int]]) -> None:
        truth = Truth(job).windows
        for key_us in truth.keys() | ledger.keys():
            rows, late = truth.get(key_us, (0, 0))
            said, least, most = ledger.get(key_us, (0, 0, 0))
            exact = least == most or job.made.operator.kind != "window"
            right = said == rows and least <= late <= most and exact
            where = (job.made.name, key_us, (said, least, most), (rows, late))
            self.check("rows and late rows of a window in the ledger", right, True, where)

    def _compare_bounds(self, job: WeekJob) -> None:
        bounds = self._all(f"{job.path}/bounds", "bounds")
        events = self._all(f"{job.path}/events", "events", kind="BoundPublished")
        published = [json.loads(event["after"])["bound_ms"] for event in events]
        what = "a bound that is published has its event"
        self.check(what, published, [bound["bound_ms"] for bound in bounds], job.made.name)
        by_generation = {bound["generation"]: bound for bound in bounds}
        for run in job.runs:
            if run.generation is not None and not job.live:
                bound = by_generation[run.generation]
                said = bound["bound_ms"], bound["published_us"] <= run.since_us
                self.check(
                    "a run has the bound that was published", said, (run.bound_ms, True), job.made.name
                )
        applied = self._week.controller.get(job.path)["applied"]
        said = applied["bound_ms"], applied["generation"]
        self.check("the bound that a job is said to run with", said, job.runs[-1][1:][::-1], job.made.name)

    def failed_certificates(self) -> int:
        """Return how many streams have a certified bound that does not admit the target's share of the rows."""
        lasting = {kind.__name__: kind for kind in LASTING}
        jobs = {job.made.name: job.made for job in self._week.jobs}
        admitted = {
            name: admitted_by(
                kind, next(made.operator for made in jobs.values() if made.kind == name), DAYS * DAY_S
            )
            for name, kind in lasting.items()
        }
        return sum(
            any(
                admitted[jobs[name].kind](bound_ms) * PPM < jobs[name].slo["target_ppm"]
                for bound_ms in bounds_ms
            )
            for name, bounds_ms in self.certified.items()
        )

    def _all(self, path: str, what: str, **query: Any) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        cursor: dict[str, str] = {}
        while True:
            page = self._week.controller.get(path, limit=100, **query, **cursor)
            found += page[what]
            if page["next_cursor"] is None:
                return found
            cursor = {"cursor": page["next_cursor"]}


def _verdict(budget: dict[str, Any]) -> bool | None:
    """Return whether Tidemark says that the SLO was missed; None where it leaves that open."""
    if budget["bad_min"] > budget["allowed"]:
        return True
    return False if budget["bad_max"] <= budget["allowed"] else None


def test_of_a_week_of_200_streams_with_faults_every_row_is_counted_once_and_no_verdict_is_wrong(
    tmp_path: Path, server: ReplicatedPostgres, compared: Compared
) -> None:
    with SimulatedWeek(tmp_path, server, list(fleet(STREAMS, DAYS, SEED)), SEED) as week:
        verdicts = Verdicts(week)
        week.run(DAYS, ticks_a_day=TICKS_A_DAY, on_tick=verdicts.after_tick)
        verdicts.at_the_end(server)
    failed, streams = verdicts.failed_certificates(), len(verdicts.certified)
    may_fail = int(binom.ppf(0.99, streams, 0.05))
    batches = [batch for job in week.jobs for batch in job.batches]
    rows = sum(batch.last - batch.first for batch in batches)
    compared(
        {what: (len(right), len(right) - sum(right)) for what, right in verdicts.checks.items()},
        streams=len(week.jobs),
        kinds=len({job.made.kind for job in week.jobs}),
        days=DAYS,
        replicas=REPLICAS,
        batches=len(batches),
        rows=rows,
        late=sum(Truth(job).late for job in week.jobs),
        lost_batches=sum(not batch.reported for batch in batches),
        runs=sum(len(job.runs) for job in week.jobs),
        certified=streams,
        certified_failed=failed,
        certified_may_fail=may_fail,
        faults=dict(week.faults),
    )
    assert not verdicts.wrong, verdicts.wrong[:20]
    assert failed <= may_fail
