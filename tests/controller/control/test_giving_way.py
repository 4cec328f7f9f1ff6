"""Giving way: what can wait lets reports go first, and is not held up by them for ever."""

from __future__ import annotations

import threading

import pytest

from tidemark.controller.reports import group_commit
from tidemark.controller.server.process.loop import run_once

from support.controller_app import Controller
from support.patience import PATIENCE_S
from support.reports import START_US, query_reports
from support.streams import SECOND

REPORTS = query_reports([[("p", START_US + batch * SECOND)] for batch in range(3)])


def test_it_waits_until_the_reports_that_wait_are_committed(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "MAX_WAY_SECONDS", 2 * PATIENCE_S)
    reports = controller.service.reports
    begun, wait = threading.Event(), reports._idle.wait
    done: list[bool] = []

    def noted(seconds: float) -> bool:
        begun.set()
        return wait(seconds)

    monkeypatch.setattr(reports._idle, "wait", noted)

    def give_way() -> None:
        reports.give_way()
        done.extend(future.done() for future in futures)

    with controller.service.database.write():
        futures = [reports.take(report) for report in REPORTS]
        waits = threading.Thread(target=give_way)
        waits.start()
        assert begun.wait(PATIENCE_S)
    waits.join(PATIENCE_S)
    assert done == [True] * len(REPORTS)


def test_reports_that_never_end_hold_it_up_for_a_moment_only(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_commit, "MAX_WAY_SECONDS", 0.01)
    with controller.service.database.write():
        future = controller.service.reports.take(REPORTS[0])
        controller.service.reports.give_way()
        assert not future.done()
    assert not future.result(PATIENCE_S).duplicate


@pytest.mark.parametrize(
    ("took_s", "often", "share"),
    [(0.01, 20, 0.2), (0.01, 20_000, 0.5), (60.0, 3, 60 / 60.1)],
    ids=["a burst", "without an end", "long pieces"],
)
def test_under_a_constant_load_a_burst_gets_a_fifth_of_the_time_and_what_never_ends_a_half(
    controller: Controller, monkeypatch: pytest.MonkeyPatch, took_s: float, often: int, share: float
) -> None:
    reports, waited, now = controller.service.reports, [], [0.0]

    class Clocked:
        def wait(self, seconds: float) -> None:
            waited.append(seconds)
            now[0] += seconds

        def set(self) -> None: ...

    monkeypatch.setattr(group_commit, "perf_counter", lambda: now[0])
    monkeypatch.setattr(reports, "_idle", Clocked())
    reports.give_way()
    for _ in range(often):
        now[0] += took_s
        reports.give_way()
    assert took_s / (took_s + waited[-1]) == pytest.approx(share)


def test_nothing_waits_where_there_are_no_reports(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the server stopped, too: what still works then must not wait at each piece."""
    monkeypatch.setattr(group_commit, "MAX_WAY_SECONDS", 0)
    reports = controller.service.reports
    for report in REPORTS:
        reports.take(report).result(30)
    reports.stop()
    assert reports._idle.is_set()
    reports.give_way()


def test_decisions_upkeep_and_snapshots_give_way_before_each_step(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 950_000})
    controller.report_all(REPORTS)
    service, given = controller.service, []
    service.decider.leases.keep(now=True)

    def give_way() -> None:
        # Nothing is held meanwhile: the store's one writer is free.
        with service.database.write():
            given.append(1)

    service.overviews._give_way = service.ticker._upkeep._give_way = give_way
    run_once(service.database, service.decider, service.loop, controller.clock(), give_way)
    assert len(given) == 1
    service.overviews.snapshot(1, controller.clock())
    assert len(given) == 4
    service.ticker._upkeep.step(1)
    assert len(given) == 5
