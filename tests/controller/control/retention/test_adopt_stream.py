"""A stream that began anew goes on as the one that it was, if a person says so; nothing that was reported is lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tidemark.models.base.operators import Operator, sliding, tumbling
from tidemark.models.protocol.messages import Acknowledgement, to_json_object

from support.controller_app import Controller
from support.reports import TEN_SECONDS, exponential_batches, query_reports
from support.seeded import continued
from support.streams import SECOND

OLD, NEW = "counts.clicks.ts", "sums.clicks.ts"
JOB = "/v1/jobs/job/streams"


def began_anew(controller: Controller) -> None:
    """Let a stream with an SLO and a pin fall silent, and another one begin."""
    runs(controller, OLD, 12, "q1")
    controller.http.put(f"{JOB}/{OLD}/slo", json={"target_ppm": 900_000})
    controller.http.put(f"/v1/pin?job=job&stream={OLD}", json={"to": "Off", "reason": "INC-8"})
    controller.clock.now_us += 3_600 * SECOND
    runs(controller, NEW, 3, "q2")


@pytest.fixture(params=["sqlite", "postgresql"])
def controller(request: pytest.FixtureRequest) -> Iterator[Controller]:
    """One on each kind of database."""
    url = request.getfixturevalue("database_url" if request.param == "sqlite" else "postgres_url")
    with continued(url, told) as found:
        yield found


def told(controller: Controller) -> Controller:
    began_anew(controller)
    return controller


def runs(
    controller: Controller,
    stream: str,
    batches: int,
    query: str,
    operator: Operator = TEN_SECONDS,
    reads: str = "clicks.ts",
) -> None:
    """Let a stream that nobody named report."""
    for number, each in enumerate(query_reports(exponential_batches(batches, 20), operator)):
        started_us = controller.clock.now_us
        report = replace(each, stream=stream, query_id=query, started_us=started_us)
        assert controller.http.post(f"{JOB}/{stream}/reports", json=to_json_object(report)).status_code == 201
        controller.clock.now_us += SECOND
        if number == 0:
            said = Acknowledgement(
                query_id=query,
                run_id="r",
                bound_ms=each.bound_ms,
                generation=None,
                source="job",
                mode="Off",
                applied_us=started_us,
                called=False,
                reads=reads,
            )
            assert controller.http.post(f"{JOB}/{stream}/acks", json=to_json_object(said)).status_code == 201


def status(controller: Controller, stream: str) -> dict[str, Any]:
    answer = controller.http.get(f"{JOB}/{stream}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def asked(controller: Controller, stream: str) -> list[str]:
    conditions = status(controller, stream)["conditions"]
    return [each["detail"] for each in conditions if each["type"] == "AdoptionAsked"]


def test_a_stream_that_began_anew_asks_and_goes_on_with_all_that_the_other_had(
    controller: Controller,
) -> None:
    assert asked(controller, OLD) == []
    (detail,) = asked(controller, NEW)
    assert f"tidemark adopt job {NEW} {OLD}" in detail

    where = f"{JOB}/{NEW}:adopt"
    params = {"former": OLD, "reason": "renamed in release 7"}
    planned = controller.http.post(where, params={**params, "dryRun": "true"}).json()
    assert (planned["reports"], planned["dry_run"]) == (3, True)
    assert asked(controller, NEW)
    done = controller.http.post(where, params=params)
    assert done.status_code == 200, done.text

    now = status(controller, NEW)
    assert now["slo"]["target_ppm"] == 900_000
    assert now["evidence"]["batches"] == 15
    assert now["applied"]["query_id"] == "q2"
    types = {each["type"] for each in now["conditions"]}
    assert "Pinned" in types
    assert not types & {"AdoptionAsked", "CoverageGap", "BatchesRanAgain"}
    assert controller.http.get(f"{JOB}/{OLD}").status_code == 404
    (event,) = controller.http.get(f"{JOB}/{NEW}/events", params={"kind": "StreamAdopted"}).json()["events"]
    assert (event["before"], event["after"], event["reason"]) == (OLD, NEW, params["reason"])
    runs(controller, NEW, 1, "q3")
    assert status(controller, NEW)["evidence"]["batches"] == 16


@pytest.mark.parametrize(
    ("operator", "reads", "is_asked"),
    [
        (TEN_SECONDS, "clicks.ts", True),
        (sliding("10s", "5s"), "clicks.ts", False),
        (tumbling("1 minute"), "clicks.ts", False),
        (TEN_SECONDS, "orders.ts", False),
    ],
    ids=["the-same", "another-operator", "another-window", "another-source"],
)
def test_only_a_stream_with_the_same_source_and_operator_may_be_the_one_that_it_was(
    controller: Controller, operator: Operator, reads: str, is_asked: bool
) -> None:
    controller.clock.now_us += 3_600 * SECOND
    runs(controller, "third", 1, "q4", operator, reads)
    details = asked(controller, "third")
    assert bool(details) == is_asked
    assert all(f"tidemark adopt job third {NEW}" in detail for detail in details)


def test_streams_that_both_report_and_unknown_ones_are_not_one(controller: Controller) -> None:
    runs(controller, OLD, 1, "q3")
    assert asked(controller, NEW) == []
    for former, expected in ((OLD, 409), (NEW, 409), ("nobody", 404)):
        answer = controller.http.post(f"{JOB}/{NEW}:adopt", params={"former": former, "reason": "x"})
        assert answer.status_code == expected, answer.text
    assert status(controller, NEW)["evidence"]["batches"] == 3
