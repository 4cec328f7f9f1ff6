"""What commands print holds nothing that a terminal would obey."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from click.testing import CliRunner

from tidemark.controller.tools.cli import app
from tidemark.controller.tools.cli.run import write
from tidemark.controller.tools.cli.show import table
from tidemark.models.base.operators import Operator, sliding, tumbling
from tidemark.models.base.text import plain

from support.controller_app import Controller
from support.rolled_job import RolledJob
from support.served import served

EVIL = "a\x1b]0;owned\x07\x9b31m\u202eb"


def test_characters_that_a_terminal_would_obey_are_written_out() -> None:
    assert plain(EVIL) == r"a\x1b]0;owned\x07\x9b31m\u202eb"
    assert plain("Bestellungen ä 流") == "Bestellungen ä 流"


def test_json_and_yaml_say_the_same_and_hold_none_of_them_either(
    capsys: pytest.CaptureFixture[str],
) -> None:
    write({"job": EVIL, "stream": "流"}, "yaml")
    text = capsys.readouterr().out
    assert yaml.safe_load(text) == {"job": EVIL, "stream": "流"}
    assert text.replace("\n", "").isprintable()
    write({"stream": "流"}, "yaml")
    assert capsys.readouterr().out == "stream: 流\n"
    write({"job": EVIL, "stream": "流"}, "json")
    text = capsys.readouterr().out
    assert json.loads(text) == {"job": EVIL, "stream": "流"}
    assert "流" in text
    assert all(each.isprintable() or each == "\n" for each in text)


def test_a_row_is_one_line_where_no_terminal_would_break_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    long = "a word " * 60
    table(("name", "text"), [("first", long), ("second", "x")], "nothing")
    assert capsys.readouterr().out.splitlines() == [
        "name    text",
        f"first   {long}".rstrip(),
        "second  x",
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [("status", "shop"), ("status", "shop", "clicks"), ("events",), ("pins",)]
)
def test_no_reason_that_somebody_gave_can_write_to_the_terminal(
    controller: Controller, command: tuple[str, ...]
) -> None:
    controller.http.put("/v1/jobs/shop/streams/clicks/slo", json={"target_ppm": 990_000})
    for address in ("/v1/pin", "/v1/pin?job=shop"):
        assert controller.http.put(address, json={"to": "Ceiling", "reason": EVIL}).is_success
    assert controller.http.post("/v1/jobs/shop/streams/clicks:pause", json={"reason": EVIL}).is_success
    with served(controller.app) as url:
        done = CliRunner().invoke(app, [*command, "--url", url], env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    assert "owned" in done.output
    assert all(each.isprintable() or each == "\n" for each in done.output), repr(done.output)


@pytest.mark.slow
def test_the_status_of_the_first_minute_gives_a_bound_and_the_command_that_knows_more(
    controller: Controller,
) -> None:
    job = RolledJob(controller, job="shop", stream="clicks")
    job.put("slo", {"target_ppm": 990_000})
    job.run(6, 40.0)
    text = job.status()["provisional_bound"]["text"]
    with served(controller.app) as url:
        done = CliRunner().invoke(app, ["status", "shop", "clicks", "--url", url], env={"COLUMNS": "200"})
    words = " ".join(done.output.split())
    assert words.count(text) == 1
    assert "tidemark trace --from kafka" in words
    controller.snapshot()
    with served(controller.app) as url:
        done = CliRunner().invoke(app, ["status", "shop", "--url", url], env={"COLUMNS": "200"})
    assert re.search(r"99 % +provisionally [\d.]+ s, at least [\d.]+ s", done.output)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operator", "counted"), [(tumbling("10s"), "rows"), (sliding("10s", "5s"), "(row, window) pairs")]
)
def test_the_status_calls_pairs_pairs_where_a_row_is_in_several_windows(
    controller: Controller, operator: Operator, counted: str
) -> None:
    job = RolledJob(controller, bound_ms=5_000, job="shop", stream="clicks")
    job.operator = operator
    job.run(4, 5.0, tick=False)
    with served(controller.app) as url:
        done = CliRunner().invoke(app, ["status", "shop", "clicks", "--url", url], env={"COLUMNS": "200"})
    rows = 240 if counted == "rows" else 480
    assert f"% of {rows} {counted}" in done.output
