"""Wrong clocks: of a driver, of the senders of rows, of the controller. Nothing good is lost, and all recovers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from tidemark.controller.base.db.tables import PublishedRow, ReportRow
from tidemark.models.evidence.slots import DAY_US
from tidemark.models.protocol.granule_counts import GranuleCounts
from tidemark.models.protocol.messages import Report, to_json_object

from support.controller_app import Controller
from support.databases import on_sqlite_alone
from support.faults import Survived
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports
from support.soak import with_soak
from support.streams import SECOND
from support.totals import compared_totals, totals, totals_of

pytestmark = pytest.mark.slow

AHEAD_US = 400 * DAY_US
REPORTS = query_reports(exponential_batches(60, 40))
GOOD, BAD, LATER = REPORTS[:50], REPORTS[50], REPORTS[51:]


@pytest.fixture(params=with_soak(["sqlite", "postgresql"], {"postgresql"}))
def controller(request: pytest.FixtureRequest, database_url: str) -> Iterator[Controller]:
    """Return a running controller on an empty store, of each kind of database."""
    url = database_url if request.param == "sqlite" else request.getfixturevalue("new_postgres_url")
    with Controller(str(url)) as running:
        yield running


def moved(report: Report, by_us: int, *, times: str = "events") -> Report:
    """Return a report of a driver, or with rows of senders, whose clock is ahead."""
    if times == "start":
        return replace(report, started_us=report.started_us + by_us)
    if times == "both":
        return moved(moved(report, by_us, times="start"), by_us)
    assert report.max_event_time_us is not None
    assert report.min_event_time_us is not None
    return replace(
        report,
        max_event_time_us=report.max_event_time_us + by_us,
        min_event_time_us=report.min_event_time_us + by_us,
        counts=GranuleCounts.of(
            replace(part, granules=tuple(granule + by_us // report.granule_us for granule in part.granules))
            for part in report.counts.by_partition()
        ),
    )


def send(controller: Controller, *reports: Report, ahead_us: int = 0) -> None:
    """Report each batch half a second after it started, by a clock that is ahead."""
    for report in reports:
        controller.clock.now_us = min(report.started_us, at_us(report)) + 500_000 + ahead_us
        answer = controller.report(report)
        assert answer.status_code == 201, answer.text


def at_us(report: Report) -> int:
    """Return when a batch was really triggered."""
    return START_US + report.batch_id * SECOND


def tick(controller: Controller) -> None:
    """Take one tick of the loop, upkeep included."""
    controller.service.decider.leases.keep(now=True)
    controller.tick()
    controller.service.ticker._upkeep.tick(controller.clock())


def conditions(controller: Controller) -> dict[str, str]:
    return {found["type"]: found["detail"] for found in controller.status()["conditions"]}


def figures(controller: Controller) -> dict[str, Any]:
    """What a decision rests on, and what came of it."""
    status = controller.status()
    return {
        "rows": status["evidence"]["rows"],
        "batches": status["evidence"]["batches"],
        "bound_ms": status["recommended"]["bound_ms"],
        "completeness": status["completeness"],
    }


def metric(controller: Controller, name: str) -> float:
    (line,) = (
        line for line in controller.http.get("/metrics").text.splitlines() if line.startswith(name + "{")
    )
    return float(line.rsplit(" ", 1)[1])


@pytest.mark.parametrize("times", ["start", "events", "both"])
@on_sqlite_alone("controller")
def test_one_batch_400_days_ahead_deletes_nothing_and_changes_no_bound(
    controller: Controller, times: str, tmp_path: Path, survived: Survived
) -> None:
    controller.put("/slo", {"target_ppm": 950_000})
    send(controller, *GOOD)
    tick(controller)
    before = figures(controller)
    assert before["bound_ms"]
    bad = moved(BAD, AHEAD_US, times=times)
    send(controller, bad)
    again = controller.report(bad)
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    for _ in range(3):
        tick(controller)
    assert figures(controller)["bound_ms"] == before["bound_ms"]
    send(controller, *LATER)
    tick(controller)
    after = figures(controller)
    survived(
        "a clock of a driver or of its rows is 400 days ahead for a batch",
        times=1,
        **compared_totals(totals(controller.service.database), totals_of([*GOOD, bad, *LATER], tmp_path)),
    )
    assert after["batches"] == len(GOOD) + 1 + len(LATER)
    assert after["bound_ms"] == before["bound_ms"]


def test_rows_that_a_watermark_far_ahead_drops_are_late_until_the_query_has_a_new_checkpoint(
    controller: Controller,
) -> None:
    """A driver's clock was ahead and put back: Spark drops every row."""
    rows = [[("0", START_US + n * 300 * SECOND)] for n in range(30)]
    reports = query_reports(rows, interval_us=300 * SECOND)
    ahead_ms = reports[5].watermark_ms + AHEAD_US // 1_000
    for report in reports:
        stuck: dict[str, Any] = (
            dict.fromkeys(("watermark_ms", "late_watermark_ms", "late_base_ms"), ahead_ms)
            if report.batch_id >= 5
            else {}
        )
        controller.clock.now_us = report.started_us + 500_000
        controller.report_all([replace(report, **stuck)])
    tick(controller)
    found = controller.status()["completeness"]
    assert (found["rows"], found["late_min"], found["exact"]) == (30, 25, True)
    assert "Spark drops them until" in conditions(controller)["ClockWrong"]
    for report in reports:
        started_us = report.started_us + DAY_US // 2
        controller.clock.now_us = started_us + 500_000
        controller.report_all([replace(report, query_id="successor", started_us=started_us)])
    assert "ClockWrong" not in conditions(controller)
    assert controller.status()["completeness"]["late_min"] == 25


def test_the_first_report_of_a_stream_may_be_far_ahead_and_the_others_are_judged_by_their_own_base(
    controller: Controller,
) -> None:
    controller.put("/slo", {"target_ppm": 950_000})
    send(controller, moved(REPORTS[0], AHEAD_US), *REPORTS[1:])
    tick(controller)
    ahead = figures(controller)
    assert ahead["batches"] == len(REPORTS)
    assert ahead["bound_ms"] is not None
    assert ahead["bound_ms"] < 60_000


def test_batches_that_come_while_the_controllers_clock_is_behind_count_at_their_own_time(
    controller: Controller,
) -> None:
    """It has seen a later time, and the driver's clock agrees with that: so nothing is lost."""
    send(controller, *GOOD[:20])
    controller.clock.now_us = START_US - AHEAD_US
    for report in GOOD[20:]:
        assert controller.report(report).status_code == 201
    controller.clock.now_us = at_us(GOOD[-1]) + 500_000
    tick(controller)
    status = controller.status()
    assert status["evidence"]["batches"] == len(GOOD)
    assert status["evidence"]["to_us"] == at_us(GOOD[-1])
    assert "ClockWrong" not in conditions(controller)


def test_a_stream_that_is_dated_ahead_from_its_first_batch_on_has_needs_as_any_other(
    controller: Controller,
) -> None:
    controller.put("/slo", {"target_ppm": 950_000})
    send(controller, *(moved(report, 30 * DAY_US) for report in GOOD))
    tick(controller)
    ahead = figures(controller)
    assert "ClockWrong" not in conditions(controller)
    path = "/v1/jobs/job/streams/present"
    assert controller.http.put(path + "/slo", json={"target_ppm": 950_000}).is_success
    for report in GOOD:
        controller.clock.now_us = at_us(report) + 500_000
        body = to_json_object(replace(report, stream="present"))
        assert controller.http.post(path + "/reports", json=body).status_code == 201
    tick(controller)
    present = controller.http.get(path).json()
    assert ahead["bound_ms"] == present["recommended"]["bound_ms"]


@pytest.mark.parametrize("behind_us", [0, 30 * DAY_US])
def test_a_replay_of_old_data_and_a_jump_after_an_outage_are_of_right_clocks(
    controller: Controller, behind_us: int
) -> None:
    send(controller, *(moved(report, -behind_us) for report in GOOD))
    outage = 30 * DAY_US
    resumed = replace(moved(BAD, outage), started_us=BAD.started_us + outage)
    controller.clock.now_us = resumed.started_us + 500_000
    controller.report_all([resumed])
    assert "ClockWrong" not in conditions(controller)


@on_sqlite_alone("controller")
def test_both_clocks_ahead_for_one_restart_delete_a_day_at_most_and_the_stream_recovers(
    controller: Controller,
) -> None:
    controller.put("/slo", {"target_ppm": 950_000})
    controller.put("/policy", at_once())
    send(controller, *GOOD)
    tick(controller)
    wrong = moved(BAD, AHEAD_US, times="start")
    controller.clock.now_us = wrong.started_us + 500_000
    controller.report_all([wrong])
    for _ in range(10):
        tick(controller)
        controller.clock.now_us += 60 * SECOND
    with controller.service.database.read() as session:
        assert session.scalars(select(func.count()).select_from(ReportRow)).one() == len(GOOD) + 1
    rows = [[("0", START_US + n * 300 * SECOND)] for n in range(1, 15)]
    later = query_reports([*exponential_batches(50, 40), [], *rows])[51:]
    started_us = 0
    for n, report in enumerate(later):
        started_us = START_US + (n + 1) * 300 * SECOND
        controller.clock.now_us = started_us + 500_000
        controller.report_all([replace(report, started_us=started_us)])
        tick(controller)
    status = controller.status()
    # Every batch counts again, that of the wrong clock too, and the newest one is the newest.
    assert status["evidence"]["batches"] == len(GOOD) + 1 + len(later)
    assert status["evidence"]["to_us"] == started_us
    assert status["recommended"]["current"]
    with controller.service.database.read() as session:
        published = session.scalars(select(PublishedRow.published_us)).all()
    assert all(published_us <= controller.clock() for published_us in published)


@on_sqlite_alone("controller")
def test_no_more_than_a_days_worth_ages_out_in_the_hour_after_a_jump(controller: Controller) -> None:
    rows = [[("0", START_US + n * DAY_US)] for n in range(42)]
    reports = query_reports(rows, interval_us=DAY_US)
    for report in reports[:-1]:
        controller.clock.now_us = report.started_us + 500_000
        controller.report_all([report])
    controller.service.ticker._upkeep.run_upkeep(1, 10_000)
    before = stored_batches(controller)
    assert 35 <= len(before) < 41
    wrong = replace(reports[-1], started_us=reports[-1].started_us + AHEAD_US)
    controller.clock.now_us = wrong.started_us + 500_000
    controller.report_all([wrong])
    for _ in range(50):
        tick(controller)
        controller.clock.now_us += 60 * SECOND
    after = stored_batches(controller)
    assert before[1:] == after[:-1]


def stored_batches(controller: Controller) -> list[int]:
    with controller.service.database.read() as session:
        return list(session.scalars(select(ReportRow.batch_id).order_by(ReportRow.batch_id)))


@on_sqlite_alone("controller")
def test_a_controllers_clock_that_is_ahead_alone_deletes_nothing_and_holds_back_no_later_bound(
    controller: Controller,
) -> None:
    controller.put("/slo", {"target_ppm": 950_000})
    controller.put("/policy", at_once())
    send(controller, *GOOD[:30])
    controller.clock.now_us += AHEAD_US
    controller.put("/slo", {"target_ppm": 900_000})
    for report in GOOD[30:]:
        controller.clock.now_us = at_us(report) + AHEAD_US
        controller.report_all([report])
    for _ in range(3):
        tick(controller)
    assert published_us(controller) > START_US + DAY_US
    rows = [[("0", START_US + n * 300 * SECOND)] for n in range(1, 15)]
    for n, report in enumerate(query_reports([*exponential_batches(50, 40), *rows])[50:]):
        started_us = START_US + (n + 1) * 300 * SECOND
        controller.clock.now_us = started_us + 500_000
        controller.report_all([replace(report, started_us=started_us)])
        tick(controller)
    assert controller.status()["evidence"]["batches"] == len(GOOD) + len(rows)
    assert published_us(controller) <= controller.clock()


def published_us(controller: Controller) -> int:
    with controller.service.database.read() as session:
        return session.scalars(select(func.max(PublishedRow.published_us))).one() or 0
