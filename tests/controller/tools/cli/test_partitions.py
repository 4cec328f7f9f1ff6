"""``tidemark partitions``: the most costly first, in words and as JSON."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner, Result

from tidemark.controller.tools.cli import app

from support.controller_app import Controller
from support.reports import exponential_batches, query_reports
from support.served import served


def run(controller: Controller, *arguments: str) -> Result:
    with served(controller.app) as url:
        environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", "COLUMNS": "200"}
        return CliRunner().invoke(app, ["partitions", *arguments], env=environment)


def test_the_partition_that_costs_most_comes_first_with_a_sentence(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 950_000})
    controller.report_all(query_reports(exponential_batches(40, 200, slow=3)))
    controller.snapshot()
    body = run(controller, "job", "stream")
    assert body.exit_code == 0, body.output
    lines = body.stdout.splitlines()
    assert lines[1].split()[:3] == ["3", "Behind,", "skewed"]
    assert lines[-1].startswith("partition '3' costs ")
    found = json.loads(run(controller, "job", "stream", "--json").stdout)["partitions"]
    assert [row["skewed"] for row in found] == [True, False, False, False]
    costs = [row["costs_ms"] for row in found]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.slow
def test_a_stream_without_partitions_and_an_unknown_stream_give_one_line(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 950_000})
    assert "no partition of job/stream is known yet" in run(controller, "job", "stream").stdout
    unknown = run(controller, "job", "other")
    assert unknown.exit_code == 1
    assert "nothing is known of stream 'other'" in unknown.stderr
