"""The newest settled and closed windows: as by REST, by few estimates, missing where unknown, and an alert on one."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tidemark.controller.base.alert_table import MIN_LATE_ROWS
from tidemark.controller.view.state import windows
from tidemark.controller.view.state.overviews import WINDOWS_US
from tidemark.models.completeness.estimate import estimate
from tidemark.models.protocol.messages import Report

from support.controller_app import Controller
from support.notified import names, notified, tick
from support.reports import START_US, exponential_batches, query_reports
from support.rolled_job import RolledJob
from support.streams import SECOND
from support.webhook import running_webhook
from support.whole_stream import run_partitions

pytestmark = pytest.mark.slow

SETTLED, COUNTED, MISSED = (
    f"tidemark_window_{name}"
    for name in ("settled_timestamp_seconds", "counted_ratio", "missed_timestamp_seconds")
)


def steady(batches: int, **changes: Any) -> list[Report]:
    """Return reports of a batch a second of 100 rows, whose delays have a mean of two seconds."""
    return query_reports(exponential_batches(batches, 100), **changes)


def scraped(controller: Controller) -> dict[str, float]:
    text = controller.http.get("/metrics").text
    return {
        sample.name: sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name.startswith("tidemark_window_")
    }


def listed(controller: Controller) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(controller.get("/windows", params={"limit": 500}).text)[
        "windows"
    ]
    return found


def as_listed(controller: Controller) -> dict[str, float]:
    """Return the series as they follow from the list of windows."""
    every = listed(controller)
    settled = [one for one in every if one["estimate"] is not None and one["estimate"]["settled"]]
    closed = [one for one in settled or every if one["state"] == "Closed"]
    found = {}
    if settled:
        found[SETTLED] = settled[0]["end_us"] / 1e6
    if closed:
        found[COUNTED] = closed[0]["counted_min_ppm"] / 1e6
        short = closed[0]["counted_max_ppm"] < closed[0]["asked_ppm"]
        if short and closed[0]["late_min"] >= MIN_LATE_ROWS:
            found[MISSED] = closed[0]["end_us"] / 1e6
    return found


def look(controller: Controller) -> None:
    """Take a snapshot when it is time to look for windows again."""
    controller.clock.now_us += WINDOWS_US
    controller.snapshot()


@pytest.mark.parametrize(("bound_ms", "missed"), [(1_000, True), (20_000, False)])
def test_the_series_are_what_the_list_of_windows_says(
    either: Controller, bound_ms: int, missed: bool
) -> None:
    either.put("/slo", {"target_ppm": 990_000})
    reports = steady(460, bound_ms=bound_ms)
    either.report_all(reports[:400])
    look(either)
    first = scraped(either)
    assert first == as_listed(either)
    assert (MISSED in first) == missed
    either.report_all(reports[400:])
    look(either)
    assert scraped(either) == as_listed(either)
    assert scraped(either)[SETTLED] > first[SETTLED]


def test_what_is_not_known_has_no_series(either: Controller) -> None:
    either.put("/slo", {"target_ppm": 990_000})
    look(either)
    assert scraped(either) == {}
    either.report_all(steady(5, bound_ms=20_000))
    look(either)
    assert scraped(either) == {}
    either.report_all(steady(60)[5:])
    look(either)
    assert scraped(either) == as_listed(either)
    assert set(scraped(either)) == {COUNTED}


def test_the_newest_closed_window_is_one_whose_late_rows_have_come(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 990_000})
    job = RolledJob(controller, bound_ms=0)
    # A quarter of the rows comes when other windows have been closed since.
    run_partitions(job, 90, slow=3, late_s=40)
    controller.snapshot()
    newest = next(one for one in listed(controller) if one["state"] == "Closed")
    assert newest["counted_min_ppm"] == 1_000_000
    assert scraped(controller)[COUNTED] == 0.75


def test_a_settled_window_that_is_open_says_nothing_of_closed_ones(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 990_000})
    reports = steady(440, bound_ms=1_000)
    stood: dict[str, Any] = dict.fromkeys(("watermark_ms", "late_watermark_ms"), reports[399].watermark_ms)
    controller.report_all([*reports[:400], *(replace(report, **stood) for report in reports[400:])])
    look(controller)
    found = scraped(controller)
    assert found == as_listed(controller)
    assert found[MISSED] < found[SETTLED]


@pytest.fixture
def estimates(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the ends of the windows that are estimated."""
    ends: list[int] = []

    def counted(arrivals: Any, end_us: int, *args: Any, **named: Any) -> Any:
        ends.append(end_us)
        return estimate(arrivals, end_us, *args, **named)

    monkeypatch.setattr(windows, "estimate", counted)
    return ends


def test_few_windows_are_estimated_and_none_for_a_scrape(
    controller: Controller, estimates: list[int]
) -> None:
    reports = steady(520, bound_ms=5_000)
    controller.report_all(reports[:400])
    look(controller)
    assert 0 < len(estimates) <= 10
    for batch in range(400, 520, 20):
        estimates.clear()
        controller.report_all(reports[batch : batch + 20])
        look(controller)
        assert 0 < len(estimates) <= 5
        assert scraped(controller) == as_listed(controller)
    estimates.clear()
    assert SETTLED in scraped(controller)
    # Nothing new, and in the same five minutes.
    look(controller)
    controller.clock.now_us += SECOND
    controller.report_all(steady(530, bound_ms=5_000)[520:])
    controller.snapshot()
    assert estimates == []


def test_a_higher_target_is_asked_for_from_then_on(controller: Controller) -> None:
    controller.report_all(steady(420, bound_ms=5_000))
    controller.put("/slo", {"target_ppm": 900_000})
    look(controller)
    before = scraped(controller)
    controller.put("/slo", {"target_ppm": 999_000})
    look(controller)
    assert scraped(controller) == as_listed(controller)
    assert scraped(controller)[SETTLED] < before[SETTLED]


@pytest.mark.slow
def test_an_hour_below_the_target_is_notified_until_one_is_not(each_url: str) -> None:
    with running_webhook() as webhook, notified(each_url, notify_url=webhook.url) as controller:
        controller.put("/slo", {"target_ppm": 990_000})
        job = RolledJob(controller, bound_ms=0)
        run_partitions(job, 90, slow=3, late_s=40)
        controller.snapshot()
        (end_us,) = [
            one["end_us"] for one in listed(controller) if one["end_us"] / 1e6 == scraped(controller)[MISSED]
        ]
        assert START_US < end_us < job.at_us
        fired = ("firing", "TidemarkWindowBelowTarget")
        for minutes in (0, 29, 1):
            assert fired not in names(webhook)
            tick(controller, minutes)
        assert fired in names(webhook)
        job.at_us = controller.clock.now_us
        run_partitions(job, 90)
        look(controller)
        assert MISSED not in scraped(controller)
        tick(controller)
        assert ("resolved", "TidemarkWindowBelowTarget") in names(webhook)
