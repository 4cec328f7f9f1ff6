"""The page for people who see it badly or not at all: axe finds no serious fault."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support.browser import NARROW, WIDE, watched_page
from support.controller_app import Controller
from support.served import served
from support.shown import SHOWN_HASH, Shown
from support.tokens import make_token

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize(("name", "path"), [("fleet", "/"), ("stream", SHOWN_HASH)])
def test_each_view_has_no_serious_fault(
    browser: Browser, shown: Shown, tmp_path: Path, name: str, path: str, width: int
) -> None:
    with watched_page(browser, shown.url, width=width, bypass_csp=True) as watched:
        watched.open(path)
        page = watched.page
        expect(page.locator(".panel.loading")).to_have_count(0)
        # A phone shows one part of a stream at a time.
        parts = page.locator(".tabs button:visible").all()
        if name == "stream":
            expect(page.locator(".preview .figure").first).to_be_visible()
            assert len(parts) == (4 if width == NARROW else 0)
        for number in range(max(len(parts), 1)):
            if parts:
                parts[number].click()
            watched.picture(tmp_path / f"{name}-{width}-{number}.png")
            assert watched.faults_in_both_themes() == []
        watched.assert_no_errors()


@pytest.mark.long
def test_each_dialog_has_no_serious_fault(browser: Browser, shown: Shown, tmp_path: Path) -> None:
    """But those of the steering, which test_steering.py opens."""
    with watched_page(browser, shown.url, bypass_csp=True) as watched:
        watched.open(SHOWN_HASH)
        page = watched.page
        for name, button in [("help", "Help"), ("pause", "Pause …"), ("slo", "Change the SLO …")]:
            page.get_by_role("button", name=button).click()
            dialog = page.get_by_role("dialog")
            if name == "slo":
                dialog.get_by_label("Target (%)").fill("97")
                dialog.get_by_role("button", name="Show the consequences").click()
                expect(dialog).to_contain_text("Consequences")
            if name == "pause":
                dialog.get_by_role("button", name="Pause", exact=True).click()
                expect(dialog).to_contain_text("Say why")
            watched.picture(tmp_path / f"dialog-{name}.png")
            assert watched.faults_in_both_themes() == [], name
            page.keyboard.press("Escape")
        watched.assert_no_errors()


def test_tables_in_place_of_charts_have_no_serious_fault(browser: Browser, shown: Shown) -> None:
    with watched_page(browser, shown.url, bypass_csp=True) as watched:
        watched.open(SHOWN_HASH)
        page = watched.page
        expect(page.locator(".panel.loading")).to_have_count(0)
        for button in page.get_by_role("button", name="As a table").all():
            button.click()
        assert watched.faults_in_both_themes() == []


def test_asking_for_a_token_and_saying_that_the_controller_is_away_have_no_serious_fault(
    browser: Browser, controller: Controller
) -> None:
    with served(controller.app) as url, watched_page(browser, url, bypass_csp=True) as watched:
        watched.open()
        watched.page.context.set_offline(True)
        watched.page.keyboard.press("r")
        expect(watched.page.locator(".banner")).to_be_visible()
        assert watched.faults_in_both_themes() == []
        watched.page.context.set_offline(False)
        make_token(controller)
        watched.page.keyboard.press("r")
        expect(watched.page.get_by_label("Token")).to_be_visible()
        assert watched.faults_in_both_themes() == []


def test_a_theme_that_was_chosen_stays_chosen(browser: Browser, shown: Shown) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    with watched_page(browser, shown.url, theme="light") as watched:
        watched.open()
        page = watched.page
        light = page.evaluate(ground)
        page.keyboard.press("t")
        page.keyboard.press("t")
        dark = page.evaluate(ground)
        assert dark != light
        watched.open(SHOWN_HASH)
        page.reload()
        page.wait_for_selector(".stream-grid")
        assert page.evaluate(ground) == dark
        page.keyboard.press("t")
        assert page.evaluate(ground) == light
        watched.assert_no_errors()


@pytest.mark.parametrize("path", ["/", SHOWN_HASH])
def test_there_are_five_sizes_of_type(browser: Browser, shown: Shown, path: str) -> None:
    sizes = """() => [...new Set([...document.querySelectorAll('body *')]
        .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
        .map((one) => getComputedStyle(one).fontSize))]"""
    with watched_page(browser, shown.url) as watched:
        watched.open(path)
        expect(watched.page.locator(".panel.loading")).to_have_count(0)
        found = sorted(round(float(size.removesuffix("px"))) for size in watched.page.evaluate(sizes))
        assert set(found) <= {12, 14, 16, 20, 24}
