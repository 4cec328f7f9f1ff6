"""The emitter against a real receiver: what it sends and when, and that nothing waits for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tidemark.controller.base.settings import Settings
from tidemark.controller.view.lineage.events import FACET
from tidemark.controller.view.state.overviews import WINDOWS_US
from tidemark.models.protocol.datasets import Datasets
from tidemark.models.protocol.messages import Acknowledgement

from support.controller_app import Controller
from support.lineage import facet_of, problems
from support.reports import START_US, exponential_batches, query_reports
from support.streams import SECOND
from support.tokens import make_token
from support.webhook import Webhook, running_webhook

pytestmark = pytest.mark.slow

REPORTS = query_reports(exponential_batches(420, 100), bound_ms=20_000)
TOPIC = "kafka://broker:9092/clicks"


@pytest.fixture
def receiver() -> Iterator[Webhook]:
    with running_webhook() as running:
        yield running


@pytest.fixture
def emitting(database_url: str, receiver: Webhook) -> Iterator[Controller]:
    with Controller(database_url, openlineage_url=receiver.url, public_url="https://t") as controller:
        controller.service.decider.leases.keep(now=True)
        yield controller


def tick(controller: Controller) -> None:
    controller.clock.now_us += WINDOWS_US
    controller.snapshot()
    assert controller.service.lineage is not None
    controller.service.lineage.tick()


def acknowledge(controller: Controller, run_id: str = REPORTS[0].run_id) -> None:
    acknowledged = Acknowledgement(
        query_id=REPORTS[0].query_id,
        run_id=run_id,
        bound_ms=20_000,
        generation=None,
        source="job",
        mode="Off",
        applied_us=START_US - SECOND,
        datasets=Datasets(inputs=(TOPIC,), output="file:/lake/clicks"),
    )
    assert controller.acknowledge(acknowledged).status_code == 201


def counted(controller: Controller, name: str) -> float:
    return controller.service.registry.get_sample_value(f"tidemark_lineage_{name}_total") or 0.0


def at(time_us: int) -> str:
    return datetime.fromtimestamp(time_us // SECOND, UTC).isoformat()


def states(receiver: Webhook) -> list[str]:
    return [event["eventType"] for event in receiver.messages]


def test_a_run_starts_and_goes_on_with_each_window_that_closes_or_settles(
    emitting: Controller, receiver: Webhook
) -> None:
    acknowledge(emitting)
    emitting.report_all(REPORTS[:400])
    tick(emitting)
    assert states(receiver) == ["START", "RUNNING"]
    began, goes_on = receiver.messages
    assert began["eventTime"] == "2025-12-31T23:59:59+00:00"
    assert facet_of(began) is None
    facet = facet_of(goes_on)
    assert facet is not None
    assert problems(facet) == []
    page = emitting.get("/windows").json()["windows"]
    closed = next(window for window in page if window["state"] == "Closed")
    assert facet["closedWindowEnd"] == at(closed["end_us"])
    assert facet["settledWindowEnd"] == at(
        next(window["end_us"] for window in page if window["estimate"] and window["estimate"]["settled"])
    )
    # Nothing new: neither without a report, nor with one that closes no window.
    tick(emitting)
    emitting.report_all(REPORTS[400:401])
    tick(emitting)
    assert states(receiver) == ["START", "RUNNING"]
    emitting.report_all(REPORTS[401:])
    tick(emitting)
    assert states(receiver) == ["START", "RUNNING", "RUNNING"]
    assert counted(emitting, "events") == 3
    assert {event["run"]["runId"] for event in receiver.messages} == {began["run"]["runId"]}


def test_another_run_starts_anew(emitting: Controller, receiver: Webhook) -> None:
    acknowledge(emitting)
    emitting.report_all(REPORTS[:200])
    tick(emitting)
    acknowledge(emitting, "another run")
    emitting.report_all([replace(REPORTS[200], run_id="another run")])
    tick(emitting)
    assert states(receiver) == ["START", "RUNNING", "START", "RUNNING"]
    first, second = (event["run"]["runId"] for event in receiver.messages[::2])
    assert first != second


def test_without_an_acknowledgement_the_run_begins_with_what_was_reported(
    emitting: Controller, receiver: Webhook
) -> None:
    emitting.report_all(REPORTS[:5])
    tick(emitting)
    assert states(receiver) == ["START", "RUNNING"]
    assert all(event["inputs"] == event["outputs"] == [] for event in receiver.messages)


def test_a_receiver_that_is_away_holds_nothing_up_and_gets_the_newest_when_it_is_back(
    database_url: str,
) -> None:
    with running_webhook() as gone:
        pass
    with Controller(database_url, openlineage_url=gone.url) as controller:
        controller.service.decider.leases.keep(now=True)
        acknowledge(controller)
        controller.report_all(REPORTS[:300])
        tick(controller)
        assert (counted(controller, "events"), counted(controller, "failures")) == (0, 1)
        assert controller.report(REPORTS[300]).status_code == 201
        controller.tick()
        with running_webhook(int(gone.url.split(":")[2].split("/")[0])) as back:
            tick(controller)
        newest = controller.get("/windows", params={"state": "Closed"}).json()["windows"][0]["end_us"]
        assert states(back) == ["START", "RUNNING"]
        assert back.messages[1]["outputs"][0]["facets"][FACET]["closedWindowEnd"] == at(newest)


def test_what_is_refused_of_one_stream_holds_no_other_one_up(emitting: Controller, receiver: Webhook) -> None:
    for stream in ("one", "two"):
        emitting.report_all([replace(report, stream=stream) for report in REPORTS[:5]])
    receiver.answers = [422]
    tick(emitting)
    assert [event["job"]["name"] for event in receiver.messages] == ["job.two"] * 2
    assert counted(emitting, "failures") == 1
    tick(emitting)
    assert [event["job"]["name"] for event in receiver.messages[2:]] == ["job.one"] * 2


def test_a_replica_that_does_not_have_the_lease_sends_nothing(
    emitting: Controller, receiver: Webhook
) -> None:
    emitting.report_all(REPORTS[:5])
    emitting.service.decider.leases.stop()
    tick(emitting)
    assert receiver.messages == []


def test_a_key_of_the_client_s_own_variables_is_sent(
    monkeypatch: pytest.MonkeyPatch, database_url: str, receiver: Webhook
) -> None:
    key = json.dumps({"type": "api_key", "apiKey": "s3cret"})
    monkeypatch.setenv("OPENLINEAGE__TRANSPORT__AUTH", key)
    with Controller(database_url, openlineage_url=receiver.url) as controller:
        controller.service.decider.leases.keep(now=True)
        controller.report_all(REPORTS[:5])
        tick(controller)
    assert {each["authorization"] for each in receiver.headers} == {"Bearer s3cret"}


def test_nothing_is_sent_without_an_address(controller: Controller) -> None:
    assert controller.service.lineage is None
    assert counted(controller, "events") == 0


def test_without_the_client_the_setting_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidemark.controller.base.settings.find_spec", lambda _: None)
    with pytest.raises(ValueError, match=r"pip install 'tidemark-streaming\[openlineage\]'"):
        Settings(openlineage_url="http://marquez:5000")


def test_the_schema_is_served_to_everybody_where_the_facet_says(
    emitting: Controller, receiver: Webhook
) -> None:
    acknowledge(emitting)
    emitting.report_all(REPORTS[:300])
    tick(emitting)
    facet = facet_of(receiver.messages[-1])
    assert facet is not None
    url, _, pointer = facet["_schemaURL"].partition("#/")
    assert url.startswith("https://t/")
    make_token(emitting)
    answer = emitting.http.get(url.removeprefix("https://t"), headers={"Authorization": ""})
    assert answer.headers["content-type"] == "application/schema+json"
    found = answer.json()
    for part in pointer.split("/"):
        found = found[part]
    assert found["type"] == "object"
    assert emitting.http.get("/schemas/other.json").status_code == 404
