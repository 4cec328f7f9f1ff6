"""``tidemark windows`` and ``tidemark wait``, against a real server: what they print, and each exit code."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result

from tidemark.controller.tools.cli import app

from support.controller_app import Controller
from support.reports import START_US, exponential_batches, query_reports
from support.served import served
from support.streams import SECOND

pytestmark = pytest.mark.slow


def run(controller: Controller, *arguments: str) -> Result:
    with served(controller.app) as url:
        environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", "COLUMNS": "200"}
        return CliRunner().invoke(app, [*arguments], env=environment)


def window(seconds: int) -> str:
    """Return the window that ends so long after the stream began, as a person writes it."""
    return datetime.fromtimestamp(START_US // SECOND + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def report(controller: Controller, bound_ms: int = 20_000) -> None:
    controller.report_all(query_reports(exponential_batches(420, 100), bound_ms=bound_ms))


def wait(controller: Controller, seconds: int, *arguments: str) -> Result:
    return run(
        controller,
        *("wait", "job", "stream", "--window", window(seconds), "--share", "99%", "--timeout", "1 s"),
        *arguments,
    )


def test_windows_show_what_has_come_what_counts_and_what_is_to_come(controller: Controller) -> None:
    report(controller)
    found = run(controller, "windows", "job", "stream", "--share", "99%", "--limit", "20")
    assert found.exit_code == 0, found.output
    head, newest, *older = found.stdout.splitlines()
    assert head.split() == ["window's", "end", "state", "rows", "late", "expected", "has", "come", "counted"]
    assert "Open" in newest
    assert "(at least " in newest
    assert "Closed, settled" in older[5]
    assert older[5].endswith("100 %")
    assert "Closed, settled" in older[-1]
    document = json.loads(run(controller, "windows", "job", "stream", "--state", "closed", "--json").stdout)
    assert {row["state"] for row in document["windows"]} == {"Closed"}


def test_a_wait_ends_with_0_when_the_share_is_reached(controller: Controller) -> None:
    report(controller)
    found = wait(controller, 380)
    assert (found.exit_code, found.stderr) == (0, "")
    assert found.stdout.startswith("the window that ends ")
    assert " is complete to 99 %: 100 % has come; " in found.stdout


def test_a_wait_for_the_windows_of_a_span_is_one_wait(controller: Controller) -> None:
    report(controller)
    found = wait(controller, 380, "--span", "3 min", "--json")
    assert found.exit_code == 0, found.output
    assert json.loads(found.stdout)["rows"] > 17_000


def test_a_wait_ends_with_3_when_the_share_is_not_reached_in_time(controller: Controller) -> None:
    report(controller)
    found = wait(controller, 420, "--json")
    assert found.exit_code == 3
    assert json.loads(found.stdout)["outcome"] == "NotYet"


def test_a_wait_ends_with_3_when_nothing_is_known_in_time(controller: Controller) -> None:
    controller.report_all(query_reports(exponential_batches(30, 100)))
    found = wait(controller, 10)
    assert found.exit_code == 3
    assert "is: fewer than 20 windows" in found.stdout


def test_a_wait_ends_with_4_when_the_share_cannot_be_reached_any_more(controller: Controller) -> None:
    report(controller, bound_ms=1_000)
    found = wait(controller, 380)
    assert found.exit_code == 4
    assert "cannot reach 99 % any more: it is closed" in found.stdout


@pytest.mark.parametrize("text", ["nine", "2026-11-28T09:00"])
def test_a_time_without_a_zone_is_a_mistake_of_the_command_line(controller: Controller, text: str) -> None:
    found = run(controller, "wait", "job", "stream", "--window", text)
    assert found.exit_code == 2
    assert "write it as in 2026-11-28T09:00Z" in found.stderr


def test_half_a_second_counts_and_the_error_says_which_window_comes_next(controller: Controller) -> None:
    report(controller)
    found = run(controller, "wait", "job", "stream", "--window", window(380).replace("Z", ".5Z"))
    assert found.exit_code == 1
    assert f"the next one ends {window(390).replace('T', ' ').replace('Z', ' UTC')}" in found.stderr
