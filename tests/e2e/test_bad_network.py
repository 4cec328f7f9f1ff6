"""A driver's reports over a network that is slow, cut, or loses the controller's answers: each is counted once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidemark.controller.base.db.database import Database
from tidemark.spark_jobs.core.client import ControllerClient
from tidemark.spark_jobs.core.sender import Sender
from tidemark.spark_jobs.demo.controller_process import ControllerProcess

from support.bad_network import State, bad_network
from support.faults import Survived
from support.patience import PATIENCE_S, until
from support.reports import exponential_batches, query_reports
from support.totals import compared_totals, totals, totals_of

pytestmark = [pytest.mark.slow, pytest.mark.long]

BATCHES, EACH = 120, 8
"""Reports in all, and while the network is in one state."""
STATES: tuple[State, ...] = ("good", "slow", "cut", "slow", "without answers")


def test_no_report_is_lost_or_counted_twice_over_a_network_that_is_slow_cut_and_loses_answers(
    tmp_path: Path, survived: Survived
) -> None:
    reports = query_reports(exponential_batches(BATCHES, 30), stream="clicks")
    (tmp_path / "controller").mkdir()
    controller = ControllerProcess(tmp_path / "controller", reports[0].job, "clicks")
    try:
        controller.wait_until_ready()
        with bad_network(controller.port) as (url, network):
            sender = Sender(ControllerClient(url, timeout_s=PATIENCE_S), BATCHES, longest_wait_s=0.05)
            for number in range(0, BATCHES, EACH):
                network.state = STATES[number // EACH % len(STATES)]
                network.expect(2 if network.state in {"cut", "without answers"} else 0)
                for report in reports[number : number + EACH]:
                    sender.report(report)
                until(network.has_broken, "connections to break")
            network.state = "good"
            assert sender.flush(PATIENCE_S)
            dropped, broken = sender.dropped, network.broken
            sender.close()
    finally:
        controller.stop()
    stored = Database(f"sqlite:///{tmp_path / 'controller' / 'tidemark.db'}")
    found, wanted = totals(stored), totals_of(reports, tmp_path)
    stored.close()
    survived(
        "the network between driver and controller is slow, cut, or loses answers",
        times=broken,
        **compared_totals(found, wanted),
    )

    assert dropped == 0
    assert found == wanted
