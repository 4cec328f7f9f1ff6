"""A browser, and a controller that has something to show."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from support.seeded import continued
from support.served import served
from support.shown import Shown, report_half_an_hour

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    """Return a browser for these files and no others: Playwright keeps its thread's event loop while it is there."""
    from support.browser import running_browser

    with running_browser() as running:
        yield running


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """Return a controller with a job of eight partitions, of which number 7 is 16 s later than the others."""
    store = f"sqlite:///{tmp_path_factory.mktemp('page') / 'tidemark.db'}"
    with continued(store, report_half_an_hour) as job, served(job.controller.app) as url:
        yield Shown(job.controller, job, url)
