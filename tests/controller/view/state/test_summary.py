"""The sentence on what holds now: made anew for each answer, whatever was said when something was published."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tidemark.controller.base.db.tables import RolloutRow
from tidemark.controller.view.state.conditions import conditions_of
from tidemark.controller.view.state.summary import summary_of
from tidemark.models.recommend.steps import DecisionStep, StepKind
from tidemark.models.rollout.states import State
from tidemark.models.specs.pin import PinScope, StoredPin
from tidemark.models.specs.slo import FreezeWindow

from support.controller_app import Controller
from support.policies import at_once
from support.reports import exponential_batches, query_reports
from support.rolled_job import RolledJob
from support.stream_states import NOW_US, stream_state

MINUTE_US = 60_000_000
REQUIRED = DecisionStep(StepKind.QUANTILE, 10_000, "996 of 1,000 rows need at most 10 s")
PIN = StoredPin.on(PinScope("shop"), "Off", "INC-1", NOW_US)
AROUND_NOW = FreezeWindow(days=("Thu",), from_minute=0, to_minute=90)


def summary(**changes: Any) -> str:
    state = stream_state(**{"steps": (REQUIRED,), **changes})
    return summary_of(state, conditions_of(state, None, NOW_US))


def rollout(state: State, reason: str) -> RolloutRow:
    return RolloutRow(
        id=7,
        state=state,
        reason=reason,
        direction="Narrow",
        to_bound_ms=5_000,
        missed_us=None,
        changed_us=NOW_US,
    )


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "the bound in use, 10 s, is the recommended one: 996 of 1,000 rows need at most 10 s"),
        ({"recommended_bound_ms": 9_000}, "9 s is recommended: 996 of 1,000 rows need at most 10 s"),
        (
            {"recommended_bound_ms": 9_000, "mode": "Off"},
            "9 s is recommended: in mode Off nothing is changed; 996",
        ),
        ({"target_ppm": None}, "no SLO is set, so nothing is recommended"),
        ({"recommendation": None}, "no report has been weighed against the SLO yet"),
        ({"pin": PIN, "rollout": rollout("Published", "held")}, "the job is held to its own bound"),
        (
            {"rollout": rollout("Recommended", "held: nothing is narrowed in the freeze until noon")},
            "narrowing to 5 s is held: nothing is narrowed in the freeze until noon",
        ),
        (
            {"rollout": rollout("AwaitingApproval", "a person has to approve it")},
            "narrowing to 5 s is held: a person has to approve it",
        ),
        (
            {"rollout": rollout("Published", "published: the job takes it when it next starts")},
            "narrowing to 5 s is under way: the job takes it when it next starts",
        ),
        ({"rollout": rollout("RolledBack", "an hour ago")}, "the bound in use, 10 s, is the recommended one"),
        ({"freeze_windows": (AROUND_NOW,)}, "the bound in use, 10 s, is the recommended one"),
    ],
)
def test_the_summary_is_about_what_decides_now(changes: dict[str, Any], said: str) -> None:
    assert summary(**changes).startswith(said)


def test_a_bound_that_a_step_holds_is_not_called_right_but_the_step_is_named() -> None:
    held = DecisionStep(
        StepKind.CATCHING_UP, 10_000, "event time lags: the bound in use, 10 s, is not narrowed"
    )
    last = DecisionStep(StepKind.DEAD_BAND, 10_000, "it is the bound in use already")
    narrower = DecisionStep(StepKind.QUANTILE, 4_000, "996 of 1,000 rows need at most 4 s")
    said = summary(steps=(narrower, held, last))
    assert said == f"the bound in use, 10 s, stays: {narrower.reason}; {held.reason}"


def test_what_was_said_of_a_bound_when_it_was_published_is_not_said_of_it_a_quarter_of_an_hour_later(
    controller: Controller,
) -> None:
    controller.report_all(query_reports(exponential_batches(24, 50, slow=3)))
    controller.clock.now_us += 3 * MINUTE_US
    controller.put("/slo", {"target_ppm": 900_000})
    controller.put("/policy", at_once())
    controller.tick()
    published = controller.status()["published"]
    assert published["generation"] > 0
    at_us = controller.clock.now_us

    controller.clock.now_us += 15 * MINUTE_US
    controller.tick()
    status = controller.status()
    assert status["summary"].startswith("no report for 18 min")
    assert status["published"]["published_us"] <= at_us
    steps = status["recommended"].pop("steps")
    assert "no report for 3 min" not in json.dumps(status), "it was so when the bound was decided"
    (silent,) = (step["reason"] for step in steps if step["kind"] == "NoData")
    assert silent.startswith("no report for 3 min when this was decided")


@pytest.mark.slow
def test_a_bound_that_is_not_published_yet_gives_no_reason_that_passes(controller: Controller) -> None:
    """The reason is kept until the next generation; what it waits for is the summary's."""
    job = RolledJob(controller)
    job.put("slo", {"target_ppm": 990_000})
    job.run(8, 5)
    job.put("policy", {"mode": "OnRestart", "approval": "none"})
    first = job.status()
    assert (first["published"]["generation"], first["published"]["bound_ms"]) == (1, None)
    assert first["published"]["reason"] == "no bound is published yet"
    assert first["summary"] == first["provisional_bound"]["text"]
    job.run(12, 5)
    later = job.status()
    assert later["published"]["reason"] == "no bound is published yet"
    assert later["summary"] != first["summary"]
