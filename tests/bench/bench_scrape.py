"""What a scrape and a tick of the notifier cost with 500 streams of 64 partitions."""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import update

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.db.tables import PartitionRow
from tidemark.controller.view.alerts.notifier import WINDOWS_S
from tidemark.controller.view.alerts.rules import active_alerts
from tidemark.controller.view.metrics.scrape import Scrape, load_needs
from tidemark.controller.view.state.load import load_states
from tidemark.controller.view.state.partition_rows import load_partitions
from tidemark.controller.view.state.recent_reports import NO_RECENT_ROWS, load_recent_rows

from support.full_store import END_US, Filling, fill

pytestmark = pytest.mark.bench

TICKS = 7
MAX_SECONDS = 0.5
"""Of CPU time: little beside the ten seconds that Prometheus waits, and the fifteen between two scrapes."""


def test_a_scrape_and_a_check_of_alerts_stay_cheap(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 't.db'}")
    database.migrate()
    fill(database, Filling(days=2))
    with database.write() as session:
        session.execute(update(PartitionRow).values(state="Active", costs_ms=100))
    scrape = Scrape(database, CollectorRegistry(), 256, (), lambda: END_US)

    def read() -> None:
        with database.read() as session:
            load_states(session)
            load_partitions(session)
            load_needs(session)

    def check() -> None:
        with database.read() as session:
            states, partitions = load_states(session), load_partitions(session)
            recent = load_recent_rows(session, WINDOWS_S, END_US)
        for state in states:
            rows = recent.get(state.id, NO_RECENT_ROWS)
            list(active_alerts(state, partitions[state.id], rows, END_US))

    text = scrape.text()
    print(
        f"\n{len(text) / 1e6:.1f} MB, {len(gzip.compress(text, 5)) / 1e6:.2f} MB compressed, {text.count(10):,} lines"
    )
    print(f"{'step':<28}{'processor, median s':>20}{'wall, median s':>16}{'wall, max s':>14}")
    steps: dict[str, Callable[[], object]] = {
        "scrape": scrape.text,
        "  of it with the store": read,
        "check of alerts": check,
    }
    for name, step in steps.items():
        taken = sorted(_timed(step) for _ in range(TICKS))
        walls = sorted(wall for _, wall in taken)
        middle = taken[TICKS // 2][0]
        print(f"{name:<28}{middle:>20.3f}{walls[TICKS // 2]:>16.3f}{walls[-1]:>14.3f}")
        assert middle < MAX_SECONDS
    database.close()


def _timed(step: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    step()
    return time.process_time() - processor, time.perf_counter() - wall
