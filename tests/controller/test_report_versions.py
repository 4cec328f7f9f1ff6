"""Schema versions of a report: which are read, and that a report is the same in each."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from tidemark.controller.db.tables import ReportBodyRow, ReportRow
from tidemark.controller.intake.canonical_json import fingerprint
from tidemark.controller.intake.stored_bodies import packed
from tidemark.models.protocol.messages import AppendDelay, Report, to_json_object

from support.controller_app import STREAM, Controller
from support.reports import exponential_batches, query_reports

REPORTS = query_reports(exponential_batches(3, 40))


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    with Controller(f"sqlite:///{tmp_path / 'tidemark.db'}") as running:
        yield running


@pytest.mark.parametrize("version", [0, 3, 17])
def test_an_unknown_schema_version_has_its_own_problem_that_says_which_are_known(
    controller: Controller, version: int
) -> None:
    body = {**to_json_object(REPORTS[0]), "schema_version": version, "a_field_of_the_future": []}
    found = controller.send("/reports", json.dumps(body).encode()).json()
    assert found["type"] == "urn:tidemark:problem:unknown-schema-version"
    assert found["known_versions"] == [1, 2]
    assert found["errors"][0]["pointer"] == "/schema_version"


def in_version_1(report: Report) -> dict[str, Any]:
    """Return the body that an older release sends for ``report``."""
    body = to_json_object(report)
    del body["counts"]
    return {
        **body,
        "schema_version": 1,
        "partitions": [asdict(part) for part in report.counts.by_partition()],
    }


def test_a_report_of_an_older_driver_is_the_same_report(controller: Controller) -> None:
    path = STREAM + "/reports"
    assert controller.http.post(path, json=in_version_1(REPORTS[0])).status_code == 201
    assert controller.report(REPORTS[0]).json()["duplicate"]
    assert controller.report(REPORTS[1]).status_code == 201
    assert controller.http.post(path, json=in_version_1(REPORTS[1])).json()["duplicate"]
    wrong = json.loads(json.dumps(in_version_1(REPORTS[2])))
    wrong["partitions"][0]["granules"][0] = "x"
    errors = controller.http.post(path, json=wrong).json()["errors"]
    assert [error["pointer"] for error in errors] == ["/partitions/0/granules/0"]


def test_a_report_that_an_older_release_stored_is_recognised_when_it_is_sent_again(
    controller: Controller,
) -> None:
    controller.report(REPORTS[0])
    old = json.dumps(in_version_1(REPORTS[0]), sort_keys=True, separators=(",", ":")).encode()
    with controller.service.database.write() as session:
        session.execute(update(ReportRow).values(fingerprint=fingerprint(old)))
        session.execute(update(ReportBodyRow).values(body=packed(old)))
    assert controller.report(REPORTS[0]).json()["duplicate"]
    sent = controller.get("/reports/bodies").json()["reports"]
    assert sent == json.loads(json.dumps([to_json_object(REPORTS[0])])), "a job reads one version alone"
    other = replace(REPORTS[0], state_rows=REPORTS[0].state_rows + 1)
    assert controller.report(other).json()["type"] == "urn:tidemark:problem:report-conflict"


def test_a_report_that_an_older_release_stored_without_a_new_field_is_recognised_when_it_is_sent_again(
    controller: Controller,
) -> None:
    """The driver did not see the first answer, and meanwhile the controller was upgraded."""
    report = replace(
        REPORTS[0], append_delay=AppendDelay(rows=1, min_us=0, mean_us=1, max_us=2, by_broker=True)
    )
    controller.report(report)
    known = to_json_object(report)
    del known["append_delay"]
    old = json.dumps(known, sort_keys=True, separators=(",", ":")).encode()
    with controller.service.database.write() as session:
        session.execute(update(ReportRow).values(fingerprint=fingerprint(old)))
        session.execute(update(ReportBodyRow).values(body=packed(old)))
    assert controller.report(report).json()["duplicate"]
    other = replace(report, state_rows=report.state_rows + 1)
    assert controller.report(other).json()["type"] == "urn:tidemark:problem:report-conflict"
