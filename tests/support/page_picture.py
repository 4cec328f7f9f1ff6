"""Writes the pictures of the page that the documents show, from streams that report up to now.

``python -m support.page_picture`` writes ``docs/page.png`` and ``docs/windows.png``; with a folder, it writes pictures
of the fleet and of each stream there, on a wide and a narrow screen in both themes.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect

from support.browser import NARROW, WIDE, Theme, Watched, running_browser, watched_page
from support.controller_app import Controller
from support.page_streams import fill
from support.served import served

DOCS = Path(__file__).parents[2] / "docs"
OF_THE_README = "logistics/parcels"
OF_WINDOWS = "shop/clicks"
STREAMS = (
    OF_THE_README,
    "payments/refunds",
    OF_WINDOWS,
    "shop/orders",
    "payments/authorisations",
    "ads/impressions",
    "ads/conversions",
    "ads/clicks",
)


def main(folder: Path | None) -> None:
    """Write the pictures of the documents, or all of them into a folder."""
    with tempfile.TemporaryDirectory() as store, Controller(f"sqlite:///{store}/tidemark.db") as controller:
        fill(controller)
        with served(controller.app) as url, running_browser() as browser:
            if folder is None:
                with watched_page(browser, url) as watched:
                    _open(watched, OF_THE_README)
                    watched.page.screenshot(path=DOCS / "page.png")
                    _open(watched, OF_WINDOWS)
                    watched.page.locator(".panel-windows").screenshot(path=DOCS / "windows.png")
                return
            folder.mkdir(parents=True, exist_ok=True)
            for width in (WIDE, NARROW):
                _picture_all(browser, url, folder, "light", width)
                _picture_all(browser, url, folder, "dark", width)


def _picture_all(browser: Browser, url: str, folder: Path, theme: Theme, width: int) -> None:
    for stream in (None, *STREAMS):
        with watched_page(browser, url, theme=theme, width=width) as watched:
            _open(watched, stream)
            name = "fleet" if stream is None else stream.replace("/", "-")
            watched.page.screenshot(path=folder / f"{name}-{theme}-{width}.png", full_page=True)


def _open(watched: Watched, stream: str | None) -> None:
    watched.open("/" if stream is None else f"/#/streams/{stream}")
    if stream is not None:
        expect(watched.page.locator(".panel.loading")).to_have_count(0)
        expect(watched.page.locator(".preview .figure").first).to_be_visible()


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
