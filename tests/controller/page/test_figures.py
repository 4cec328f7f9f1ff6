"""How the page writes figures: rounded so that nothing looks better than it is, and unknown never as 0."""

from __future__ import annotations

import random
from typing import Any

import pytest
from playwright.sync_api import Browser

from tidemark.controller.page.server import read_page
from tidemark.models.duration import format_duration, parse_duration

from support.browser import Watched, watched_page
from support.shown import Shown

MODULE = f"./page/{read_page().version}/format.js"


def write(watched: Watched, function: str, arguments: list[Any]) -> list[Any]:
    """Return what a function of the page's makes of each argument."""
    found: list[Any] = watched.page.evaluate(
        f"async (all) => {{ const told = await import(new URL('{MODULE}', document.baseURI)); "
        f"return all.map((one) => told.{function}(one)); }}",
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


def test_a_latency_that_is_not_measured_is_said_to_be_a_floor_or_not_known(watched: Watched) -> None:
    body = [
        {"latency_wall_ms": 12_000, "latency_at_least_ms": None},
        {"latency_wall_ms": None, "latency_at_least_ms": 100_000},
        {"latency_wall_ms": None, "latency_at_least_ms": None},
    ]
    assert write(watched, "latency", body) == ["12 s", "at least 100 s", "\N{EN DASH}"]


@pytest.mark.parametrize("text", ["", "soon", "-3 s", "5 parsecs", "1h30", "s", "1 s x"])
def test_what_is_no_duration_is_none(watched: Watched, text: str) -> None:
    assert write(watched, "parseDuration", [text]) == [None]


def test_a_share_is_never_rounded_up_and_100_percent_is_all(watched: Watched) -> None:
    rng = random.Random(2)
    shares = [0, 999_999, 999_900, 999_899, 989_999, *(rng.randrange(1_000_000) for _ in range(500))]
    for ppm, text in zip(shares, write(watched, "share", shares), strict=True):
        body = float(text.removesuffix(" %"))
        assert ppm / 10_000 - 0.01 < body <= ppm / 10_000 + 1e-9, (ppm, text)
    assert write(watched, "share", [1_000_000]) == ["100 %"]


def test_a_target_is_written_in_full(watched: Watched) -> None:
    assert write(watched, "target", [995_000, 999_999, 900_000]) == ["99.5 %", "99.9999 %", "90 %"]


def test_a_budget_is_never_rounded_up(watched: Watched) -> None:
    assert write(watched, "budget", [1_000_000, 999_999, 9_999, 0, -1, -3_400_000]) == [
        "100 %",
        "99 %",
        "0 %",
        "0 %",
        "\N{MINUS SIGN}1 %",
        "\N{MINUS SIGN}340 %",
    ]


@pytest.mark.parametrize(
    "function",
    ["count", "about", "duration", "exactDuration", "share", "target", "budget", "bytes", "moment", "ago"],
)
def test_what_is_not_known_is_a_dash_and_not_0(watched: Watched, function: str) -> None:
    assert write(watched, function, [None]) == ["\N{EN DASH}"]
