"""Bounds for all streams of a query together, over HTTP and as a command, from the reports that its streams sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from tidemark.controller.cli import app
from tidemark.models.joint_bounds import choose_joint_bounds
from tidemark.models.joint_needs import JointNeeds
from tidemark.models.operators import row_level
from tidemark.models.recommend.rounding import rounded_up
from tidemark.models.wire import Report, to_json_object

from support.controller_app import Controller
from support.reports import START_US, query_reports
from support.served import served
from support.streams import SECOND, Row

BATCHES, ROWS = 60, 40


def side(name: str, trail_s: int, spread_s: float, **changes: Any) -> list[Report]:
    """Return a minute of reports of one side of a join, a batch a second."""
    dice = np.random.default_rng(len(name))
    batches: list[list[Row]] = [
        [
            ("0", START_US + int((number - trail_s - delay_s) * SECOND))
            for delay_s in dice.exponential(spread_s, ROWS)
        ]
        for number in range(BATCHES)
    ]
    return query_reports(batches, row_level(), granule_us=1_000, stream=name, **changes)


LEFT, RIGHT = side("left", 20, 0.5), side("right", 0, 8.0)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def controller(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """One query with two streams, of which the right one lacks its last batch, and another query."""
    url = f"sqlite:///{tmp_path_factory.mktemp('joint') / 'tidemark.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("module_postgres_url")
    with Controller(url) as started:
        started.clock.now_us = START_US + 3_600 * SECOND
        for report in (*LEFT, *RIGHT[:-1], *side("alone", 0, 1, query_id="another")):
            sent = started.http.post(
                f"/v1/jobs/job/streams/{report.stream}/reports", json=to_json_object(report)
            )
            assert sent.status_code == 201, sent.text
        yield started


def answer(controller: Controller, stream: str, **params: Any) -> dict[str, Any]:
    got = controller.http.get(f"/v1/jobs/job/streams/{stream}/joint-bounds", params=params)
    assert got.status_code == 200, got.text
    found: dict[str, Any] = got.json()
    return found


def test_the_bounds_are_those_that_the_reports_of_both_streams_need_together(controller: Controller) -> None:
    batches = zip(LEFT[:-1], RIGHT[:-1], strict=True)
    needs = JointNeeds.merged(
        JointNeeds.of_batch(both, [report.late_base_ms for report in both]) for both in batches
    )
    expected = choose_joint_bounds(needs, 950_000, 900_000)
    assert expected is not None
    found = answer(controller, "right", target_ppm=950_000, confidence_ppm=900_000)

    assert [one["stream"] for one in found["sides"]] == ["left", "right"]
    assert [one["bound_ms"] for one in found["sides"]] == [rounded_up(ms) for ms in expected.bounds_ms]
    assert found["common_bound_ms"] == rounded_up(expected.common_ms)
    assert found["batches"] == BATCHES - 1, "those that both streams reported"
    assert (found["from_us"], found["to_us"]) == (START_US, START_US + (BATCHES - 2) * SECOND)
    assert [one["rows"] for one in found["sides"]] == needs.rows_by_side.tolist()
    assert sum(one["late"] / one["rows"] for one in found["sides"]) <= 0.05
    assert found == answer(controller, "left", target_ppm=950_000, confidence_ppm=900_000)


def test_the_horizon_limits_what_counts(controller: Controller) -> None:
    found = answer(controller, "left", target_ppm=500_000, horizon_ms=10_000)

    assert found["batches"] == 9
    assert found["to_us"] - found["from_us"] == 8 * SECOND


@pytest.mark.parametrize(
    ("stream", "target_ppm", "reason"),
    [
        ("left", 999_999, "not enough evidence: 2,280 of at least"),
        ("alone", 900_000, "no other stream of the job is of its query"),
    ],
)
def test_without_bounds_the_answer_says_why(
    controller: Controller, stream: str, target_ppm: int, reason: str
) -> None:
    found = answer(controller, stream, target_ppm=target_ppm)

    assert found["common_bound_ms"] is None
    assert all(one["bound_ms"] is None and one["reason"].startswith(reason) for one in found["sides"])


def command(controller: Controller, *arguments: str) -> Result:
    with served(controller.app) as url:
        environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", "COLUMNS": "200"}
        return CliRunner().invoke(app, ["joint", "job", *arguments], env=environment)


def test_the_command_shows_the_answer(controller: Controller) -> None:
    found = answer(controller, "left", target_ppm=950_000, confidence_ppm=900_000)
    shown = command(controller, "left", "--target", "0.95", "--confidence", "0.9")
    asked = command(controller, "left", "--target", "0.95", "--confidence", "0.9", "--json")

    assert json.loads(asked.stdout) == found
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.startswith("query query, 59 batches of 2026-01-01 00:00:00 UTC to")
    for side in found["sides"]:
        assert side["reason"] in " ".join(shown.stdout.split())
    assert "one bound for all would be" in shown.stdout


def test_a_stream_without_reports_has_none(controller: Controller) -> None:
    assert controller.put("/slo", {"target_ppm": 900_000}).status_code == 200
    found = answer(controller, "stream", target_ppm=900_000)

    assert (found["query_id"], found["batches"], found["from_us"]) == (None, 0, None)
