"""Drivers and controllers a release apart: readers ignore what they do not know, what is missing has a default."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args, get_type_hints

import httpx
import pytest

from tidemark.controller.server.http.authorize import need_of
from tidemark.models.base.ranges import WIRE
from tidemark.models.base.read_json import read_object
from tidemark.models.evidence.late_counts import LateCounts
from tidemark.models.protocol.messages import Acknowledgement, BoundAnswer, Report, to_json_object
from tidemark.spark_jobs.core.bound import BoundCache, OwnBounds, choose_bound_at_start
from tidemark.spark_jobs.core.client import ControllerClient
from tidemark.spark_jobs.core.watch import BoundWatch

from support.controller_app import STREAM, Controller
from support.job_settings import read_settings
from support.other_releases import DOCUMENT, OtherRelease, with_unknown, without_optional
from support.patience import PATIENCE_S
from support.policies import at_once
from support.reports import exponential_batches, query_reports

REPORTS = query_reports(exponential_batches(120, 40))


def of_drivers() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield method, path and description of each operation that a driver calls."""
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            need = need_of(operation["operationId"])
            if need is not None and "job" in need.roles and operation["operationId"] != "getCaller":
                yield method.upper(), path, operation


SENT = {
    operation["operationId"]: (path, operation["requestBody"]["content"]["application/json"])
    for method, path, operation in of_drivers()
    if "requestBody" in operation
}


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    with Controller(f"sqlite:///{tmp_path / 'tidemark.db'}") as running:
        yield running


def post(controller: Controller, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    names = {name: body.get(name, name) for name in ("job", "stream")}
    answer = controller.http.post(path.format(**names), json=body)
    return answer.status_code, answer.json()


@pytest.mark.parametrize("operation", SENT)
def test_a_controller_ignores_what_a_later_driver_adds_to_any_object(
    controller: Controller, operation: str
) -> None:
    """What is left is the same: sent again without it, it changes nothing."""
    path, content = SENT[operation]
    assert post(controller, path, with_unknown(content["example"]))[0] == 201
    status, receipt = post(controller, path, content["example"])
    assert (status, receipt.get("duplicate", True)) == (200, True)


@pytest.mark.parametrize("operation", SENT)
def test_a_controller_takes_what_an_earlier_driver_does_not_send(
    controller: Controller, operation: str
) -> None:
    path, content = SENT[operation]
    assert post(controller, path, without_optional(content["example"], content["schema"]))[0] == 201


def parts_of(kind: Any) -> Iterator[type]:
    """Yield the dataclasses that stand in a type, and in their fields."""
    if dataclasses.is_dataclass(kind):
        assert isinstance(kind, type)
        yield kind
        hints = get_type_hints(kind)
        for field in dataclasses.fields(kind):
            yield from parts_of(hints[field.name])
    for part in get_args(kind):
        yield from parts_of(part)


@pytest.mark.parametrize("kind", [Report, Acknowledgement, LateCounts, BoundAnswer])
def test_no_part_of_what_goes_over_the_wire_refuses_unknown_fields(kind: type) -> None:
    """Operators have no configuration of their own: they take that of what they stand in."""
    found = set(parts_of(kind))
    assert len(found) > 1
    closed = {part for part in found if getattr(part, "__pydantic_config__", WIRE) is not WIRE}
    assert closed == set()


def test_what_a_person_writes_is_still_refused_with_the_name_of_the_slip(controller: Controller) -> None:
    answer = controller.put("/slo", {"target_ppm": 900_000, "latency_cap": 5_000})
    assert answer.status_code == 422
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/latency_cap"]


def asked_by(client: ControllerClient) -> list[Any]:
    """Return what a driver learns from its controller."""
    query_id = REPORTS[0].query_id
    answer, etag = client.watch("job", "stream", None, 0) or (None, None)
    assert etag is not None
    client.report(REPORTS[-1])
    acknowledged = SENT["postAcknowledgement"][1]["example"]
    client.acknowledge("job", "stream", read_object(Acknowledgement, acknowledged))
    client.late_rows("job", "stream", json.dumps(SENT["postLateRows"][1]["example"]))
    reports, _ = client.sent_reports("job", "stream", 100)
    return [
        client.bound("job", "stream"),
        answer,
        client.missing_batches("job", "stream", query_id, 0),
        reports,
    ]


def test_a_driver_reads_every_answer_of_a_later_controller_as_that_of_its_own(controller: Controller) -> None:
    controller.put("/policy", at_once(mode="Live"))
    controller.put("/slo", {"target_ppm": 900_000})
    controller.report_all(report for report in REPORTS[:-1] if report.batch_id != 7)
    controller.tick()
    transport = OtherRelease(controller.http._transport)
    plain = ControllerClient(
        "http://testserver", transport=httpx.MockTransport(controller.http._transport.handle_request)
    )
    later = ControllerClient("http://testserver", transport=transport)
    known = asked_by(plain)
    assert asked_by(later) == known
    bound, _, gaps, reports = known
    assert bound.envelope is not None
    assert (gaps.ranges, len(reports)) == ([(7, 7)], 100)
    called = {line.replace("/v1/jobs/job/streams/stream", "") for line in transport.asked}
    wanted = {
        f"{method} {path}".replace("/v1/jobs/{job}/streams/{stream}", "") for method, path, _ in of_drivers()
    }
    assert called == wanted, "every operation of a driver is tried"


# -- values that a release does not know ------------------------------------------------------------------------------


ANSWER = BoundAnswer(job="j", stream="s", mode="Restart", generation=3, bound_ms=1_500, reason="because")


@pytest.mark.parametrize(
    ("changes", "bound_ms", "said"),
    [
        ({"mode": "Auto"}, 60_000, "mode 'Auto' is of a later release: the job keeps its own bound"),
        ({"pin": "Floor"}, 90_000, "pin 'Floor' is of a later release: the job is held to its ceiling"),
        ({"mode": "Auto", "pin": "Floor"}, 60_000, "mode 'Auto' is of a later release"),
    ],
)
def test_a_driver_fails_open_for_a_mode_and_a_pin_that_it_does_not_know_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, changes: dict[str, str], bound_ms: int, said: str
) -> None:
    """From the wire, and from what a later driver left on disk."""
    answers = httpx.MockTransport(lambda _: httpx.Response(200, json={**to_json_object(ANSWER), **changes}))
    client = ControllerClient("http://controller", transport=answers)
    settings = read_settings(dict[str, str]().get, job="j", stream="s", cache_dir=tmp_path)
    start = partial(choose_bound_at_start, settings, OwnBounds(60_000, 90_000))
    chosen = start(client).chosen
    assert (chosen.bound_ms, chosen.source) == (bound_ms, "job")
    assert [record.levelname for record in caplog.records if said in record.getMessage()] == ["WARNING"]
    (path,) = tmp_path.rglob("*.json")
    path.write_text(json.dumps({**to_json_object(ANSWER), **changes}))
    away = ControllerClient("http://controller", transport=httpx.MockTransport(lambda _: httpx.Response(502)))
    chosen = start(away).chosen
    assert (chosen.bound_ms, chosen.source) == (bound_ms, "job")


def test_a_watch_goes_on_after_a_mode_that_it_does_not_know(tmp_path: Path) -> None:
    given = [
        {**to_json_object(ANSWER), "mode": "Auto"},
        {**to_json_object(ANSWER), "generation": 4, "of_a_later_release": 1},
    ]
    transport = httpx.MockTransport(
        lambda _: httpx.Response(200, json=given.pop(0)) if given else httpx.Response(502)
    )
    client = ControllerClient("http://controller", transport=transport)
    seen = threading.Event()
    watch = BoundWatch(client, "j", "s", BoundCache(tmp_path), sleep=lambda _: seen.wait(PATIENCE_S))
    watch.start()
    first = watch.wait_for(None, PATIENCE_S)
    seen.set()
    second = watch.wait_for(3, PATIENCE_S)
    watch.close()
    assert first is not None
    assert first.mode == "Off"
    assert second == dataclasses.replace(ANSWER, generation=4)


def test_a_controller_takes_an_acknowledgement_with_values_that_it_does_not_know(
    controller: Controller,
) -> None:
    """They are read as those that claim nothing; a rollout is acknowledged all the same."""
    sent = {
        **SENT["postAcknowledgement"][1]["example"],
        "mode": "Auto",
        "source": "volume",
        "late": {"in_force": "park", "choices": ["park", "drop", "side", "hold"]},
    }
    assert controller.http.post(STREAM + "/acks", json=sent).status_code == 201
    (kept,) = controller.get("/acks").json()["acknowledgements"]
    assert (kept["mode"], kept["source"], kept["generation"]) == ("Off", "job", sent["generation"])


@pytest.mark.parametrize(("name", "value"), [("mode", 3), ("query_id", 3), ("source", None)])
def test_what_is_no_text_is_not_taken_for_a_value_of_a_later_release(
    controller: Controller, name: str, value: object
) -> None:
    sent = {**SENT["postAcknowledgement"][1]["example"], "mode": "Auto", name: value}
    answer = controller.http.post(STREAM + "/acks", json=sent)
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, f"/{name}")


@pytest.mark.parametrize(("name", "value"), [("output_mode", "upsert"), ("closed", "both")])
def test_a_value_that_decides_what_is_counted_is_refused_with_those_that_are_known(
    controller: Controller, name: str, value: str
) -> None:
    """A later release that has it sends a new version of the schema."""
    sent = {**to_json_object(REPORTS[0]), name: value}
    answer = controller.http.post(STREAM + "/reports", json=sent)
    assert answer.status_code == 422
    assert "or '" in answer.json()["errors"][0]["detail"]


@pytest.mark.parametrize("operation", ["postReport", "postLateRows"])
def test_only_a_new_version_of_the_schema_is_refused_and_in_words(
    controller: Controller, operation: str
) -> None:
    path, content = SENT[operation]
    status, problem = post(controller, path, {**with_unknown(content["example"]), "schema_version": 9})
    assert (status, problem["type"]) == (422, "urn:tidemark:problem:unknown-schema-version")
    assert problem["detail"].endswith("update this controller")
