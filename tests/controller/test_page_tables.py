"""A database of the release before opens, and charts show what it holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alembic import command

from tidemark.controller.db.database import Database, _migrations
from tidemark.controller.evidence.upkeep import Upkeep
from tidemark.models.evidence.slots import DAY_US, HOUR_US, Retention

from support.controller_app import Controller
from support.reports import START_US, exponential_batches, query_reports
from support.streams import SECOND

BEFORE = "0006"

REPORTS = [
    # Three hours of the first day, then one of the fourth.
    replace(report, started_us=START_US + (n * 300 + (3 * 86_400 if n >= 30 else 0)) * SECOND)
    for n, report in enumerate(query_reports(exponential_batches(40, 60, slow=2)))
]
SPAN = {"from_us": START_US, "to_us": START_US + 4 * DAY_US}


def charts(controller: Controller) -> dict[str, Any]:
    history = controller.get("/history", params={**SPAN, "points": 100}).json()
    for slot in history["slots"]:
        # Not worked out again: it would take as long as the first time.
        slot.pop("effective_bound_ms")
    partitions = controller.get("/partitions").json()
    for row in partitions["partitions"]:
        # The time is that of the snapshot.
        row["skewed_us"] = row["skewed_us"] is not None
    return {
        "history": history,
        "heatmap": controller.get("/heatmap", params={**SPAN, "slots": 100}).json(),
        "partitions": partitions,
        "budget": controller.status()["budget"],
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_database_of_the_release_before_shows_the_same_charts(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'tidemark.db'}"
    if kind == "postgresql":
        url = request.getfixturevalue("new_postgres_url")
    with Controller(url) as controller:
        controller.clock.now_us = START_US + 4 * DAY_US
        controller.put("/slo", {"target_ppm": 900_000})
        controller.report_all(REPORTS)
        run_upkeep(controller)
        before = charts(controller)
    assert sum(slot["rows"] or 0 for slot in before["history"]["slots"]) == 40 * 60
    store = Database(url)
    with store._writer.begin() as connection:
        command.downgrade(_migrations(connection), BEFORE)
    store.close()
    with Controller(url) as controller:
        controller.clock.now_us = START_US + 4 * DAY_US
        run_upkeep(controller)
        assert charts(controller) == before


def run_upkeep(controller: Controller) -> None:
    service = controller.service
    upkeep = Upkeep(service.database, service.decider.leases, Retention(minutes_days=2))
    _, finished = upkeep.run_upkeep(1, 2_000)
    assert finished
    controller.snapshot()


def test_minutes_are_kept_as_long_as_needs_are_and_then_the_hours(controller: Controller) -> None:
    controller.clock.now_us = START_US + 4 * DAY_US
    controller.report_all(REPORTS)
    run_upkeep(controller)
    first = controller.get("/history", params={"from_us": START_US, "to_us": START_US + HOUR_US}).json()
    assert first["slot_us"] == HOUR_US
    day_us = REPORTS[-1].started_us
    last = controller.get("/history", params={"from_us": day_us - HOUR_US, "to_us": day_us + 1}).json()
    assert last["slot_us"] < HOUR_US
