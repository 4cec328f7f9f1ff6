"""The CPU time of deciding: many streams with a day of batches every 3 s, and one over 1 to 30 days.

The clock is simulated: every stream reports five batches, 15 s pass, and the loop's parts run one after the other.
``TIDEMARK_BENCH_STREAMS`` says how many streams; all figures are a stream's, so that they compare.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tidemark.controller.base.settings import Settings
from tidemark.controller.control.decide.pace import Pace
from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.controller.reports.take_reports import StoredReceipt
from tidemark.controller.server.process.loop import run_once
from tidemark.controller.server.process.service import make_service
from tidemark.controller.server.routes import fleet
from tidemark.controller.server.schemas.views import stream_status
from tidemark.controller.view.state.fleet import load_fleet, read_verdicts
from tidemark.models.evidence.slots import Retention

from support.copied_streams import copy_stream
from support.full_store import END_US, Filling, fill, report_of, stream_name
from support.process_usage import status_of
from support.steered_stream import report_under, steer
from support.taking import take_reports

pytestmark = [pytest.mark.bench, pytest.mark.timeout(3 * 3_600)]

STREAMS = int(os.environ.get("TIDEMARK_BENCH_STREAMS", "60"))
TRIGGER_US = 3_000_000
BATCHES_A_ROUND = 5
ROUNDS = 5
TOGETHER = 32
"""Reports in a transaction: as many as wait for one another when a controller has much to do."""
MAX_DECISION_MS = 40.0
"""Of CPU time; reading a day from scratch at each decision took 180."""
MAX_GROWTH = 2.0
"""From one day of data to thirty."""


class Fleet:
    """Streams with every batch of some days, and the parts of a controller that has them to itself."""

    def __init__(self, folder: Path, streams: int, days: int) -> None:
        self.path = folder / "t.db"
        self.filling = Filling(
            streams=1, full=1, partitions=16, days=0, full_days=days, trigger_us=TRIGGER_US
        )
        self.now_us, self.steady_s, self.streams = END_US + 400_000, 0.0, streams
        settings = Settings(database_url=f"sqlite:///{self.path}")
        self.service = make_service(settings, lambda: self.now_us)
        self.database = self.service.database
        self.database.migrate()
        fill(self.database, self.filling)
        steer(self.database, 1)
        self.batch = days * 86_400_000_000 // TRIGGER_US + 9
        self.service.decider.leases.keep(now=True)
        self.upkeep = Upkeep(
            self.database, self.service.decider.leases, Retention(), tail=self.service.cache.tail
        )
        self.upkeep.run_upkeep(1, 100_000)
        for number in range(1, streams):
            copy_stream(self.database, number)
        self.pace = Pace(lambda: self.steady_s)

    @property
    def size_mb(self) -> float:
        """Size of the store's files."""
        return sum(file.stat().st_size for file in self.path.parent.iterdir() if file.is_file()) / 1e6

    def report(self) -> None:
        """Have every stream report the batches of 15 s."""
        for _ in range(BATCHES_A_ROUND):
            self.batch += 1
            self.now_us += TRIGGER_US
            self.steady_s += TRIGGER_US / 1e6
            reports = [
                report_under(report_of(number, self.batch, self.now_us - 400_000, self.filling))
                for number in range(self.streams)
            ]
            for first in range(0, self.streams, TOGETHER):
                with self.database.write() as session:
                    taken = take_reports(session, reports[first : first + TOGETHER], self.now_us)
                for receipt in taken:
                    assert isinstance(receipt, StoredReceipt)
                    self.service.cache.tail.add(receipt.needs)

    def decide(self) -> int:
        """Take one tick; return how many streams it decided."""
        service = self.service
        return run_once(self.database, service.decider, service.loop, self.now_us, pace=self.pace).decided

    def snapshots(self) -> int:
        """Take a snapshot of every stream that is due; return of how many."""
        return self.service.overviews.tick(self.now_us, 3_600)

    def status(self) -> None:
        for stream_id in range(1, self.streams + 1):
            with self.database.read() as session:
                stream_status(
                    session, stream_id, self.now_us, self.service.cache, destinations={}, may_link_to=bool
                )

    def jobs(self) -> None:
        with self.database.read() as session:
            names = sorted({stream_name(number)[0] for number in range(self.streams)})
            fleet.listed_jobs(session, names, self.now_us)

    def fleet(self) -> None:
        with self.database.read() as session:
            verdicts = read_verdicts(session, self.now_us)
            found = zip(load_fleet(session, [each.id for each in verdicts]), verdicts, strict=True)
            assert len([fleet._stream(*state, each.conditions) for state, each in found]) == self.streams

    def steps(self) -> dict[str, Callable[[], object]]:
        return {
            "5 reports": self.report,
            "decision": self.decide,
            "tick, nothing new": self.decide,
            "snapshot": self.snapshots,
            "upkeep, once a minute": lambda: self.upkeep.tick(self.now_us),
            "status": self.status,
            "jobs": self.jobs,
            "fleet": self.fleet,
            "scrape": self.service.scrape.text,
        }


def milliseconds(step: Callable[[], object], streams: int) -> float:
    """Run a step and return its CPU time a stream."""
    began = time.process_time()
    step()
    return 1e3 * (time.process_time() - began) / streams


def costs(fleet: Fleet) -> dict[str, list[float]]:
    """Return the CPU time of each step a stream, round by round; the first reads from scratch."""
    found: dict[str, list[float]] = {}
    for _ in range(1 + ROUNDS):
        for name, step in fleet.steps().items():
            found.setdefault(name, []).append(milliseconds(step, fleet.streams))
    return found


def test_many_streams_with_a_day_of_batches(tmp_path: Path) -> None:
    fleet = Fleet(tmp_path, STREAMS, days=1)
    before_kb = status_of(os.getpid(), "VmRSS")
    disk_mb = fleet.size_mb / STREAMS
    print(
        f"\n{STREAMS} streams, 16 partitions, a day of batches every 3 s; {disk_mb:.1f} MB on disk a stream"
    )
    found = costs(fleet)
    print(f"{'CPU time a stream':<28}{'from scratch':>14}{'then, median':>14}{'1,000 streams':>16}")
    for name, (first, *more) in found.items():
        middle = sorted(more)[ROUNDS // 2]
        print(f"{name:<28}{first:>11.1f} ms{middle:>11.1f} ms{middle:>14.1f} s")
    grown_kb = status_of(os.getpid(), "VmRSS") - before_kb
    kept_kb = fleet.service.cache.nbytes / STREAMS / 1e3
    print(
        f"kept in memory: {kept_kb:.0f} kB a stream; the process grew by {grown_kb / STREAMS:.0f} kB a stream"
    )
    fleet.database.close()
    assert sorted(found["decision"][1:])[ROUNDS // 2] < MAX_DECISION_MS


def test_the_costs_stay_flat_after_the_first_day(tmp_path: Path) -> None:
    print(
        f"\n{'days of batches':<18}{'decision':>12}{'snapshot':>12}{'status':>12}{'MB on disk':>12}{'kB kept':>10}"
    )
    decisions = []
    for days in (1, 3, 10, 30):
        folder = tmp_path / str(days)
        folder.mkdir()
        fleet = Fleet(folder, 1, days)
        found = {name: sorted(each[1:])[ROUNDS // 2] for name, each in costs(fleet).items()}
        decisions.append(found["decision"])
        shown = "".join(f"{found[name]:>9.1f} ms" for name in ("decision", "snapshot", "status"))
        size_mb, kept_kb = fleet.size_mb, fleet.service.cache.nbytes / 1e3
        print(f"{days:<18}{shown}{size_mb:>12.1f}{kept_kb:>10.0f}")
        fleet.database.close()
    assert decisions[-1] < MAX_GROWTH * decisions[0]
