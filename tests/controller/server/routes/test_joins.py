"""The SLO on a join's output over HTTP and as commands, from the reports that its streams sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from tidemark.controller.tools.cli import app
from tidemark.controller.tools.cli.show import percent
from tidemark.models.base.operators import row_level
from tidemark.models.evidence.joint_needs import JointNeeds
from tidemark.models.protocol.messages import Report, to_json_object
from tidemark.models.recommend.choice import rounded_up
from tidemark.models.recommend.joint_bounds import choose_joint_bounds

from support.controller_app import Controller
from support.reports import START_US, query_reports
from support.served import served
from support.streams import SECOND, Row

pytestmark = pytest.mark.slow

BATCHES, ROWS = 60, 40
JOIN = "/v1/jobs/job/joins/pairs"
SLO = {"streams": ["left", "right"], "target_ppm": 950_000, "confidence_ppm": 900_000}


def side(name: str, trail_s: int, spread_s: float, bound_ms: int) -> list[Report]:
    """Return a minute of reports of one side of a join, a batch a second."""
    dice = np.random.default_rng(len(name))
    batches: list[list[Row]] = [
        [
            ("0", START_US + int((number - trail_s - delay_s) * SECOND))
            for delay_s in dice.exponential(spread_s, ROWS)
        ]
        for number in range(BATCHES)
    ]
    return query_reports(batches, row_level(), bound_ms=bound_ms, granule_us=1_000, stream=name)


LEFT, RIGHT = side("left", 20, 0.5, 1_000), side("right", 0, 8.0, 30_000)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def controller(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Controller]:
    """One query with two streams, of which the right one lacks its last batch."""
    url = f"sqlite:///{tmp_path_factory.mktemp('joins') / 'tidemark.db'}"
    if request.param == "postgresql":
        url = request.getfixturevalue("module_postgres_url")
    with Controller(url) as started:
        started.clock.now_us = START_US + 3_600 * SECOND
        for report in (*LEFT, *RIGHT[:-1]):
            sent = started.http.post(
                f"/v1/jobs/job/streams/{report.stream}/reports", json=to_json_object(report)
            )
            assert sent.status_code == 201, sent.text
        for name in SLO["streams"]:  # type: ignore[attr-defined]  # a list
            put = started.http.put(f"/v1/jobs/job/streams/{name}/slo", json={"target_ppm": 900_000})
            assert put.status_code == 200, put.text
        yield started


def dry_run(controller: Controller, **changes: Any) -> dict[str, Any]:
    put = controller.http.put(JOIN, json={**SLO, **changes}, params={"dryRun": "All"})
    assert put.status_code == 200, put.text
    found: dict[str, Any] = put.json()["state"]
    return found


def test_the_bounds_are_those_that_the_reports_of_both_streams_need_together(controller: Controller) -> None:
    batches = zip(LEFT[:-1], RIGHT[:-1], strict=True)
    needs = JointNeeds.merged(
        JointNeeds.of_batch(both, [report.late_base_ms for report in both]) for both in batches
    )
    expected = choose_joint_bounds(needs, 950_000, 900_000)
    assert expected is not None
    found = dry_run(controller)

    assert [one["stream"] for one in found["sides"]] == ["left", "right"]
    assert [one["bound_ms"] for one in found["sides"]] == [rounded_up(ms) for ms in expected.bounds_ms]
    assert found["common_bound_ms"] == rounded_up(expected.common_ms)
    assert (found["query_id"], found["batches"]) == ("query", BATCHES - 1), "those that both streams reported"
    assert (found["from_us"], found["to_us"]) == (START_US, START_US + (BATCHES - 2) * SECOND)
    assert [one["rows"] for one in found["sides"]] == needs.rows_by_side.tolist()
    assert sum(one["late"] / one["rows"] for one in found["sides"]) <= 0.05


def test_what_is_lost_is_the_sum_of_both_streams_shares_of_late_rows(controller: Controller) -> None:
    found = dry_run(controller)
    shares = [one["late_max"] / one["judged_rows"] for one in found["sides"]]

    assert all(shares)
    assert 0 <= found["lost_max_ppm"] - sum(shares) * 1_000_000 < 1
    assert 0 <= max(shares) * 1_000_000 - found["lost_min_ppm"] < 1
    assert found["remaining_ppm"] == (50_000 - found["lost_max_ppm"]) * 20


def test_the_horizon_limits_what_counts(controller: Controller) -> None:
    found = dry_run(controller, target_ppm=500_000, horizon_ms=10_000)

    assert found["to_us"] - found["from_us"] == 8 * SECOND
    assert found["batches"] == 9


def test_without_bounds_the_answer_says_why(controller: Controller) -> None:
    found = dry_run(controller, target_ppm=999_999)

    assert found["common_bound_ms"] is None
    assert found["provisional_bound_ms"] > dry_run(controller)["common_bound_ms"], "of a far lower target"
    for one in found["sides"]:
        assert one["bound_ms"] is one["late"] is None
        assert one["reason"].startswith(
            "not enough evidence: rows 2,280 of left, 2,280 of right, and at least"
        )


@pytest.fixture
def silent_join(controller: Controller) -> Iterator[str]:
    """The path of another join of the job, before ``pairs`` by name, whose streams have not reported."""
    path, streams = "/v1/jobs/job/joins/expected", ("first", "second")
    for name in streams:
        assert controller.http.put(
            f"/v1/jobs/job/streams/{name}/slo", json={"target_ppm": 900_000}
        ).is_success
    assert controller.http.put(path, json={**SLO, "streams": streams}).is_success
    yield path
    assert controller.http.delete(path, headers={"If-Match": "*"}).is_success


def test_joins_are_listed_by_name_with_what_each_answers_alone(
    controller: Controller, silent_join: str
) -> None:
    assert controller.http.put(JOIN, json=SLO).is_success
    alone = [
        {"join": path.rpartition("/")[2], **controller.http.get(path).json()} for path in (silent_join, JOIN)
    ]
    first = controller.http.get("/v1/jobs/job/joins", params={"limit": 1}).json()
    second = controller.http.get("/v1/jobs/job/joins", params={"cursor": first["next_cursor"]}).json()
    with served(controller.app) as url:
        listed = command(url, "join", "list", "job", "--json")
        table = command(url, "join", "list", "job")
    assert controller.http.delete(JOIN, headers={"If-Match": "*"}).is_success

    assert [*first["joins"], *second["joins"]] == alone
    assert second["next_cursor"] is None
    assert json.loads(listed.stdout) == {"joins": alone}
    _, silent, reported = (line.split() for line in table.stdout.splitlines())
    assert silent == ["expected", "first,", "second", "95", "%", "-", "-"]
    state = alone[1]["state"]
    lost = [
        percent(state["lost_min_ppm"]),
        "to",
        percent(state["lost_max_ppm"]),
        percent(state["remaining_ppm"]),
    ]
    assert reported == ["pairs", "left,", "right", "95", "%", *" ".join(lost).split()]


def test_a_job_without_joins_lists_none_and_an_unknown_job_is_an_error(controller: Controller) -> None:
    none = controller.http.get("/v1/jobs/job/joins")
    unknown = controller.http.get("/v1/jobs/unknown/joins")
    with served(controller.app) as url:
        shown = command(url, "join", "list", "job")

    assert none.json() == {"joins": [], "next_cursor": None}
    assert (unknown.status_code, unknown.json()["type"]) == (404, "urn:tidemark:problem:job-not-found")
    assert shown.stdout == "job job has no joins; set one with tidemark join set\n"


def command(url: str, *arguments: str) -> Result:
    environment = {"TIDEMARK_URL": url, "TIDEMARK_TOKEN": "", "COLUMNS": "200"}
    return CliRunner().invoke(app, arguments, env=environment)


def test_the_commands_set_show_change_and_delete_a_join(controller: Controller) -> None:
    named = ("job", "pairs")
    with served(controller.app) as url:
        options = ("--streams", "left, right", "--target", "0.95", "--confidence", "0.9")
        tried = command(url, "join", "set", *named, *options, "--dry-run", "--json")
        made = command(url, "join", "set", *named, *options, "--reason", "INC-7")
        got = command(url, "join", "get", *named, "--json")
        status = command(url, "status", "job", "left")
        changed = command(url, "join", "set", *named, "--target", "0.9", "--window", "7 days")
        shown = command(url, "join", "get", *named)
        nothing = command(url, "join", "set", *named)
        deleted = command(url, "join", "delete", *named)
        gone = command(url, "join", "get", *named)

    assert json.loads(tried.stdout)["state"] == json.loads(got.stdout)["state"]
    assert made.stdout.startswith(
        "set join pairs of job: 95 % of the pairs at a confidence of 90 %, over 30 d\n"
        "  evidence: 59 batches, 2026-01-01 00:00:00 UTC to 2026-01-01 00:00:58 UTC\n"
        "  lost: "
    )
    for one in json.loads(got.stdout)["state"]["sides"]:
        assert one["reason"] in " ".join(made.stdout.split())
    (needed,) = (line for line in status.stdout.splitlines() if line.startswith("recommended"))
    assert "the joined output of pairs needs" in needed
    assert changed.stdout.startswith(
        "set join pairs of job: 90 % of the pairs at a confidence of 90 %, over 7 d\n"
    )
    assert shown.stdout == changed.stdout.removeprefix("set ")
    assert (nothing.exit_code, "at least one option" in nothing.output) == (2, True)
    assert deleted.stdout.startswith("deleted join pairs of job: 90 % of the pairs")
    assert (gone.exit_code, "has no join 'pairs'" in gone.output) == (1, True)
