"""``tidemark forget``, ``slo delete`` and ``policy delete``, against a real server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from tidemark.controller.tools.cli import app

from support.controller_app import Controller
from support.reports import exponential_batches, query_reports
from support.served import served

HOUR_US = 3_600_000_000

Tidemark = Callable[..., Result]


@pytest.fixture
def tidemark(controller: Controller) -> Iterator[Tidemark]:
    """Run a command against a controller that knows a stream with an SLO and a policy."""
    controller.put("/slo", {"target_ppm": 900_000})
    controller.put("/policy", {"mode": "OnRestart"})
    controller.report_all(query_reports(exponential_batches(12, 20)))
    with served(controller.app) as url:

        def run(*arguments: str) -> Result:
            return CliRunner().invoke(app, list(arguments), env={"TIDEMARK_URL": url, "TIDEMARK_TOKEN": ""})

        yield run


def said(result: Result) -> str:
    assert result.exit_code == 0, result.output
    return result.stdout


def test_a_stream_is_forgotten_with_a_reason_once_its_job_is_silent_or_somebody_insists(
    controller: Controller, tidemark: Tidemark
) -> None:
    forget = ("forget", "job", "stream", "--reason", "it is retired")
    refused = tidemark(*forget)
    assert refused.exit_code == 1
    assert "still reports" in refused.stderr
    shown = said(tidemark(*forget, "--while-reporting", "--dry-run"))
    assert shown.startswith("would delete job/stream:\n  reports: 12\n")
    controller.clock.now_us += HOUR_US
    assert said(tidemark(*forget)) == shown.replace("would delete", "deleted")
    assert tidemark("forget", "job", "stream", "--reason", "again").exit_code == 1
    assert "StreamDeleted" in said(tidemark("events", "job"))
    controller.report_all(query_reports(exponential_batches(1, 20)))
    body = json.loads(said(tidemark(*forget, "--while-reporting", "--json")))
    assert (body["dry_run"], body["reports"]) == (False, 1)


@pytest.mark.parametrize("what", ["slo", "policy"])
def test_an_slo_and_a_policy_are_deleted(tidemark: Tidemark, what: str) -> None:
    delete = (what, "delete", "job", "stream", "--reason", "a mistake")
    tried = said(tidemark(*delete, "--dry-run"))
    assert tried.startswith(f"would delete the {'SLO' if what == 'slo' else 'policy'} of job/stream: ")
    done = said(tidemark(*delete))
    assert done == tried.replace("would delete", "deleted")
    assert tidemark(*delete).exit_code == 1
    kind = {"slo": "SloDeleted", "policy": "PolicyDeleted"}[what]
    assert f"{kind}" in said(tidemark("events", "job", "stream"))
