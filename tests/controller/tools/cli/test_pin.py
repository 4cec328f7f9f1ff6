"""``tidemark pin``, ``unpin``, ``pins``: against a real server, and against what is none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner, Result
from fastapi import FastAPI
from fastapi.responses import JSONResponse

from tidemark.controller.tools.cli import app
from tidemark.models.protocol.messages import Acknowledgement

from support.controller_app import Controller
from support.reports import START_US, exponential_batches, query_reports
from support.served import served

REPORTS = query_reports(exponential_batches(12, 20))
Tidemark = Callable[..., Result]


@pytest.fixture
def tidemark(controller: Controller) -> Iterator[Tidemark]:
    """Run a command against the controller, behind a real socket."""
    with served(controller.app) as url:

        def run(*arguments: str, **environment: str) -> Result:
            return CliRunner().invoke(
                app, list(arguments), env={"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", **environment}
            )

        yield run


def said(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def failed(result: Result, code: int = 1) -> str:
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    (line,) = result.stderr.splitlines()
    return line


@pytest.mark.slow
def test_a_pin_is_set_listed_and_taken_away_and_says_what_it_costs(
    controller: Controller, tidemark: Tidemark
) -> None:
    controller.put("/policy", {"mode": "OnRestart"})
    controller.report_all(REPORTS)
    controller.acknowledge(
        Acknowledgement(
            query_id="query",
            run_id="run",
            bound_ms=5_000,
            generation=None,
            source="job",
            mode="OnRestart",
            applied_us=START_US,
            ceiling_ms=1_800_000,
        )
    )
    lines = said(tidemark("pin", "job", "stream", "--to", "ceiling", "--reason", "INC-1"))
    assert lines[0] == "pinned job/stream to Ceiling: INC-1"
    assert lines[1].startswith("  job/stream: windows close 29 min 55 s later than at 5 s; ")
    assert controller.get("/bound").json()["pin"] == "Ceiling"
    assert said(tidemark("pins")) == ["job/stream: Ceiling since 2026-01-01 01:00:00 UTC: INC-1"]
    lines = said(tidemark("unpin", "job", "stream"))
    assert lines == [
        "unpinned job/stream, which was pinned to Ceiling: INC-1",
        "  job/stream: 5 s is in use already",
    ]
    assert said(tidemark("pins")) == ["there are no pins"]


@pytest.mark.parametrize(
    ("options", "path", "scope"),
    [
        (("--fleet", "--yes"), "/v1/pin", "the whole fleet"),
        (("a b/c",), None, ""),
        (("a b",), "/v1/pin?job=a%20b", "job a b"),
        (("a b", "c?"), "/v1/pin?job=a%20b&stream=c%3F", "a b/c?"),
    ],
)
def test_arguments_say_what_is_pinned(
    controller: Controller, tidemark: Tidemark, options: tuple[str, ...], path: str | None, scope: str
) -> None:
    result = tidemark("pin", "--to", "off", "--reason", "why", *options)
    if path is None:
        assert "slash" in failed(result)
        return
    assert said(result)[0] == f"pinned {scope} to Off: why"
    assert controller.http.get(path).json()["to"] == "Off"
    assert said(tidemark("unpin", *options))[0].startswith(f"unpinned {scope}, which was pinned to Off")


def test_a_pin_that_is_not_there_and_options_that_are_not_valid_are_one_line(tidemark: Tidemark) -> None:
    assert failed(tidemark("unpin", "--fleet", "--yes")).startswith(
        "tidemark: there is no pin on the whole fleet"
    )
    assert "reason" in failed(tidemark("pin", "--fleet", "--yes", "--to", "off", "--reason", " "))
    assert tidemark("pin", "--to", "off").exit_code == 2
    assert tidemark("pin", "--to", "live", "--reason", "why").exit_code == 2


@pytest.mark.parametrize("command", [("pin", "--to", "off", "--reason", "why"), ("unpin",)])
@pytest.mark.parametrize("given", [(), ("--dry-run",), ("job", "--fleet", "--yes")])
def test_a_command_without_a_scope_is_rejected_and_names_the_ways(
    controller: Controller, tidemark: Tidemark, command: tuple[str, ...], given: tuple[str, ...]
) -> None:
    controller.report_all(REPORTS[:1])
    body = failed(tidemark(*command, *given), 2)
    assert body == "tidemark: give JOB, JOB and STREAM, or --fleet for all streams of all jobs"
    assert controller.get("/bound").json()["pin"] is None


def test_the_whole_fleet_is_pinned_when_asked_for_and_a_dry_run_of_it_changes_nothing(
    controller: Controller, tidemark: Tidemark
) -> None:
    controller.report_all(REPORTS[:1])
    pin = ("pin", "--fleet", "--to", "off", "--reason", "why")
    assert said(tidemark(*pin, "--dry-run"))[0] == "would pin the whole fleet to Off: why"
    assert controller.get("/bound").json()["pin"] is None
    assert failed(tidemark(*pin), 2) == (
        "tidemark: --fleet asks first, and nobody can answer here: add --yes"
    )
    assert controller.get("/bound").json()["pin"] is None
    assert said(tidemark(*pin, "--yes"))[0] == "pinned the whole fleet to Off: why"
    assert controller.get("/bound").json()["pin"] == "Off"
    assert said(tidemark("unpin", "--fleet", "--yes"))[0].startswith("unpinned the whole fleet")


def test_the_whole_fleet_is_pinned_only_when_the_answer_is_yes(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidemark.controller.tools.cli.ask.somebody_answers", lambda: True)
    controller.report_all(REPORTS[:1])
    pinned = []
    with served(controller.app) as url:
        for command in (("pin", "--to", "off", "--reason", "why"), ("unpin",)):
            for answer in ("n\n", "y\n"):
                done = CliRunner().invoke(app, [*command, "--fleet", "--url", url], input=answer)
                assert f"{command[0]} the whole fleet, 1 stream now and all that come later," in done.stderr
                pinned.append((done.exit_code, controller.get("/bound").json()["pin"]))
    assert pinned == [(1, None), (0, "Off"), (1, "Off"), (0, None)]


@pytest.mark.slow
def test_more_pins_than_a_page_are_all_listed(controller: Controller, tidemark: Tidemark) -> None:
    for number in range(102):
        controller.http.put(f"/v1/pin?job={number:03}", json={"to": "Off", "reason": "why"})
    assert len(said(tidemark("pins"))) == 102


# -- what can go wrong on the way ----------------------------------------------------------------------------------


def test_no_controller_is_one_line() -> None:
    result = CliRunner().invoke(app, ["pins", "--url", "http://127.0.0.1:1"])
    assert failed(result).startswith("tidemark: the controller at http://127.0.0.1:1 cannot be reached: ")


@pytest.mark.parametrize("url", ["nonsense", "http://", "ftp://host"])
def test_an_address_that_is_none_is_one_line(url: str) -> None:
    assert "is not an address that can be called" in failed(CliRunner().invoke(app, ["pins", "--url", url]))


def stand_in(status: int, body: Any, seen: list[httpx.Headers]) -> FastAPI:
    """Something else behind the address."""
    other = FastAPI()

    @other.middleware("http")
    async def answer(request: Any, _: Any) -> JSONResponse:
        seen.append(httpx.Headers(dict(request.headers)))
        return JSONResponse(body, status)

    return other


@pytest.mark.parametrize("body", [{}, [], "text", {"pins": 1}])
def test_what_is_no_controller_is_said_to_be_none(body: Any) -> None:
    with served(stand_in(500, body, [])) as url:
        found = failed(CliRunner().invoke(app, ["pins", "--url", url]))
    assert found.startswith(f"tidemark: what is at {url} answers 500, but not as a controller does; is ")


@pytest.mark.parametrize("status", [401, 403])
def test_a_rejected_token_is_named_as_the_cause(status: int) -> None:
    seen: list[httpx.Headers] = []
    with served(stand_in(status, {}, seen)) as url:
        without = failed(CliRunner().invoke(app, ["pins", "--url", url], env={"TIDEMARK_TOKEN": ""}))
        refused = failed(CliRunner().invoke(app, ["pins", "--url", url], env={"TIDEMARK_TOKEN": "tdm_1"}))
    assert f"answers {status}: no token was sent, and it requires one; name a token" in without
    assert f"answers {status}: it rejects the token; name a token" in refused
    assert [headers.get("authorization") for headers in seen] == [None, "Bearer tdm_1"]


def test_a_token_comes_from_its_file_before_the_environment_and_is_never_shown(tmp_path: Path) -> None:
    seen: list[httpx.Headers] = []
    path = tmp_path / "token"
    path.write_text("tdm_file\n")
    with served(stand_in(403, {}, seen)) as url:
        result = CliRunner().invoke(
            app, ["pins", "--url", url, "--token-file", str(path)], env={"TIDEMARK_TOKEN": "tdm_environment"}
        )
    assert "tdm" not in failed(result)
    assert seen[0]["authorization"] == "Bearer tdm_file"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "No such file"),
        ("schlüssel", "not plain ASCII"),
        ("two words", "spaces or characters that are not printable"),
    ],
)
def test_a_token_file_that_holds_none_is_one_line(tmp_path: Path, content: str | None, sentence: str) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    body = failed(CliRunner().invoke(app, ["pins", "--token-file", str(path)]))
    assert sentence in body
    assert content is None or content not in body
