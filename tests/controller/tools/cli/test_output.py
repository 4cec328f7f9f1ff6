"""``-o``, ``--watch``, and a reason that is asked for, against a real controller."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
import yaml
from click.testing import CliRunner, Result

from tidemark.controller.tools.cli import app, ask, run
from tidemark.controller.tools.cli.events import change_text

from support.controller_app import Controller
from support.mistakes import report_shop
from support.reference_cli import options_by_command
from support.served import served

Tidemark = Callable[..., Result]

PRINTS_NO_DATA = {
    "export": "documents that `tidemark apply` reads",
    "jar": "a path alone",
    "token mint": "a token alone",
    "spark-conf": "a conf, in the form of what reads it",
    "trace": "its -o names the file that it makes",
    **dict.fromkeys(("serve", "mcp", "run", "demo"), "it runs something"),
    **dict.fromkeys(("late catch-up", "reconcile", "backup", "restore"), "it writes, and says that it has"),
}
"""Commands that have no answer for programs, and what they print or do instead."""


@pytest.fixture
def url(controller: Controller) -> Iterator[str]:
    report_shop(controller)
    with served(controller.app) as found:
        yield found


@pytest.fixture
def tidemark(url: str) -> Tidemark:
    def run(line: str, text: str | None = None) -> Result:
        environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", "COLUMNS": "300"}
        return CliRunner().invoke(app, line.split(), env=environment, input=text)

    return run


def said(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_every_command_that_prints_data_takes_o_and_json() -> None:
    assert {
        name for name, options in options_by_command().items() if not {"-o", "--json"} <= options
    } == PRINTS_NO_DATA.keys()


@pytest.mark.parametrize(
    "command",
    ["settings", "status", "status shop", "status shop clicks", "rollouts", "events", "curve shop clicks"],
)
def test_json_and_yaml_are_the_same_document(tidemark: Tidemark, command: str) -> None:
    as_json, short, as_yaml = (tidemark(f"{command} {option}") for option in ("-o json", "--json", "-o yaml"))
    assert as_json.stdout == short.stdout
    assert yaml.safe_load(as_yaml.stdout) == json.loads(as_json.stdout)


def test_events_show_before_and_after_and_those_of_late(controller: Controller, tidemark: Tidemark) -> None:
    said(tidemark("slo set shop clicks --target 99.5% --latency-cap 15min --reason agreed"))
    header, row = said(tidemark("events shop clicks --kind SloSet --limit 1"))
    assert header.split() == ["last", "stream", "what", "change", "by", "why"]
    assert "target 99 % -> 99.5 %, latency cap none -> 15 min" in row
    assert row.endswith("agreed")
    # The controller's clock stands still on a day of long ago.
    assert said(tidemark("events --since 1h")) == ["nothing in 1h"]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (None, None, "-"),
        ("60000", "30000", "bound 60 s -> 30 s"),
        ("null", "30000", "bound own -> 30 s"),
        (None, '{"target_ppm": 990000, "latency_cap_ms": null}', "target 99 %"),
        ('{"mode": "Off"}', '{"mode": "Live"}', "mode Off -> Live"),
        ('{"to": "Off"}', None, "no to"),
        (None, json.dumps({f"f{number}": number for number in range(8)}), None),
    ],
)
def test_a_change_is_said_field_by_field_with_its_units(
    before: str | None, after: str | None, text: str | None
) -> None:
    found = change_text(before, after)
    assert found == text if text is not None else found.endswith("f5 5, and 2 more")


def test_what_is_watched_is_shown_when_it_changes_and_survives_a_controller_that_is_away(
    url: str, controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps: list[float] = []

    def between_looks(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 2:
            controller.http.put("/v1/jobs/shop/streams/orders/slo", json={"target_ppm": 900_000})
        if len(sleeps) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(run, "sleep", between_looks)
    result = CliRunner().invoke(app, ["status", "shop", "--watch", "--interval", "3 s", "--url", url])
    assert result.exit_code == 0
    times = [line for line in result.stdout.splitlines() if re.fullmatch(r"\d{4}-.* UTC", line)]
    assert (len(times), sleeps) == (2, [3, 3, 3, 3]), "twice, as it was shown before and after the change"
    assert "90 %" in result.stdout.rpartition(times[-1])[2]


def test_an_interval_that_is_none_and_a_first_look_that_fails_end_the_command(url: str) -> None:
    wrong = CliRunner().invoke(app, ["status", "--watch", "--interval", "soon", "--url", url])
    away = CliRunner().invoke(app, ["status", "--watch", "--url", "http://127.0.0.1:1"])
    assert (wrong.exit_code, away.exit_code) == (2, 1)
    assert "duration 'soon'" in wrong.stderr


@pytest.mark.slow
def test_ctrl_c_ends_a_watch_with_neither_a_traceback_nor_an_error(url: str) -> None:
    command = [sys.executable, "-m", "tidemark.controller", "status", "--watch", "--url", url]
    # What a shell starts in the background ignores the signal, and so does what is started from there.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        signal.signal(signal.SIGINT, before)
        assert running.stdout is not None
        assert running.stdout.readline().endswith(" UTC\n")
        os.kill(running.pid, signal.SIGINT)
        _, errors = running.communicate(timeout=60)
    assert (running.returncode, errors) == (0, "")


def test_a_missing_reason_is_asked_for_where_somebody_can_answer(
    controller: Controller, tidemark: Tidemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tidemark("pause shop clicks").exit_code == 2
    monkeypatch.setattr(ask, "somebody_answers", lambda: True)
    lines = said(tidemark("pause shop clicks", text="a deployment\n"))
    assert lines[-1] == "paused shop/clicks: no new rollout starts: a deployment"
    newest = controller.http.get("/v1/jobs/shop/streams/clicks/events").json()["events"][0]
    assert newest["reason"] == "a deployment"


def test_a_freeze_window_that_holds_is_shown_with_its_end(tidemark: Tidemark) -> None:
    said(tidemark("policy set shop clicks --mode OnRestart --freeze daily"))
    (line,) = [line for line in said(tidemark("status shop clicks")) if line.startswith("frozen")]
    assert re.search(
        r"nothing is narrowed until \d{4}-\d\d-\d\d [\d:]+ UTC, by a freeze window of its policy", line
    )
