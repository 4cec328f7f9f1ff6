"""A real browser for tests: the system's Chromium, without a profile, talking only to the controller."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    Response,
    expect,
    sync_playwright,
)

from support.patience import PATIENCE_S

__all__ = ["NARROW", "WIDE", "Theme", "Watched", "find_chromium", "running_browser", "watched_page"]

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
"""Programs that will do. The first has no window to draw and takes half the CPU time of the others."""

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

PATIENCE_MS = PATIENCE_S * 1_000

WIDE, NARROW = 1440, 390
"""Widths of a desktop screen and of a phone, in pixels."""

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")

SERIOUS = frozenset({"serious", "critical"})
"""Impacts of axe's findings that keep people from using the page."""


def find_chromium() -> str | None:
    """Return the path of a Chromium; None when there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Start a browser; it ends with the context. Skipped where there is none, but never in CI."""
    path = find_chromium()
    if path is None:
        assert os.environ.get("CI") != "true", "CI has no Chromium: `make services` installs it"
        pytest.skip("there is no Chromium here; `make services` installs it")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, headless=True, args=list(ARGUMENTS), timeout=PATIENCE_MS
        )
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Watched:
    """A page, and everything that went wrong in it."""

    page: Page
    """The page."""
    url: str
    """Address of the controller, without a slash at its end."""
    messages: list[str] = field(default_factory=list)
    """Errors and warnings of the console, and uncaught errors."""
    failed: list[str] = field(default_factory=list)
    """Requests that failed or were answered with an error."""
    foreign: list[str] = field(default_factory=list)
    """Requests to other hosts than the controller."""

    def open(self, path: str = "/") -> None:
        """Open a view and wait until its data are there."""
        self.page.goto(self.url + path)
        self.page.wait_for_selector("table.fleet:visible, .start:visible, .stream-grid, .notice")

    def serious_faults(self) -> list[str]:
        """Return axe's findings that keep people from using the page."""
        found: dict[str, Any] = Axe().run(self.page, options={"resultTypes": ["violations"]}).response
        return [
            f"{one['id']} ({one['impact']}): {one['help']}: {[node['target'] for node in one['nodes']][:5]}"
            for one in found["violations"]
            if one["impact"] in SERIOUS
        ]

    def faults_in_both_themes(self) -> list[str]:
        """Return the serious faults of what is shown now, in light and in dark, each with its theme."""
        found = []
        for theme in THEMES:
            self.page.emulate_media(color_scheme=theme)
            found += [f"{theme}: {fault}" for fault in self.serious_faults()]
        return found

    def picture(self, path: Path) -> None:
        """Keep a picture of the whole page, also in the folder that TIDEMARK_TEST_PICTURES names."""
        self.page.screenshot(path=path, full_page=True)
        kept = os.environ.get("TIDEMARK_TEST_PICTURES")
        if kept:
            Path(kept).mkdir(parents=True, exist_ok=True)
            shutil.copy(path, kept)

    def assert_no_errors(self) -> None:
        """Assert that nothing went wrong since the page was opened."""
        assert self.messages == []
        assert self.failed == []
        assert self.foreign == []


@contextmanager
def watched_page(
    browser: Browser,
    url: str,
    *,
    theme: Theme = "light",
    width: int = WIDE,
    **options: Any,
) -> Iterator[Watched]:
    """Open an empty tab with nothing stored, and record its errors."""
    context: BrowserContext = browser.new_context(
        viewport={"width": width, "height": 900},
        color_scheme=theme,
        timezone_id="UTC",
        locale="en-GB",
        reduced_motion="reduce",
        # The page's security policy would stop axe's script.
        bypass_csp=options.pop("bypass_csp", False),
        **options,
    )
    context.set_default_timeout(PATIENCE_MS)
    page = context.new_page()
    watched = Watched(page, url.rstrip("/"))
    host = urlsplit(url).netloc

    def on_console(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            watched.messages.append(f"{message.type}: {message.text}")

    def on_failed(request: Request) -> None:
        # A request that the page aborted for a newer one did not fail.
        if request.failure != "net::ERR_ABORTED":
            watched.failed.append(f"{request.method} {request.url}: {request.failure}")

    def on_response(response: Response) -> None:
        if response.status >= 400:
            watched.failed.append(f"{response.request.method} {response.url}: {response.status}")

    def on_request(request: Request) -> None:
        if urlsplit(request.url).netloc != host:
            watched.foreign.append(request.url)

    page.on("console", on_console)
    page.on("pageerror", lambda error: watched.messages.append(f"error: {error}"))
    page.on("requestfailed", on_failed)
    page.on("response", on_response)
    page.on("request", on_request)
    try:
        yield watched
    finally:
        context.close()
