"""``tidemark rollouts`` and what a person does with them, and ``events``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tidemark.controller.server.schemas.fleet import Narrowing
from tidemark.controller.server.schemas.rollouts import RolloutAnswer
from tidemark.controller.tools.cli import app
from tidemark.controller.tools.cli.rollouts import say_turns
from tidemark.controller.tools.client import Client
from tidemark.models.protocol.messages import Report

from support.controller_app import Controller
from support.http_job import HttpJob
from support.policies import at_once
from support.reports import START_US
from support.rollouts import rollout
from support.seeded import continued
from support.served import served

Tidemark = Callable[..., Result]


@contextmanager
def commands(controller: Controller) -> Iterator[Tidemark]:
    """Run commands against a controller, behind a real socket."""
    with served(controller.app) as url:

        def run(*arguments: str) -> Result:
            environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", "COLUMNS": "200"}
            return CliRunner().invoke(app, list(arguments), env=environment)

        yield run


@pytest.fixture
def tidemark(controller: Controller) -> Iterator[Tidemark]:
    """Run a command against the controller with the job."""
    with commands(controller) as found:
        yield found


def awaiting_approval(controller: Controller) -> tuple[Controller, list[Report]]:
    """Let a job run with its own bound until another one awaits approval; return what it has sent."""
    controller.clock.now_us = START_US
    path = "/v1/jobs/shop/streams/clicks"
    with served(controller.app) as url, Client(url, token="") as client:
        controller.http.put(f"{path}/slo", json={"target_ppm": 990_000})
        controller.http.put(f"{path}/policy", json=at_once(approval="all"))
        made = HttpJob(controller, client)
        made.start()
    return controller, made.sent


@pytest.fixture
def awaiting(database_url: str) -> Iterator[tuple[Controller, list[Report]]]:
    """A controller with a job that awaits approval of a bound, and what the job has sent."""
    with continued(database_url, awaiting_approval) as found:
        yield found


@pytest.fixture
def controller(awaiting: tuple[Controller, list[Report]]) -> Controller:
    return awaiting[0]


def said(result: Result) -> list[str]:
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def document(result: Result) -> Any:
    return json.loads("\n".join(said(result)))


def line(result: Result, code: int) -> str:
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    (body,) = result.stderr.splitlines()
    return body


def states(tidemark: Tidemark, *options: str) -> list[tuple[int, str]]:
    found = document(tidemark("rollouts", *options, "--json"))["rollouts"]
    return [(body["id"], body["state"]) for body in found]


@pytest.mark.long
@pytest.mark.slow
def test_a_rollout_is_listed_approved_and_rolled_back(
    awaiting: tuple[Controller, list[Report]], tidemark: Tidemark
) -> None:
    controller, sent = awaiting
    ((number, state),) = states(tidemark)
    assert state == "AwaitingApproval"
    lines = said(tidemark("rollouts"))
    assert lines[1].split()[:3] == [str(number), "shop/clicks", "AwaitingApproval"]
    assert f"tidemark approve {number} --reason" in lines[1]
    (line,) = [line for line in said(tidemark("status", "shop", "clicks")) if line.startswith("rollout ")]
    assert line.endswith(f"a person has to approve it; tidemark approve {number} --reason ...")
    found = tidemark("doctor", "shop", "clicks")
    assert found.exit_code == 0
    assert f"next: tidemark approve {number} --reason ... --url" in found.stdout
    lines = said(tidemark("approve", str(number), "--reason", "looks right"))
    assert lines[0].startswith(f"approved rollout {number} of shop/clicks, own -> ")
    assert lines[0].endswith(": now Published")
    assert lines[-1] == "  next: tidemark doctor shop clicks"
    # Again it changes nothing.
    assert document(tidemark("approve", str(number), "--reason", "again", "--json"))["state"] == "Published"
    with served(controller.app) as url, Client(url, token="") as client:
        HttpJob(controller, client, sent=sent).start()
    assert states(tidemark, "shop", "clicks", "--all")[-1] == (number, "Verified")
    assert states(tidemark, "--state", "verified") == [(number, "Verified")]
    lines = said(tidemark("rollback", "shop", "clicks", "--reason", "not this week"))
    assert lines == [
        lines[0],
        "  rolled back: not this week",
    ]
    assert lines[0].startswith(f"rolled back rollout {number} of shop/clicks, own -> ")
    assert controller.http.get("/v1/jobs/shop/streams/clicks/bound").json()["bound_ms"] is None
    assert states(tidemark, "--vetoed") == [(number, "RolledBack")]
    lines = said(tidemark("lift", str(number), "--reason", "the week is over"))
    assert lines[0].startswith(f"lifted the veto on rollout {number} of shop/clicks, own -> ")
    assert said(tidemark("rollouts", "--vetoed")) == ["there are no such rollouts"]
    events = document(tidemark("events", "shop", "clicks", "--json"))["events"]
    happened = {"RolloutApproved", "RolloutVerified", "RolloutRolledBack", "VetoLifted"}
    assert happened <= {event["kind"] for event in events}
    (body,) = document(tidemark("events", "--kind", "RolloutApproved", "--json"))["events"]
    assert body["reason"] == "looks right"
    assert len(said(tidemark("events", "shop", "--limit", "3"))) >= 4
    assert "there is no job 'other'; there is only shop" in tidemark("events", "other").stderr
    assert "not this week" in "\n".join(said(tidemark("events", "shop")))


@pytest.mark.slow
def test_a_dry_run_says_what_would_become_of_a_rollout_and_leaves_it_alone(tidemark: Tidemark) -> None:
    ((number, _),) = states(tidemark)

    def tried(*command: str) -> str:
        before = states(tidemark, "--all")
        found = said(tidemark(*command, "--reason", "why", "--dry-run"))[0]
        assert states(tidemark, "--all") == before
        return found

    assert tried("discard", str(number)).endswith(": then Discarded")
    body = tried("approve", str(number))
    assert body.startswith(f"would approve rollout {number} of shop/clicks, own -> ")
    assert body.endswith(": then Published")
    said(tidemark("approve", str(number), "--reason", "why"))
    assert tried("rollback", "shop", "clicks").startswith(f"would roll back rollout {number} of ")
    assert tried("pause", "shop", "clicks") == "would pause shop/clicks: no new rollout starts: why"
    assert tried("resume", "shop", "clicks") == "would resume shop/clicks: why"


@pytest.mark.slow
def test_all_that_await_approval_are_approved_with_yes_and_only_shown_without(
    controller: Controller, tidemark: Tidemark
) -> None:
    ((number, _),) = states(tidemark)
    for option in ([], ["--yes", "--dry-run"]):
        lines = said(tidemark("approve", "--all", "--reason", "savings", *option))
        assert lines[1].split()[:3] == [str(number), "shop/clicks", "Published"]
        assert lines[-1] == "would approve 1 rollout; --yes approves"
        assert states(tidemark) == [(number, "AwaitingApproval")]
    (body,) = document(tidemark("approve", "--all", "--reason", "savings", "--yes", "--json"))["rollouts"]
    assert (body["id"], body["state"]) == (number, "Published")
    assert said(tidemark("approve", "--all", "--reason", "savings", "--yes")) == [
        "no rollout awaits approval"
    ]
    assert controller.http.get("/v1/jobs/shop/streams/clicks/bound").json()["bound_ms"] is not None


@pytest.mark.parametrize(
    ("narrowing", "waits"), [(0, ""), (1, "1 of them would wait: at most 2 streams"), (9, "2 of them would")]
)
def test_a_dry_run_of_all_says_how_many_would_wait_for_the_limit_of_the_fleet(
    narrowing: int, waits: str, capsys: pytest.CaptureFixture[str]
) -> None:
    narrows: dict[str, Any] = {"state": "Published", "direction": "Narrow", "first": False}
    others: list[dict[str, Any]] = [{"direction": "Widen"}, {"first": True}, {"state": "Recommended"}]
    tried = [
        RolloutAnswer.of(rollout(**{**narrows, **change}), "shop", "clicks") for change in ({}, {}, *others)
    ]
    say_turns(tried, Narrowing(streams=narrowing, max_streams=2))
    said = capsys.readouterr().out
    assert said.startswith(waits)
    assert bool(said) == bool(waits)


@pytest.mark.slow
def test_one_that_is_refused_does_not_keep_the_others_from_being_approved(
    controller: Controller, tidemark: Tidemark, monkeypatch: pytest.MonkeyPatch
) -> None:
    ((number, _),) = states(tidemark)
    listed = Client.rollouts

    def with_one_gone(self: Client, *given: Any, **options: Any) -> Iterator[Any]:
        rows = list(listed(self, *given, **options))
        # As when somebody deletes the stream between the list and the approval.
        return iter([*rows, *(replace(row, id=1_000, stream="gone") for row in rows)])

    monkeypatch.setattr(Client, "rollouts", with_one_gone)
    done = tidemark("approve", "--all", "--reason", "savings", "--yes")
    assert done.exit_code == 1
    assert done.stdout.splitlines()[-1] == "approved 1 rollout"
    assert done.stderr.startswith("tidemark: rollout 1000 of shop/gone: ")
    stream = f"/v1/jobs/shop/streams/clicks/rollouts/{number}"
    assert controller.http.get(stream).json()["state"] == "Published"


@pytest.mark.slow
def test_a_rollout_is_discarded_before_it_is_published(tidemark: Tidemark) -> None:
    ((number, _),) = states(tidemark, "shop", "clicks")
    lines = said(tidemark("discard", str(number), "--reason", "too narrow"))
    assert lines[0].endswith(": now Discarded")
    body = line(tidemark("approve", str(number), "--reason", "after all"), 1)
    assert "so it cannot be approved; its veto can be lifted" in body
    assert line(tidemark("rollback", "shop", "clicks", "--reason", "x"), 1) == (
        "tidemark: shop/clicks has no rollout to roll back; `tidemark rollouts --all` lists them"
    )


@pytest.mark.slow
def test_a_stream_is_paused_and_resumed(tidemark: Tidemark) -> None:
    assert said(tidemark("pause", "shop", "clicks", "--reason", "migration")) == [
        "paused shop/clicks: no new rollout starts: migration"
    ]
    assert document(tidemark("policy", "get", "shop", "clicks", "--json"))["paused"] is True
    body = document(tidemark("resume", "shop", "clicks", "--reason", "done", "--json"))
    assert (body["paused"], body["approval"]) == (False, "all")


@pytest.mark.slow
def test_the_reasons_of_one_recommendation_are_all_shown(controller: Controller, tidemark: Tidemark) -> None:
    lines = said(tidemark("rollouts", "shop", "clicks"))
    assert lines[0].startswith("shop/clicks: 60 s in use; narrowing to ")
    assert lines[0].endswith(" is held: a person has to approve it")
    assert lines[1].startswith("  why: 16 s is recommended: 16 s was required in the last 5 min")
    assert lines[1].endswith("; `tidemark why shop clicks --all` has each step")
    assert lines[-3].startswith("  expected effect: ")
    assert lines[-1].split()[:2] == ["1", "shop/clicks"]
    found = document(tidemark("rollouts", "shop", "clicks", "--json"))
    stream = "/v1/jobs/shop/streams/clicks"
    assert found["recommended"] == controller.http.get(stream).json()["recommended"]
    assert found["rollouts"] == controller.http.get(f"{stream}/rollouts").json()["rollouts"]
    (sentence,) = said(tidemark("why", "shop", "clicks"))
    assert sentence.startswith("16 s is recommended: 16 s was required in the last 5 min")
    first, *steps = said(tidemark("why", "shop", "clicks", "--all"))
    assert first == sentence
    assert [line.split()[:3] for line in steps if line.startswith("* ")] == [["*", "narrow", "late"]]
    assert len([line for line in steps if line.startswith(("* ", "  "))]) > len(
        found["recommended"]["steps"]
    ), "each step, under the line of columns"


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[Tidemark]:
    """Run a command against a controller that knows nothing."""
    with Controller(f"sqlite:///{tmp_path / 'empty.db'}") as controller, commands(controller) as found:
        yield found


def test_what_is_not_there_or_makes_no_sense_is_one_line(empty: Tidemark) -> None:
    tidemark = empty
    assert said(tidemark("rollouts")) == ["no rollout is open"]
    assert said(tidemark("rollouts", "--all")) == ["there are no such rollouts"]
    assert said(tidemark("events")) == ["nothing has happened yet"]
    assert "there is no rollout 7; " in line(tidemark("approve", "7", "--reason", "x"), 1)
    assert "--state 'x' is not a state; use one of Recommended, " in line(
        tidemark("rollouts", "--state", "x"), 2
    )
    assert "there is no job 'shop'; no job has reported" in line(
        tidemark("pause", "shop", "clicks", "--reason", "x"), 1
    )
    assert tidemark("approve", "7").exit_code == 2
    for words in ([], ["7", "--all"]):
        assert line(tidemark("approve", *words, "--reason", "x"), 2) == (
            "tidemark: give the number of a ROLLOUT, or --all for those that await approval"
        )
