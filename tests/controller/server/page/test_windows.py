"""The newest windows of a stream as bars, in a real browser: what each has, what it lacks, and who is silent."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Locator, Page, Request, expect

from support.browser import NARROW, WIDE, Watched, watched_page
from support.controller_app import Controller
from support.rolled_job import RolledJob
from support.seeded import continued
from support.served import served
from support.shown import Shown
from support.streams import SECOND, Row

pytestmark = pytest.mark.slow

BATCHES = 64
SILENT = "5"
SILENT_BATCHES = 8
HASH = "/#/streams/job/stream"

PIXELS = """(edges) => {
    const canvas = document.querySelector(".panel-windows canvas");
    const over = document.querySelector(".panel-windows .u-over");
    const [plot, whole] = [over.getBoundingClientRect(), canvas.getBoundingClientRect()];
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return edges.map((edge) => {
        const x = Math.round(plot.left - whole.left + plot.width * edge);
        const found = {};
        for (let n = 4 * x; n < data.length; n += 4 * canvas.width) {
            const colour = [...data.slice(n, n + 3)].join();
            found[colour] = (found[colour] ?? 0) + 1;
        }
        return found;
    });
}"""
"""How many pixels of each colour are in columns of the chart, whose places are parts of its width."""
BLUE = "11,87,176"
"""What counts, in the light theme."""
HATCH = "194,203,"
"""How the colour of what is not known begins there."""


def _next(job: RolledJob, rng: random.Random, *, silent: bool, rows: int = 16) -> list[Row]:
    return [
        (str(partition), job.at_us - round((rng.expovariate(1 / 4) + rng.random() * 5) * SECOND))
        for partition in range(8)
        if not (silent and str(partition) == SILENT)
        for _ in range(rows)
    ]


def _report(controller: Controller, few: int, batches: int, rows: int) -> RolledJob:
    job = RolledJob(controller, bound_ms=11_000)
    rng = random.Random(6)
    # Batches and windows begin together at whatever second the test does.
    job.at_us = time.time_ns() // 1_000 // (60 * SECOND) * 60 * SECOND - batches * job.interval_us
    controller.clock.now_us = job.at_us
    for batch in range(batches):
        silent = batch >= batches - SILENT_BATCHES
        job.report(_next(job, rng, silent=silent, rows=1 if batch < few else rows))
    return job


def report_windows(controller: Controller) -> RolledJob:
    """Report 32 windows of 10 s, up to now; a partition is silent in the last ones."""
    return _report(controller, 0, BATCHES, 16)


def report_few(controller: Controller) -> RolledJob:
    """Report 63 windows up to now, of which the first 46 have too few rows for anything to be known."""
    return _report(controller, 92, 126, 40)


@pytest.fixture
def windowed(tmp_path: Any) -> Iterator[Shown]:
    with _shown(tmp_path, report_windows) as shown:
        yield shown


@contextmanager
def _shown(tmp_path: Any, report: Callable[[Controller], RolledJob]) -> Iterator[Shown]:
    with (
        continued(f"sqlite:///{tmp_path / 'tidemark.db'}", report) as job,
        served(job.controller.app) as url,
    ):
        yield Shown(job.controller, job, url)


def open_windows(watched: Watched) -> Locator:
    """Open the stream and return the card once it shows something."""
    watched.open(HASH)
    card = watched.page.locator(".panel-windows")
    expect(card.locator("canvas")).to_be_visible()
    return card


def asked(shown: Shown, limit: int) -> list[dict[str, Any]]:
    """Return the newest windows by REST, the oldest first."""
    answer = shown.controller.http.get(f"{shown.job.path}/windows", params={"limit": limit})
    assert answer.status_code == 200, answer.text
    windows: list[dict[str, Any]] = answer.json()["windows"]
    return windows[::-1]


def table(card: Locator) -> list[list[str]]:
    """Show the figures as a table and return its rows, the oldest first."""
    card.get_by_role("button", name="As a table").click()
    return [row.inner_text().split("\t") for row in card.locator("tbody tr").all()][::-1]


def recorded(page: Page) -> list[str]:
    """Return a list into which the paths of the requests for windows go from now on."""
    paths: list[str] = []

    def keep(request: Request) -> None:
        path = urlsplit(request.url).path
        if path.endswith("/windows"):
            paths.append(path)

    page.on("request", keep)
    return paths


def refresh(page: Page) -> None:
    """Refresh the view, and return once that is over: the next one begins only then."""
    for _ in range(2):
        with page.expect_request(re.compile(r"/streams/stream$")):
            page.keyboard.press("r")


def test_the_parts_of_each_bar_are_the_figures_of_the_interface(browser: Browser, windowed: Shown) -> None:
    with watched_page(browser, windowed.url) as watched:
        card = open_windows(watched)
        rows = table(card)
        windows = asked(windowed, len(rows))
        assert len(rows) == 20
        for row, one in zip(rows, windows, strict=True):
            moment = time.strftime("%H:%M:%S", time.gmtime(one["end_us"] / 1e6))
            assert row[0].endswith(moment)
            numbers = [
                f"{one['late_min']:,}",
                f"{one['late_max'] - one['late_min']:,}",
                f"{one['rows'] - one['late_max']:,}",
            ]
            assert row[2:5] == numbers
            if one["estimate"] is not None:
                assert row[1].split(" ")[0] == f"{one['estimate']['expected']:,}"
                assert ("settled" in row[6]) == one["estimate"]["settled"]
            assert row[6].startswith(one["state"].lower())
        assert {one["state"] for one in windows} == {"Open", "Closed"}
        assert any(one["late_min"] for one in windows)
        card.get_by_role("button", name="As a table").click()
        middles = [(n + 0.5) / len(windows) for n in range(len(windows))]
        heights = [found.get(BLUE, 0) for found in watched.page.evaluate(PIXELS, middles)]
        counted = [one["rows"] - one["late_max"] for one in windows]
        scale = max(heights) / max(counted)
        assert heights == pytest.approx([number * scale for number in counted], abs=3)
        watched.assert_no_errors()


def test_the_summary_says_which_windows_are_complete_and_up_to_where_they_are_settled_and_closed(
    browser: Browser, windowed: Shown
) -> None:
    with watched_page(browser, windowed.url) as watched:
        card = open_windows(watched)
        windows = asked(windowed, 20)
        number = {name: sum(one["outcome"] == name for one in windows) for name in ("Reached", "Unreachable")}
        assert all(number.values()), number
        known = [one for one in windows if one["estimate"]]
        first = next(one for one in known if not one["estimate"]["settled"])
        settled = [one["end_us"] for one in known if one["end_us"] < first["end_us"]][-1]
        closed = [one["end_us"] for one in windows if one["state"] == "Closed"][-1]
        until, too = (time.strftime("%H:%M:%S", time.gmtime(us / 1e6)) for us in (settled, closed))
        expect(card.locator("p").first).to_have_text(
            re.compile(
                rf"^{number['Reached']} of 20 windows complete to 99.5.%, {number['Unreachable']} never will be; "
                rf"settled until .*{until}; closed until .*{too}\.$"
            )
        )


def test_what_is_not_known_is_hatched_with_its_reason_and_never_0(browser: Browser, tmp_path: Path) -> None:
    with _shown(tmp_path, report_few) as shown, watched_page(browser, shown.url) as watched:
        card = open_windows(watched)
        windows = asked(shown, 20)
        unknown = [n for n, one in enumerate(windows) if one["outcome"] == "NotKnown"]
        settled = [n for n, one in enumerate(windows) if (one["estimate"] or {}).get("settled")]
        assert unknown
        assert settled
        # Beside the sign, which stands in the middle.
        hatched, plain = watched.page.evaluate(PIXELS, [(n + 0.12) / 20 for n in (unknown[0], settled[0])])
        assert any(found.startswith(HATCH) for found in hatched)
        assert not any(found.startswith(HATCH) for found in plain)
        rows = table(card)
        assert rows[unknown[0]][1] == f"not known: {windows[unknown[0]]['unknown']}"
        assert rows[unknown[0]][5] == "not known"
        watched.assert_no_errors()


def test_a_silent_partition_is_named_with_the_rows_that_are_missing(
    browser: Browser, windowed: Shown
) -> None:
    windows = asked(windowed, 20)
    lacking = [
        one["estimate"]["expected"] * part["share_ppm"] / 1e6
        for one in windows
        if one["estimate"]
        for part in one["estimate"]["silent"]
    ]
    assert lacking
    with watched_page(browser, windowed.url) as watched:
        card = open_windows(watched)
        expect(card.locator(".skew")).to_have_text(
            re.compile(
                rf"^Silent partitions: {SILENT} since [\d:]+ \(about {round(sum(lacking)):,} rows\)\.$"
            )
        )
        expect(card.locator(".plot")).to_have_attribute(
            "aria-label", re.compile("Silent partitions: 5 since")
        )
        card.locator(".plot").focus()
        watched.page.keyboard.press("End")
        for one in windows[::-1]:
            if one["estimate"]["silent"]:
                break
            watched.page.keyboard.press("ArrowLeft")
        expect(card.locator(".readout-time")).to_have_text(re.compile(r"^until "))
        expect(card.locator(".readout")).to_contain_text("silent: 5 since")
        watched.assert_no_errors()


def test_a_window_of_which_no_row_came_is_a_gap(browser: Browser, windowed: Shown) -> None:
    windowed.job.at_us += 40 * SECOND
    windowed.job.report(_next(windowed.job, random.Random(1), silent=False))
    with watched_page(browser, windowed.url) as watched:
        rows = table(open_windows(watched))
        known = {one["end_us"] for one in asked(windowed, 20)}
        ends = range(max(known) - 190 * SECOND, max(known) + SECOND, 10 * SECOND)
        gaps = [end in known for end in ends]
        assert False in gaps
        assert [row[1] != "not known" for row in rows] == gaps


def test_on_a_phone_the_windows_come_first_as_many_as_fit(browser: Browser, windowed: Shown) -> None:
    with watched_page(browser, windowed.url, width=NARROW) as watched:
        card = open_windows(watched)
        page = watched.page
        expect(page.locator(".panel.loading")).to_have_count(0)
        box, curve = card.bounding_box(), page.locator(".panel-curve").bounding_box()
        assert box is not None
        assert curve is not None
        assert box["y"] + box["height"] <= curve["y"]
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
        assert 10 <= len(table(card)) <= 14
        assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
        watched.assert_no_errors()


def test_nothing_is_asked_while_the_windows_are_not_seen_or_nothing_was_reported(
    browser: Browser, windowed: Shown
) -> None:
    rng = random.Random(2)
    with watched_page(browser, windowed.url, width=NARROW) as watched:
        page = watched.page
        paths = recorded(page)
        watched.open(f"{HASH}?tab=history")
        expect(page.locator(".panel-late canvas")).to_be_visible()
        refresh(page)
        assert paths == []
        parts = page.get_by_role("group", name="Part of the view")
        parts.get_by_role("button", name="Now", exact=True).click()
        expect(page.locator(".panel-windows .readout-time")).to_have_text(re.compile("^newest: until "))
        assert len(paths) == 1
        refresh(page)
        assert len(paths) == 1, "nothing was reported"
        windowed.job.report(_next(windowed.job, rng, silent=True))
        refresh(page)
        assert len(paths) == 2
        page.set_viewport_size({"width": NARROW, "height": 300})
        page.locator(".panel-curve").evaluate("(one) => one.scrollIntoView({block: 'end'})")
        windowed.job.report(_next(windowed.job, rng, silent=True))
        refresh(page)
        assert len(paths) == 2, "it is above what is seen"
        watched.assert_no_errors()


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_there_is_no_card_before_the_first_report(
    browser: Browser, controller: Controller, width: int
) -> None:
    controller.put("/slo", {"target_ppm": 990_000})
    with served(controller.app) as url, watched_page(browser, url, width=width) as watched:
        watched.open(HASH)
        expect(watched.page.locator(".panel-curve.loading")).to_have_count(0)
        expect(watched.page.locator(".panel-windows")).to_be_hidden()
        job = RolledJob(controller)
        job.run(3, 10, tick=False)
        watched.page.keyboard.press("r")
        expect(watched.page.locator(".panel-windows canvas")).to_be_visible()
        watched.assert_no_errors()
