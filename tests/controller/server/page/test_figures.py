"""The page and the command line write durations alike. How the page writes figures: format.test.js beside this file."""

from __future__ import annotations

import random
from typing import Any

import pytest
from playwright.sync_api import Browser

from tidemark.controller.server.page.server import read_page
from tidemark.models.base.duration import format_duration, parse_duration

from support.browser import Watched, watched_page
from support.shown import Shown

pytestmark = pytest.mark.slow

MODULE = f"./page/{read_page().version}/format.js"


def write(watched: Watched, function: str, arguments: list[Any]) -> list[Any]:
    """Return the result of a function of the page for each argument."""
    found: list[Any] = watched.page.evaluate(
        f"async (all) => {{ const module = await import(new URL('{MODULE}', document.baseURI)); "
        f"return all.map((one) => module.{function}(one)); }}",
        arguments,
    )
    return found


@pytest.fixture(scope="module", name="watched")
def _watched(browser: Browser, shown: Shown) -> Any:
    with watched_page(browser, shown.url) as watched:
        watched.open()
        yield watched


def test_a_bound_that_is_written_out_is_read_back_to_the_millisecond(watched: Watched) -> None:
    rng = random.Random(1)
    durations = [
        0,
        1,
        999,
        1_000,
        59_999,
        120_000,
        86_400_000,
        *(rng.randrange(10**n) for n in range(1, 11) for _ in range(50)),
    ]
    texts = write(watched, "exactDuration", durations)
    assert write(watched, "parseDuration", texts) == durations
    assert [parse_duration(text) // 1_000 for text in texts] == durations, "the command line reads it too"


def test_durations_are_written_as_the_command_line_writes_them(watched: Watched) -> None:
    durations = [0, 450, 8_030, 60_000, 119_000, 150_000, 3_600_000, 93_600_000]
    assert write(watched, "exactDuration", durations) == [format_duration(ms * 1_000) for ms in durations]


def test_zero_is_written_one_way(watched: Watched) -> None:
    assert write(watched, "duration", [0]) == write(watched, "exactDuration", [0]) == [format_duration(0)]
