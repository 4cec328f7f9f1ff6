"""What an SLO and a policy accept, what they say when nothing is set, and who may replace them."""

from __future__ import annotations

from typing import Any

import pytest

from support.controller_app import Controller
from support.policies import at_once
from support.reports import exponential_batches, query_reports

TARGET = {"target_ppm": 900_000}


def test_an_slo_reads_back_as_it_was_set_with_its_defaults(controller: Controller) -> None:
    answer = controller.put("/slo", {"target_ppm": 995_000})
    assert answer.status_code == 200
    assert answer.headers["etag"].startswith('"1-')
    read = controller.get("/slo").json()
    assert (read["target_ppm"], read["horizon_ms"]) == (995_000, None)


@pytest.mark.parametrize(
    ("body", "pointer", "sentence"),
    [
        ({"target_ppm": 0.995}, "/target_ppm", 'a whole number, not 0.995; or write target, such as "99.5%"'),
        ({"target_ppm": "0.995"}, "/target_ppm", "a whole number, not '0.995'"),
        ({"target_ppm": True}, "/target_ppm", "a whole number, not True"),
        ({"target_ppm": 1_000_000}, "/target_ppm", "less than 1,000,000, not 1000000"),
        ({"target_ppm": 0}, "/target_ppm", "greater than 0"),
        ({"target_ppm": None}, "/target_ppm", "a whole number, not null"),
        ({}, "/target_ppm", "it is missing"),
        ({"target_ppm": 900_000, "target": "0.9"}, "/target", "target_ppm says the same"),
        ({"target": "99.5"}, "/target", "in percent write '99.5%'"),
        ({"target_ppm": 900_000, "targets": "99.5%"}, "/targets", "did you mean 'target'?"),
        ({"target_ppm": 900_000, "reason": "so"}, "/reason", "say it in the query, reason=..."),
        (
            {"target_ppm": 900_000, "latency_cap_ms": 2**53 + 1},
            "/latency_cap_ms",
            "at most 9,007,199,254,740,992",
        ),
        ({"target_ppm": 900_000, "latency_cap_ms": -1}, "/latency_cap_ms", "at least 0, not -1"),
        ({"target_ppm": 900_000, "latency_cap_ms": 1.5}, "/latency_cap_ms", "a whole number"),
        ({"target_ppm": 900_000, "on_conflict": "both"}, "/on_conflict", "'miss_target'"),
        (
            {"target_ppm": 900_000, "horizon": 1},
            "/horizon",
            "1 has no unit; write it like '12 h', or as horizon_ms",
        ),
    ],
    ids=str,
)
def test_a_bad_slo_is_refused_with_a_clear_sentence(
    untouched: Controller, body: dict[str, Any], pointer: str, sentence: str
) -> None:
    answer = untouched.put("/slo", body)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert error["pointer"] == pointer
    assert sentence in error["detail"]
    assert untouched.get("/slo").status_code == 404


@pytest.mark.parametrize("what", ["slo", "policy"])
def test_if_match_lets_only_the_current_version_be_replaced(controller: Controller, what: str) -> None:
    bodies: list[Any] = [TARGET, {"target_ppm": 800_000}, {"target_ppm": 700_000}]
    if what == "policy":
        bodies = [{"min_bound_ms": number} for number in (1, 2, 3)]
    absent = controller.put(f"/{what}", bodies[0], headers={"If-Match": '"1"'})
    assert (absent.status_code, absent.json()["type"]) == (412, "urn:tidemark:problem:precondition-failed")
    assert controller.get().status_code == 404
    first = controller.put(f"/{what}", bodies[0]).headers["etag"]
    second = controller.put(f"/{what}", bodies[1], headers={"If-Match": first}).headers["etag"]
    assert controller.put(f"/{what}", bodies[2], headers={"If-Match": first}).status_code == 412
    third = controller.put(f"/{what}", bodies[2], headers={"If-Match": f'"7", {second}'}).headers["etag"]
    assert [each.partition("-")[0] for each in (first, second, third)] == ['"1', '"2', '"3']
    assert controller.put(f"/{what}", bodies[2]).headers["etag"] == third
    assert controller.get(f"/{what}").headers["etag"] == third


@pytest.mark.parametrize("mode", ["Off", "OnRestart", "Restart", "Live"])
def test_a_stream_that_has_acknowledged_nothing_takes_every_mode(controller: Controller, mode: str) -> None:
    answer = controller.put("/policy", at_once(mode))
    assert (answer.status_code, answer.json()["mode"]) == (200, mode)
    assert controller.get("/bound").json()["mode"] == mode


def test_a_mode_that_there_is_not_is_refused_and_says_which_there_are(controller: Controller) -> None:
    answer = controller.put("/policy", at_once("Auto"))
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"pointer": "/mode", "detail": "it must be 'Off', 'OnRestart', 'Restart' or 'Live', not 'Auto'"}
    ]


def test_an_empty_range_of_bounds_is_refused_and_the_default_policy_only_watches(
    controller: Controller,
) -> None:
    assert controller.put("/policy", {"min_bound_ms": 9, "max_bound_ms": 8}).status_code == 422
    controller.report(query_reports(exponential_batches(1, 8))[0])
    assert controller.get("/policy").json() == {
        "mode": "Off",
        "min_bound_ms": 0,
        "max_bound_ms": None,
        "directions": ["Widen", "Narrow"],
        "margin_ppm": 0,
        "cooldown_ms": 3_600_000,
        "max_narrowings_a_day": None,
        "max_narrowing_ppm": 500_000,
        "evidence_ms": 36_000_000,
        "evidence_windows": 100,
        "freeze_windows": [],
        "paused": False,
        "on_no_data": "hold",
        "approval": "first",
        "gates": [],
        "late": None,
        "labels": {},
        "generation": 0,
        "updated_us": None,
    }


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ({"severity": "page"}, "'severity' is a label that alerts and metrics have of their own"),
        ({"a-b": "x"}, "'a-b' cannot be the name of a label"),
        ({"__name__": "x"}, "'__name__' cannot be the name of a label"),
        ({"team": ""}, "at least 1 character"),
        ({"team": 1}, "a text, not 1"),
        ({f"l{number}": "x" for number in range(11)}, "at most 10 entries"),
    ],
)
def test_a_label_that_cannot_be_one_is_refused_with_the_reason(
    controller: Controller, labels: dict[str, object], problem: str
) -> None:
    answer = controller.put("/policy", {"labels": labels})
    assert answer.status_code == 422
    assert problem in answer.json()["detail"]
    assert controller.put("/policy", {"labels": {"team": "web"}}).json()["labels"] == {"team": "web"}
