"""What every request can count on: problems, names, health, metrics, the document, the schema, the settings."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.exc import OperationalError

import tidemark.controller
from tidemark.controller.base.counters import HELP
from tidemark.controller.base.settings import Settings
from tidemark.controller.server.http.authorize import need_of
from tidemark.controller.server.schemas.service import Problem

from support.controller_app import STREAM, Controller
from support.in_process import TestClient
from support.openapi import as_text
from support.policies import at_once
from support.reports import START_US, exponential_batches, query_reports

REPORTS = query_reports(exponential_batches(12, 40))

# -- problems ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nothing", 404),
        ("GET", "/v1/fleet/", 404),
        ("DELETE", "/v1/fleet", 405),
        ("DELETE", STREAM + "/reports", 405),
        ("GET", "/v1/jobs/nobody", 404),
        ("GET", STREAM + "/windows/x", 422),
        ("GET", "/v1/fleet?limit=0", 422),
        ("GET", "/v1/fleet?limit=x", 422),
    ],
)
def test_every_error_is_a_problem_document(
    untouched: Controller, method: str, path: str, status: int
) -> None:
    answer = untouched.http.request(method, path)
    body = answer.json()
    assert answer.status_code == body["status"] == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert body["instance"] == path.partition("?")[0]
    Problem.model_validate_json(answer.text)
    if status == 405:
        assert answer.headers["allow"]


@pytest.mark.parametrize("name", ["%20a", "a%0Ab", "%2E%2E", "a%00", "x" * 201])
def test_a_name_that_cannot_be_part_of_a_path_is_refused(untouched: Controller, name: str) -> None:
    answer = untouched.http.put(f"/v1/jobs/{name}/streams/s/slo", json={"target_ppm": 900_000})
    assert answer.status_code in {404, 422}
    assert answer.headers["content-type"] == "application/problem+json"
    assert untouched.http.get("/v1/fleet").json()["streams"] == []


def test_a_slash_in_a_name_is_refused_with_a_sentence_even_encoded(controller: Controller) -> None:
    answer = controller.http.get("/v1/jobs/a%2Fb/streams/s/bound")
    assert answer.status_code == 404
    assert "a name cannot contain a slash" in answer.json()["detail"]


def test_an_action_on_a_stream_is_not_part_of_its_name(controller: Controller) -> None:
    for act in ("pause", "resume"):
        answer = controller.http.put(f"/v1/jobs/j/streams/s:{act}/slo", json={"target_ppm": 900_000})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (422, "stream")
        for query in ({}, {"dryRun": "All"}):
            body = controller.http.get(f"/v1/jobs/j/streams/s:{act}", params=query)
            assert (body.status_code, body.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/pin", "DELETE, GET, PUT"),
        (STREAM + "/slo", "DELETE, GET, PUT"),
        (STREAM + "/reports", "GET, POST"),
        (STREAM + "/rollouts/1", "GET"),
        (STREAM + "/rollouts/1:approve", "POST"),
        ("/openapi.json", "GET, HEAD"),
        ("/readyz", "GET, HEAD"),
    ],
)
def test_a_method_that_a_path_does_not_know_is_answered_with_all_that_it_knows(
    untouched: Controller, path: str, methods: str
) -> None:
    answer = untouched.http.options(path)
    assert answer.status_code == 405
    assert sorted(answer.headers["allow"].split(", ")) == methods.split(", ")


def test_names_with_spaces_and_other_scripts_are_handled(controller: Controller) -> None:
    path = "/v1/jobs/Bestellungen%20%C3%A4/streams/%E6%B5%81%3F%23"
    assert controller.http.put(path + "/slo", json={"target_ppm": 900_000}).status_code == 200
    status = controller.http.get(path).json()
    assert (status["job"], status["stream"]) == ("Bestellungen ä", "流?#")


def test_internal_errors_are_not_shown_to_callers(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> Any:
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(controller.service.database, "read", broken)
    client = TestClient(controller.app, raise_server_exceptions=False)
    answer = client.get(STREAM)
    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:tidemark:problem:internal"
    assert "secret" not in answer.text


def test_a_store_that_does_not_answer_is_503_with_retry_after(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked() -> Any:
        raise OperationalError("SELECT 1", {}, sqlite3.OperationalError("database is locked"))

    monkeypatch.setattr(controller.service.database, "write", locked)
    answer = controller.report(REPORTS[0])
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert "locked" not in answer.text


# -- health --------------------------------------------------------------------------------------------------------


def test_a_service_that_is_well_says_so_and_why_when_asked(controller: Controller) -> None:
    assert controller.http.get("/livez").json() == {"status": "ok", "checks": None}
    checks = controller.http.get("/readyz?verbose").json()["checks"]
    assert [(check["name"], check["ok"]) for check in checks] == [("store", True)]
    assert "migration 0001" in checks[0]["detail"]


def test_a_loop_that_does_not_run_is_not_alive(controller: Controller) -> None:
    controller.service.ticker.stop()
    answer = controller.http.get("/livez")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:tidemark:problem:not-alive")


# -- metrics -------------------------------------------------------------------------------------------------------


def samples(controller: Controller) -> dict[str, float]:
    text = controller.http.get("/metrics?detail=all").text
    return {
        sample.name + (f"[{sample.labels['type']}]" if "type" in sample.labels else ""): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.labels.get("job", "job") == "job"
    }


def test_the_metrics_say_what_the_store_holds_in_base_units(controller: Controller) -> None:
    controller.put("/slo", {"target_ppm": 900_000})
    controller.put("/policy", at_once(min_bound_ms=6_000))
    controller.report_all(report for report in REPORTS if report.batch_id != 7)
    controller.report(REPORTS[0])
    controller.send("/reports", b"{")
    controller.send("/reports", b"{}")
    controller.send("/reports", b"{}", content_type="text/plain")
    controller.tick()
    status, found = controller.status(), samples(controller)
    assert found["tidemark_store_up"] == found["tidemark_streams"] == found["tidemark_missing_batches"] == 1
    assert found["tidemark_reports_received_total"] == 11
    assert found["tidemark_reports_duplicate_total"] == 1
    for kind in ("malformed-body", "invalid-body", "unsupported-media-type"):
        assert found[f"tidemark_reports_rejected_total[{kind}]"] == 1
    assert found["tidemark_rows_judged_total"] == 440
    assert found["tidemark_rows_admitted_total"] == 440 - status["completeness"]["late_max"]
    assert found["tidemark_bound_in_use_seconds"] == 5
    assert found["tidemark_bound_recommended_seconds"] == status["recommended"]["bound_ms"] / 1_000
    assert found["tidemark_bound_published_seconds"] == found["tidemark_bound_recommended_seconds"]
    assert "tidemark_bound_applied_seconds" not in found
    assert found["tidemark_slo_target_ratio"] == 0.9
    assert found["tidemark_decision_duration_seconds_count"] >= 1


def test_every_metric_has_its_help_text_in_one_place(controller: Controller) -> None:
    controller.report_all(REPORTS)
    controller.send("/reports", b"{")
    exposed = {
        line.split()[2]: line.split(maxsplit=3)[3]
        for line in controller.http.get("/metrics?detail=all").text.splitlines()
        if line.startswith("# HELP")
    }
    assert exposed == HELP
    assert all(name.startswith("tidemark_") for name in HELP)


def test_a_store_that_is_gone_is_a_metric_and_not_an_error(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone() -> Any:
        raise OperationalError("SELECT 1", {}, sqlite3.OperationalError("gone"))

    monkeypatch.setattr(controller.service.database, "read", gone)
    assert samples(controller)["tidemark_store_up"] == 0


# -- the document --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with Controller(f"sqlite:///{tmp_path_factory.mktemp('document') / 't.db'}") as controller:
        yield controller.http.get("/openapi.json").json()


@pytest.mark.slow
def test_the_committed_document_is_the_generated_one(controller: Controller) -> None:
    committed = Path(tidemark.controller.__path__[0]) / "openapi.json"
    assert committed.read_text() == as_text(controller.app), "run: make docs"


def objects(node: Any, where: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(node, dict):
        if node.get("type") == "object" or "properties" in node:
            yield where, node
        for key, inner in node.items():
            if key not in {"example", "examples"}:
                yield from objects(inner, f"{where}/{key}")
    elif isinstance(node, list):
        for index, inner in enumerate(node):
            yield from objects(inner, f"{where}/{index}")


def test_only_what_people_write_refuses_unknown_fields_in_the_document(document: dict[str, Any]) -> None:
    """Later drivers send more, and later controllers answer more."""
    schemas = document["components"]["schemas"]

    def used_by(part: Any) -> set[str]:
        named = {each.split('"')[0] for each in json.dumps(part).split("#/components/schemas/")[1:]}
        return named.union(*(used_by(schemas[name]) for name in named))

    bodies = {
        operation["operationId"]: used_by(operation.get("requestBody", {}))
        for operations in document["paths"].values()
        for operation in operations.values()
    }
    by_people: set[str] = set().union(
        *(used for name, used in bodies.items() if "job" not in getattr(need_of(name), "roles", ()))
    )
    found = list(objects(schemas))
    assert len(found) > 20
    # Properties that are named "type" or "properties" would look like objects; there are none.
    closed = {where for where, schema in found if schema.get("additionalProperties") is False}
    assert closed == {f"/{name}" for name in by_people if schemas[name].get("type") == "object"}


def test_every_reference_of_the_document_leads_somewhere_and_every_schema_is_used(
    document: dict[str, Any],
) -> None:
    text = json.dumps(document)
    defined = set(document["components"]["schemas"])
    used = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert used == defined


def test_every_body_and_answer_has_an_example_and_every_route_its_problems(document: dict[str, Any]) -> None:
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            where = f"{method} {path}"
            contents = [operation["requestBody"]] if "requestBody" in operation else []
            contents += [answer for status, answer in operation["responses"].items() if status != "304"]
            for content in contents:
                for kind, media in content["content"].items():
                    assert "example" in media or kind == "text/plain", where
            for status, answer in operation["responses"].items():
                if status >= "400":
                    assert set(answer["content"]) == {"application/problem+json"}, (where, status)
            assert operation["summary"]
            assert operation["description"]
            if path.startswith("/v1"):
                assert {"422", "503"} <= set(operation["responses"]), where


def test_answers_have_no_floats(controller: Controller) -> None:
    def refuse(number: str) -> None:
        pytest.fail(f"an answer has the float {number}")

    controller.put("/slo", {"target_ppm": 900_000})
    controller.report_all(REPORTS)
    controller.tick()
    for path in ("", "/slo", "/policy", "/bound", "/curve", "/partitions", "/predictions"):
        json.loads(controller.get(path).text, parse_float=refuse)


# -- the store --------------------------------------------------------------------------------------------------


def test_a_database_is_opened_again_with_its_data(database_url: str) -> None:
    with Controller(database_url) as first:
        first.put("/slo", {"target_ppm": 900_000})
        first.put("/policy", at_once())
        first.report_all(REPORTS)
        first.tick()
        before, body = first.status(), first.get("/bound").json()
    with Controller(database_url) as second:
        second.tick()
        assert second.get("/bound").json() == body
        assert second.status() == before


def test_sqlite_keeps_what_was_committed_and_checks_references(controller: Controller) -> None:
    with controller.service.database.connect() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}


def test_writers_on_one_file_wait_for_each_other(database_url: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with Controller(database_url) as controller, ThreadPoolExecutor(8) as pool:
        statuses = list(pool.map(lambda report: controller.report(report).status_code, REPORTS * 3))
        assert sorted(statuses) == [200] * 24 + [201] * 12
        assert controller.status()["evidence"]["batches"] == 12


# -- settings ------------------------------------------------------------------------------------------------------


def test_every_setting_has_a_description_and_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert all(field.description for field in Settings.model_fields.values())
    monkeypatch.setenv("TIDEMARK_PORT", "9000")
    monkeypatch.setenv("TIDEMARK_TICK_SECONDS", "0.5")
    settings = Settings()
    assert (settings.host, settings.port, settings.tick_seconds) == ("127.0.0.1", 9_000, 0.5)
    assert (settings.database_url, settings.max_body_bytes) == ("sqlite:///tidemark.db", 8 * 1024 * 1024)


def test_reports_start_when_the_tests_think_they_do() -> None:
    assert REPORTS[0].started_us == START_US
