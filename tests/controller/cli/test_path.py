"""A person's path, as the documents show it: each of its commands is run, and prints what stands there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from typer.testing import CliRunner

from tidemark.controller.cli import app
from tidemark.controller.client import Client

from support.controller_app import Controller
from support.docs import document_with
from support.http_job import HttpJob
from support.reports import START_US
from support.served import served

HEADING = "# From an empty database to a verified bound"

COLUMNS = "118"


def steps(text: str) -> list[tuple[str, str]]:
    """Return the lines of the document that do something, each with what stands under it."""
    block = "\n".join(re.findall(r"^```\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    parts = re.split(r"^(?=[$#] )", block, flags=re.MULTILINE)
    return [(line, printed) for line, _, printed in (part.partition("\n") for part in parts) if line]


def run(line: str, job: HttpJob, url: str) -> str:
    """Do what a line of the document says and return what it prints."""
    if line == "$ tidemark serve &":
        return ""  # it runs already, here with a clock that goes with the job's batches
    if line.startswith("# the job starts"):
        job.start()
        return ""
    if line.startswith("# "):
        return ""
    program, *arguments = shlex.split(line.removeprefix("$ "))
    assert program == "tidemark", line
    environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", "COLUMNS": COLUMNS}
    result = CliRunner().invoke(app, arguments, env=environment)
    assert (result.exit_code, result.stderr) == (0, ""), (line, result.output)
    return result.stdout


@contextmanager
def running(database_url: str) -> Iterator[tuple[HttpJob, str]]:
    """Run a controller whose clock the job moves; give the job and the address."""
    with Controller(database_url) as controller:
        controller.clock.now_us = START_US
        with served(controller.app) as url, Client(url, token="") as client:
            yield HttpJob(controller, client), url


@pytest.mark.slow
def test_the_path_of_the_documents_is_what_its_commands_do(database_url: str) -> None:
    text = document_with(f"{HEADING}\n")
    script = steps(text)
    assert len(script) > 10
    with running(database_url) as (job, url):
        for line, printed in script:
            body = run(line, job, url)
            if line != "$ tidemark serve &":
                # Lines may end elsewhere in the document.
                assert body.split() == printed.split(), f"{line}\n{body}"


@pytest.mark.slow
def test_the_path_ends_where_it_should(database_url: str) -> None:
    text = document_with(f"{HEADING}\n")
    with running(database_url) as (job, url):
        for line, _ in steps(text):
            run(line, job, url)
        with Client(url) as tidemark:
            (first,) = (body for body in tidemark.rollouts("shop", "clicks") if body.id == 1)
            events = [event for event in tidemark.events("shop", "clicks") if event.evidence.rollout == 1]
            acknowledged = [body.generation for body in tidemark.acknowledgements("shop", "clicks")]
    assert first.state == "RolledBack"
    path = [
        "Recommended",
        "AwaitingApproval",
        "Approved",
        "Published",
        "Acknowledged",
        "Effective",
        "Verified",
    ]
    assert [event.kind for event in reversed(events)] == [
        f"Rollout{state}" for state in [*path, "RolledBack"]
    ]
    # Started with its own bound, then with the one approved, then with its own again.
    assert [generation is None for generation in acknowledged] == [True, False, True]
