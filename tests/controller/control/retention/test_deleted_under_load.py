"""A stream that is deleted again and again while it is reported on, decided, counted and read."""

from __future__ import annotations

import logging
import threading
from itertools import cycle
from pathlib import Path

import pytest

from tidemark.controller.control.retention.upkeep import Upkeep
from tidemark.models.evidence.slots import Retention

from support.controller_app import STREAM, Controller
from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.reports import exponential_batches, query_reports
from support.threads import in_threads
from support.totals import totals, totals_of

pytestmark = pytest.mark.slow

DELETIONS = 6
BETWEEN = 8
"""Reports that are sent from one deletion to the next."""

PATHS = (
    STREAM,
    *(f"{STREAM}/{what}" for what in ("partitions", "curve", "history", "heatmap", "reports", "events")),
    *(f"{STREAM}/{what}" for what in ("bound", "slo", "policy", "rollouts", "predictions")),
    f"{STREAM}/preview?bound_ms=5000",
    "/v1/fleet",
    "/v1/jobs",
    "/v1/jobs/job",
    "/v1/events",
    "/v1/rollouts",
    "/metrics",
)


class Load:
    """What goes on in a controller at the same time."""

    def __init__(self, controller: Controller) -> None:
        self.over = threading.Event()
        self.reports = query_reports(exponential_batches(BETWEEN * (DELETIONS + 1), 20))
        self.allowed = threading.Semaphore(0)
        """A permit for each report that may be sent."""
        self.sent = self.acknowledged = self.decided = 0
        self._controller = controller

    def report(self) -> None:
        for report in self.reports:
            self.allowed.acquire(timeout=2 * PATIENCE_S)
            self.sent += 1
            answer = self._controller.report(report)
            assert answer.status_code == 201, answer.text
            self.acknowledged += 1

    def decide(self) -> None:
        while not self.over.is_set():
            tick = self._controller.tick()
            assert not tick.failed
            self.decided += tick.decided

    def count(self) -> None:
        controller = self._controller
        while not self.over.is_set():
            controller.snapshot()
            upkeep = Upkeep(controller.service.database, controller.service.decider.leases, Retention())
            upkeep.tick(controller.clock(), max_seconds=0)

    def specify(self) -> None:
        """Set the SLO and the policy again: a stream that begins anew has none."""
        for path, body in cycle([("/slo", {"target_ppm": 900_000}), ("/policy", at_once())]):
            answer = self._controller.put(path, body)
            assert answer.status_code in {200, 201, 412, 428}, answer.text
            if self.over.wait(0.01):
                return

    def read(self) -> None:
        for path in cycle(PATHS):
            answer = self._controller.http.get(path)
            assert answer.status_code in {200, 404}, (path, answer.text)
            if self.over.is_set():
                return

    def delete(self) -> None:
        params = {"reason": "again", "whileReporting": "true"}
        answer = self._controller.http.delete(STREAM, params=params, headers={"If-Match": "*"})
        assert answer.status_code == 200, answer.text


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_stream_deleted_again_and_again_under_load_counts_exactly_what_came_since_the_last_time(
    request: pytest.FixtureRequest, tmp_path: Path, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    url = request.getfixturevalue("database_url" if kind == "sqlite" else "new_postgres_url")
    with Controller(url) as controller:
        load = Load(controller)
        before = after = 0
        with in_threads(load.report, load.decide, load.count, load.specify, load.read, over=load.over):
            for number in range(DELETIONS):
                decided = load.decided
                load.allowed.release(BETWEEN)
                until(lambda: load.decided > decided, "a decision")  # noqa: B023 - called at once
                until(lambda: load.acknowledged > number * BETWEEN + BETWEEN // 2, "reports")  # noqa: B023
                before = load.acknowledged
                load.delete()
                after = load.sent
            load.allowed.release(BETWEEN)
            until(lambda: load.acknowledged == len(load.reports), "the last report")
        failed = [each for each in caplog.records if each.levelno >= logging.ERROR or each.exc_info]
        assert not failed, f"{failed[0].getMessage()} {failed[0].exc_text}"
        found = totals(controller.service.database)
    first = found["stream"]["batches"][0]
    assert before <= first <= after
    assert found == totals_of(load.reports[first:], tmp_path)
