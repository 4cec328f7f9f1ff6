"""What the policy says of late rows: the job gets it with what it asks anyway, and the status says what is in force."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from click.testing import CliRunner

from tidemark.controller.tools.cli import app
from tidemark.models.protocol.late_policy import DROPPED, REVISED, LateTreatment
from tidemark.models.protocol.messages import Acknowledgement

from support.controller_app import Controller
from support.reports import START_US, query_reports
from support.served import served

REPORT = query_reports([[("0", START_US)]])[0]
SWITCHABLE = LateTreatment(in_force="side", choices=("drop", "side"))


@pytest.fixture
def controller(either: Controller) -> Controller:
    return either


def acknowledge(controller: Controller, late: LateTreatment, after_s: int = 0) -> None:
    applied = Acknowledgement(
        query_id="query",
        run_id="run",
        bound_ms=5_000,
        generation=None,
        source="job",
        mode="Off",
        applied_us=START_US + after_s * 1_000_000,
        late=late,
    )
    assert controller.acknowledge(applied).status_code == 201


def says(controller: Controller) -> Any:
    """Return what a job is answered that asks for the batches that lack a report."""
    return controller.get("/missing", params={"query_id": "query"}).json()["late"]


def unfollowed(controller: Controller) -> list[str]:
    conditions = controller.status()["conditions"]
    return [each["detail"] for each in conditions if each["type"] == "LatePolicyNotFollowed"]


def test_a_job_gets_what_the_policy_says_and_the_status_what_the_job_does(controller: Controller) -> None:
    assert says(controller) is None, "the stream is not known"
    controller.report_all([REPORT])
    acknowledge(controller, SWITCHABLE)
    assert says(controller) is None
    assert controller.status()["late"] == {
        "policy": None,
        "in_force": "side",
        "choices": ["drop", "side"],
        "text": "side, by the job's call",
    }
    assert controller.put("/policy", {"late": "drop"}).json()["late"] == "drop"
    assert says(controller) == "drop"
    asked = "side; the policy says drop, which the job has not acknowledged yet"
    assert controller.status()["late"]["text"] == asked

    acknowledge(controller, replace(SWITCHABLE, in_force="drop"), after_s=1)
    assert controller.status()["late"]["text"] == "drop, by the policy"
    assert unfollowed(controller) == []
    controller.put("/policy", {})
    assert says(controller) is None


@pytest.mark.parametrize(
    ("late", "because"),
    [
        (DROPPED, "it needs late=side(...) in its call, or spark.tidemark.late.folder"),
        (REVISED, "late=revise(...), which is part of the plan"),
    ],
    ids=["no side", "revise"],
)
def test_a_policy_that_the_job_cannot_follow_is_a_condition_with_what_to_do(
    controller: Controller, late: LateTreatment, because: str
) -> None:
    controller.report_all([REPORT])
    controller.put("/policy", {"late": "side"})
    assert unfollowed(controller) == [], "the job has acknowledged nothing yet"
    acknowledge(controller, late)
    (detail,) = unfollowed(controller)
    assert detail.startswith("the policy says side, and ")
    assert because in detail
    assert controller.status()["late"]["text"].endswith("which the job cannot follow")
    controller.put("/policy", {})
    assert unfollowed(controller) == []


def test_the_command_sets_it_leaves_the_rest_and_takes_it_back(controller: Controller) -> None:
    controller.put("/policy", {"mode": "OnRestart", "late": "side"})
    acknowledge(controller, SWITCHABLE)

    def tidemark(*arguments: str) -> str:
        result = CliRunner().invoke(app, [*arguments, "--url", url])
        assert result.exit_code == 0, result.output
        return result.stdout

    with served(controller.app) as url:
        tidemark("policy", "set", "job", "stream", "--late", "drop")
        assert says(controller) == "drop"
        assert "late  " in tidemark("policy", "get", "job", "stream")
        words = " ".join(tidemark("status", "job", "stream").split())
        assert "late rows side; the policy says drop, which the job has not acknowledged yet" in words
        tidemark("policy", "set", "job", "stream", "--late", "call")
    policy = controller.get("/policy").json()
    assert (policy["late"], policy["mode"]) == (None, "OnRestart")


def test_only_what_the_job_can_do_is_in_force() -> None:
    with pytest.raises(ValueError, match="none of the choices"):
        LateTreatment(in_force="revise", choices=("drop", "side"))
