"""The page during an outage of the controller: old figures are marked and do not change."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import make_url

from tidemark.spark_jobs.demo.controller_process import ControllerProcess

from support.browser import watched_page
from support.shown import Shown

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(tmp_path: Path, shown: Shown) -> Path:
    """Return a folder with a copy of the store of a job that has reported."""
    store = make_url(shown.controller.service.database.name).database
    assert store is not None
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("VACUUM INTO ?", [str(tmp_path / "tidemark.db")])
    return tmp_path


@pytest.fixture
def process(folder: Path) -> Iterator[ControllerProcess]:
    """Return a controller in a process of its own on that database."""
    started = ControllerProcess(folder, "job", "stream")
    started.wait_until_ready()
    yield started
    started.stop()


def _charts(page: Page) -> list[str]:
    """Return everything that is drawn, as data."""
    expect(page.locator(".panel.loading")).to_have_count(0)
    expect(page.locator(".preview .figure").first).to_be_visible()
    expect(page.locator(".preview.waiting")).to_have_count(0)
    found: list[str] = page.evaluate(
        "[...document.querySelectorAll('canvas')].map((one) => one.toDataURL())"
        ".concat([...document.querySelectorAll('.heat-names, .marks, .preview dd, .panel-predictions td')]"
        ".map((one) => one.textContent))"
    )
    return found


def _try_now(page: Page) -> None:
    """Press the button, unless the page has tried by itself meanwhile and needs it no more."""
    page.evaluate(
        "() => [...document.querySelectorAll('button')].find((one) => one.textContent === 'Try now')?.click()"
    )


@pytest.mark.long
def test_a_killed_controller_gives_a_banner_and_after_its_restart_every_chart_is_the_same(
    browser: Browser, folder: Path, process: ControllerProcess
) -> None:
    until_us = process.get()["evidence"]["to_us"] + 60_000_000
    view = f"/#/streams/job/stream?span=1h&until={until_us}"
    with watched_page(browser, process.url) as watched:
        page = watched.page
        watched.open(view)
        before = _charts(page)
        process.kill()
        page.keyboard.press("r")
        banner = page.get_by_role("alert")
        expect(banner).to_contain_text("The controller has not answered since")
        expect(banner).to_contain_text("The figures are from")
        assert "stale" in (page.locator("body").get_attribute("class") or "")
        assert _charts(page) == before, "the charts stay"

        back = ControllerProcess(folder, "job", "stream", process.port)
        try:
            back.wait_until_ready()
            _try_now(page)
            expect(banner).to_have_count(0)
            expect(page.locator("body")).not_to_have_class("stale")
            watched.open("/")
            watched.open(view)
            page.reload()
            assert _charts(page) == before
        finally:
            back.stop()


def test_a_page_that_is_opened_while_the_controller_is_away_shows_it_when_it_is_back(
    browser: Browser, shown: Shown
) -> None:
    with watched_page(browser, shown.url) as watched:
        page = watched.page
        watched.open("/")
        page.context.set_offline(True)
        page.locator("a.stream-link").click()
        expect(page.get_by_text("Nothing to show until the controller answers.")).to_be_visible()
        page.context.set_offline(False)
        _try_now(page)
        expect(page.get_by_role("heading", level=1)).to_have_text("stream")
        expect(page.get_by_role("alert")).to_have_count(0)


def test_a_page_whose_first_requests_were_not_all_answered_is_whole_when_they_are(
    browser: Browser, shown: Shown
) -> None:
    with watched_page(browser, shown.url) as watched:
        page = watched.page
        page.route("**/v1/**/curve*", lambda route: route.abort())
        page.goto(f"{shown.url}/#/streams/job/stream?span=1h")
        expect(page.get_by_role("alert")).to_contain_text("The controller has not answered since")
        expect(page.get_by_role("heading", level=1)).to_have_text("stream")
        page.unroute("**/v1/**/curve*")
        _try_now(page)
        expect(page.locator(".preview .figure").first).to_be_visible()
        expect(page.get_by_role("alert")).to_have_count(0)


def test_a_hidden_tab_requests_nothing(browser: Browser, shown: Shown) -> None:
    with watched_page(browser, shown.url) as watched:
        page = watched.page
        page.clock.install(time=0)
        page.clock.pause_at(1_000)
        watched.open("/")
        expect(page.locator(".fresh")).to_contain_text("updated")
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        hide = """(hidden) => {
            Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
        page.evaluate(hide, True)
        page.clock.run_for(60_000)
        assert asked == []
        page.evaluate(hide, False)
        expect(page.locator(".fresh")).to_have_text("updated just now")
        assert len([url for url in asked if "/v1/fleet" in url]) == 1
        for tick in range(2, 5):
            page.clock.run_for(5_100)
            expect(page.locator(".fresh")).to_have_text("updated just now")
            assert len([url for url in asked if "/v1/fleet" in url]) == tick
