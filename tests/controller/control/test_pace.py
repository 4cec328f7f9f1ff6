"""Which streams a tick decides, and when: what changed, what time alone changes, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tidemark.controller.control.decide.pace import (
    PAUSE_SECONDS,
    SWEEP_SECONDS,
    Pace,
    StreamVersion,
    read_versions,
)
from tidemark.controller.server.process.loop import run_once
from tidemark.models.protocol.messages import Acknowledgement

from support.controller_app import STREAM, Controller
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports
from support.streams import SECOND

pytestmark = pytest.mark.slow

REPORTS = query_reports(exponential_batches(80, 40))
LOSES_HALF = query_reports(
    [[("p", START_US + (60 + batch - late * 30) * SECOND) for late in range(2)] for batch in range(200)],
    bound_ms=0,
)


class Paced:
    """A controller whose ticks keep to the pace of the loop, on a clock that the test moves."""

    def __init__(self, controller: Controller) -> None:
        self.controller, self.seconds = controller, 0.0
        self.pace = Pace(lambda: self.seconds)

    def due(self) -> bool:
        """Whether the stream is due; a tick then decides it."""
        service = self.controller.service
        with service.database.read() as session:
            due = [version for version in read_versions(session) if self.pace.is_due(version)]
        service.decider.leases.keep(now=True)
        run_once(service.database, service.decider, service.loop, self.controller.clock(), pace=self.pace)
        return bool(due)

    def settle(self) -> None:
        """Tick until what the decisions themselves wrote is seen."""
        while self.due():
            pass


@pytest.fixture
def paced(controller: Controller) -> Paced:
    controller.put("/slo", {"target_ppm": 900_000})
    controller.report_all(REPORTS[:40])
    found = Paced(controller)
    found.settle()
    return found


def test_a_stream_with_new_reports_is_decided_at_most_every_fifteen_seconds(paced: Paced) -> None:
    decided_s = []
    for report in REPORTS[40:80]:
        paced.controller.report(report)
        paced.seconds += 1
        if paced.due():
            decided_s.append(paced.seconds)
    assert decided_s == [PAUSE_SECONDS, 2 * PAUSE_SECONDS]


def test_a_stream_with_nothing_new_is_only_swept(paced: Paced) -> None:
    for _ in range(int(SWEEP_SECONDS / 50) - 1):
        paced.seconds += 50
        assert not paced.due()
    paced.seconds += 50
    assert paced.due()


def test_a_stream_that_loses_more_rows_than_its_slo_allows_is_decided_at_once(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    controller.report_all(LOSES_HALF[:60])
    paced = Paced(controller)
    paced.settle()
    for report in LOSES_HALF[60:64]:
        controller.report(report)
        assert paced.due()


def test_one_late_row_more_than_the_slo_allows_of_the_new_ones_is_too_many() -> None:
    before = StreamVersion(1, "job", "stream", (1, 5_000, 4_000), 990_000, timed=False, written=())
    within, beyond = (replace(before, reports=(2, 6_000, 4_000 + late)) for late in (10, 11))
    assert not within.loses_rows_since(before)
    assert beyond.loses_rows_since(before)


def test_a_stream_that_loses_what_its_slo_allows_waits(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 400_000})
    controller.report_all(LOSES_HALF[:60])
    paced = Paced(controller)
    paced.settle()
    controller.report(LOSES_HALF[60])
    assert not paced.due()


@pytest.mark.slow
@pytest.mark.parametrize("what", ["slo", "policy", "pin", "acknowledgement", "pause"])
def test_a_write_is_decided_on_at_once(paced: Paced, what: str) -> None:
    controller = paced.controller
    if what == "slo":
        answer = controller.put("/slo", {"target_ppm": 800_000})
    elif what == "policy":
        answer = controller.put("/policy", at_once())
    elif what == "pin":
        controller.put("/policy", at_once())
        paced.settle()
        named = {"job": "job", "stream": "stream"}
        answer = controller.http.put("/v1/pin", params=named, json={"to": "Off", "reason": "INC-1"})
    elif what == "pause":
        answer = controller.http.post(STREAM + ":pause", json={"reason": "INC-1"})
    else:
        last = REPORTS[39]
        answer = controller.acknowledge(
            Acknowledgement(
                query_id=last.query_id,
                run_id=last.run_id,
                bound_ms=last.bound_ms,
                generation=None,
                source="job",
                mode="Off",
                applied_us=last.started_us,
            )
        )
    assert answer.is_success, answer.text
    assert paced.due()


def test_time_alone_is_looked_at_where_a_policy_or_an_open_rollout_waits_for_it(paced: Paced) -> None:
    paced.controller.put("/policy", at_once())
    paced.settle()
    for _ in range(5):
        assert not paced.due()
        paced.seconds += PAUSE_SECONDS
        assert paced.due()


def test_a_stream_that_could_not_be_decided_is_due_again_at_once(
    paced: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    paced.controller.put("/slo", {"target_ppm": 800_000})
    with monkeypatch.context() as broken:
        broken.setattr(paced.controller.service.decider, "decide", lambda *_: 1 // 0)
        assert paced.due()
    assert paced.due()
    assert not paced.due()


def test_a_stream_whose_lease_comes_back_is_decided_at_once(paced: Paced) -> None:
    leases = paced.controller.service.decider.leases
    held = leases._held
    leases._held = {}
    service = paced.controller.service
    service.decider.leases.keep = lambda **_: None  # type: ignore[method-assign]
    run_once(service.database, service.decider, service.loop, paced.controller.clock(), pace=paced.pace)
    leases._held = held
    assert paced.due()
