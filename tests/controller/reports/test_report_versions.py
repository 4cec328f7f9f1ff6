"""Reports across releases: which versions are read, and that a report that is sent again is recognised."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import update

from tidemark.controller.base.db.tables import ReportBodyRow, ReportRow
from tidemark.controller.reports.stored_bodies import fingerprint, packed
from tidemark.models.protocol.messages import AppendDelay, to_json_object

from support.controller_app import Controller
from support.reports import exponential_batches, query_reports

REPORTS = query_reports(exponential_batches(3, 40))


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    with Controller(f"sqlite:///{tmp_path / 'tidemark.db'}") as running:
        yield running


@pytest.mark.parametrize("version", [0, 2, 17])
def test_an_unknown_schema_version_has_its_own_problem_that_says_which_are_known(
    untouched: Controller, version: int
) -> None:
    body = {**to_json_object(REPORTS[0]), "schema_version": version, "a_field_of_the_future": []}
    found = untouched.send("/reports", json.dumps(body).encode()).json()
    assert found["type"] == "urn:tidemark:problem:unknown-schema-version"
    assert found["known_versions"] == [1]
    assert found["errors"][0]["pointer"] == "/schema_version"


def test_a_report_that_an_earlier_release_stored_without_a_new_field_is_recognised_when_it_is_sent_again(
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
