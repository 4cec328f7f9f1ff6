"""The fleet in a real browser: its rows and their order, the keyboard alone, and hostile names."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tidemark.controller.db.tables import SloRow
from tidemark.controller.specs.store import slo_values
from tidemark.controller.streams.store import lock_stream
from tidemark.models.slo import Slo

from support.browser import NARROW, WIDE, watched_page
from support.controller_app import Controller
from support.served import served
from support.shown import Shown

HOSTILE = [
    "<img src=x onerror=document.title='taken'>",
    "\"><script>document.title='taken'<\\script>",
    "${alert(1)} {{7*7}} &lt;b&gt;",
    "javascript:alert(1)",
]


def test_a_row_shows_the_mode_bounds_completeness_and_budget(browser: Browser, shown: Shown) -> None:
    fleet = shown.controller.http.get("/v1/fleet").json()["streams"][0]
    with watched_page(browser, shown.url) as watched:
        watched.open()
        row = watched.page.get_by_role("row", name="job / stream")

        expect(row).to_contain_text("OnRestart")
        expect(row.locator("[data-label=Target]")).to_have_text("98 %")
        expect(row.locator("[data-label='Budget left']")).to_have_text(
            f"{fleet['budget_remaining_ppm'] // 10_000} %".replace("-", "\N{MINUS SIGN}")
        )
        assert fleet["recommended_bound_ms"] is not None
        expect(row.locator("[data-label=Recommended]")).to_contain_text(" s")
        expect(row.locator("[data-label='Complete now']")).to_contain_text("provisional")
        watched.assert_no_errors()


def test_hostile_names_are_shown_as_text(browser: Browser, controller: Controller) -> None:
    for name in HOSTILE:
        answer = controller.http.put(
            f"/v1/jobs/{quote(name, safe='')}/streams/{quote(name, safe='')}/slo",
            json={"target_ppm": 990_000},
        )
        assert answer.status_code == 200, answer.text
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        body = watched.page.locator("a.stream-link").all_text_contents()
        assert sorted(body) == sorted(f"{name} / {name}" for name in HOSTILE)
        for number in range(len(HOSTILE)):
            watched.open()
            link = watched.page.locator("a.stream-link").nth(number)
            name = (link.text_content() or "").split(" / ")[0]
            link.click()
            expect(watched.page.get_by_role("heading", level=1)).to_have_text(name)
            assert watched.page.title() == f"{name} / {name} · Tidemark"
            assert watched.page.locator("main img, main script, main b").count() == 0
        watched.assert_no_errors()


def test_the_keyboard_alone_filters_finds_and_opens_a_stream(
    browser: Browser, controller: Controller
) -> None:
    for number in range(30):
        controller.http.put(f"/v1/jobs/shop/streams/s{number:02d}/slo", json={"target_ppm": 990_000})
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        page = watched.page
        page.keyboard.press("/")
        page.keyboard.type("s1")
        expect(page.locator("table.fleet tbody tr:visible")).to_have_count(10)
        assert "q=s1" in page.url
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowDown")
        expect(page.locator("a:focus")).to_have_text("shop / s11")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("s11")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys and signs")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("f")
        expect(page.locator("table.fleet")).to_be_visible()
        page.go_back()
        page.go_back()
        expect(page.get_by_role("searchbox")).to_have_value("s1")
        watched.assert_no_errors()


@pytest.mark.slow
def test_five_hundred_streams_are_there_at_once(
    browser: Browser, controller: Controller, tmp_path: Path
) -> None:
    slo = slo_values(Slo(target_ppm=990_000))
    with controller.service.database.write() as session:
        for number in range(500):
            stream = lock_stream(session, f"job-{number // 10:02d}", f"{number:03d}")
            session.add(SloRow(stream_id=stream.id, generation=1, updated_us=controller.clock(), **slo))
    with served(controller.app) as url, watched_page(browser, url) as watched:
        page, asked = watched.page, []
        page.on("request", lambda request: asked.append(urlsplit(request.url).path))
        page.clock.install(time=0)
        page.clock.pause_at(1_000)  # so that nothing is requested again
        watched.open()
        expect(page.locator("table.fleet tbody tr")).to_have_count(500)
        page.get_by_role("searchbox").fill("499")
        expect(page.locator("table.fleet tbody tr:visible")).to_have_count(1)
        assert [path for path in asked if path.startswith("/v1/")] == ["/v1/fleet"]
        watched.assert_no_errors()


@pytest.mark.parametrize("width", [WIDE, 1024, NARROW])
def test_nothing_is_wider_than_the_screen(browser: Browser, shown: Shown, width: int) -> None:
    with watched_page(browser, shown.url, width=width) as watched:
        watched.open()
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= width


def test_an_empty_fleet_says_how_a_stream_appears(browser: Browser, controller: Controller) -> None:
    with served(controller.app) as url, watched_page(browser, url) as watched:
        watched.open()
        expect(watched.page.get_by_text("No stream is known yet")).to_be_visible()
        watched.assert_no_errors()
