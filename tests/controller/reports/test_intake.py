"""What jobs send: once, whole or not at all."""

from __future__ import annotations

import hashlib
import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from tidemark.controller.base.db.tables import LedgerKeyRow, ReportBodyRow, ReportRow, StreamRow
from tidemark.controller.evidence import rollups
from tidemark.controller.evidence.horizon import horizon_of
from tidemark.controller.reports.stored_bodies import canonical_json, stored_report
from tidemark.models.base.operators import row_level, session, sliding, tumbling
from tidemark.models.evidence.ledger import Tally
from tidemark.models.protocol.messages import Acknowledgement, Report, to_json_object

from support.controller_app import STREAM, Controller
from support.examples import examples
from support.oracles import Ledger
from support.reports import START_US, exponential_batches, query_reports
from support.stored_rows import stored_rows
from support.streams import SECOND, report_of

REPORTS = query_reports(exponential_batches(6, 40))
ACK = Acknowledgement(
    query_id="query",
    run_id="run",
    bound_ms=7_000,
    generation=None,
    source="job",
    mode="Off",
    applied_us=START_US,
)


@given(
    st.text(max_size=30),
    st.lists(st.tuples(st.text(max_size=10), st.integers(-(10**15), 10**15)), max_size=12),
    st.sampled_from([None, 4]),
)
def test_a_report_is_stored_as_a_driver_sends_it_without_spaces_and_without_when(
    job: str, rows: list[tuple[str, int]], final_ms: int | None
) -> None:
    report = replace(report_of(rows, row_level(), late_watermark_ms=5, final_watermark_ms=final_ms), job=job)
    sent = to_json_object(report)
    del sent["sent_us"]
    plain = json.dumps(sent, separators=(",", ":"), ensure_ascii=False)
    assert canonical_json(report) == plain.encode()


def ledger_of(controller: Controller) -> dict[int, Tally]:
    with controller.service.database.read() as session:
        rows = session.scalars(select(LedgerKeyRow).order_by(LedgerKeyRow.key_us))
        return {row.key_us: Tally(row.rows, row.late_min, row.late_max) for row in rows}


def needs_of(controller: Controller) -> bytes:
    with controller.service.database.read() as session:
        stream = session.scalars(select(StreamRow)).one()
        horizon = horizon_of(session, stream.id, 86_400_000)
        assert horizon is not None
        return rollups.needs_of(rollups.rollups_in(session, horizon.span)).to_bytes()


@contextmanager
def fresh() -> Iterator[Controller]:
    """A controller for one example of a property test, which fixtures would share."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Controller(f"sqlite:///{Path(folder) / 't.db'}") as controller,
    ):
        yield controller


# -- idempotence ---------------------------------------------------------------------------------------------------


def test_the_first_report_is_201_and_registers_the_stream_in_mode_off(controller: Controller) -> None:
    answer = controller.report(REPORTS[0])
    assert answer.status_code == 201
    assert answer.json() == {
        "job": "job",
        "stream": "stream",
        "received_us": controller.clock(),
        "duplicate": False,
        "body_sha256": hashlib.sha256(answer.request.content).hexdigest(),
    }
    status = controller.status()
    assert (status["mode"], status["registered_us"]) == ("Off", controller.clock())


def test_a_duplicate_is_200_with_the_same_body_shape_and_changes_nothing_but_the_count(
    controller: Controller,
) -> None:
    first = controller.report(REPORTS[0]).json()
    before = stored_rows(controller)
    controller.clock.now_us += SECOND
    again = controller.report(REPORTS[0])
    assert again.status_code == 200
    assert again.json() == {**first, "duplicate": True}
    after = stored_rows(controller)
    assert {name for name in after if after[name] != before[name]} == {"streams"}


def test_a_duplicate_with_other_content_is_409_and_the_first_stays(controller: Controller) -> None:
    controller.report(REPORTS[2])
    before = stored_rows(controller)
    answer = controller.report(replace(REPORTS[2], state_rows=99))
    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:tidemark:problem:report-conflict"
    assert stored_rows(controller) == before


def test_key_order_and_whitespace_do_not_make_another_content(controller: Controller) -> None:
    controller.report(REPORTS[0])
    shuffled = dict(reversed(to_json_object(REPORTS[0]).items()))
    assert controller.send("/reports", json.dumps(shuffled, indent=3).encode()).status_code == 200


@pytest.mark.slow
@examples(8)
@given(
    st.randoms(use_true_random=False),
    st.sampled_from([tumbling("10 seconds"), sliding("10 seconds", "5 seconds")]),
)
def test_ledger_and_needs_are_the_same_whatever_the_order_and_the_repeats(
    rng: random.Random, operator: Any
) -> None:
    # Two runs of one query: the second cannot know the base of the first, so needs hang on the store.
    reports = query_reports(exponential_batches(8, 12, seed=rng.randrange(5)), operator)
    reports = [
        *reports[:4],
        *(replace(report, run_id="second", late_base_ms=None) for report in reports[4:6]),
        *(replace(report, run_id="second") for report in reports[6:]),
    ]
    expected = Ledger()
    for report in reports:
        expected.add(report)
    sent = [*reports, *rng.choices(reports, k=4)]
    rng.shuffle(sent)
    with fresh() as shuffled, fresh() as ordered:
        for report in sent:
            assert shuffled.report(report).status_code in {200, 201}
        ordered.report_all(reports)
        assert ledger_of(shuffled) == ledger_of(ordered) == expected.by_key()
        assert needs_of(shuffled) == needs_of(ordered)
        for name in ("evidence", "coverage", "completeness", "effective_bound_ms"):
            assert shuffled.status()[name] == ordered.status()[name]


@pytest.mark.parametrize("operator", [row_level(), session("5 seconds")], ids=["row", "session"])
def test_keys_that_are_no_windows_are_kept_by_the_minute_and_no_row_is_lost(
    controller: Controller, operator: Any
) -> None:
    reports = query_reports(exponential_batches(6, 40), operator)
    controller.report_all(reports)
    expected = Ledger()
    for report in reports:
        expected.add(report)
    stored = ledger_of(controller)
    assert all(key % 60_000_000 == 0 for key in stored)
    total = expected.completeness()
    assert sum(stored.values(), Tally()) == Tally(total.rows, total.late_min, total.late_max)


def test_the_sums_of_reports_stream_and_ledger_agree(controller: Controller) -> None:
    controller.report_all(REPORTS)
    with controller.service.database.read() as session:
        stream = session.scalars(select(StreamRow)).one()
        reports = session.scalars(select(ReportRow)).all()
    ledger = sum(ledger_of(controller).values(), Tally())
    for name, of_ledger in (("pairs", "rows"), ("late_min", "late_min"), ("late_max", "late_max")):
        sums = {
            getattr(stream, name),
            sum(getattr(row, name) for row in reports),
            getattr(ledger, of_ledger),
        }
        assert len(sums) == 1, name
    assert stream.pairs == 240


def test_an_acknowledgement_is_taken_once_and_before_the_first_report_too(controller: Controller) -> None:
    assert controller.acknowledge(ACK).status_code == 201
    again = controller.acknowledge(ACK)
    assert (again.status_code, again.json()["duplicate"]) == (200, True)
    status = controller.status()
    assert status["registered_us"] is None
    assert status["applied"] == {
        "bound_ms": 7_000,
        "generation": None,
        "source": "job",
        "query_id": "query",
        "run_id": "run",
        "applied_us": START_US,
        "ceiling_ms": None,
        "run_end": None,
        "called": True,
        "conf_left_out": None,
        "spark_ui": None,
    }


def test_a_job_s_page_in_spark_s_ui_is_linked_to_by_http_only(controller: Controller) -> None:
    address = "https://spark.example.com/proxy/app-1/StreamingQuery/statistics?id=run"
    assert controller.acknowledge(replace(ACK, spark_ui=address)).status_code == 201
    assert controller.status()["applied"]["spark_ui"] == address
    for other in ("javascript:alert(1)", "//spark.example.com", " http://spark.example.com"):
        body = to_json_object(ACK) | {"spark_ui": other}
        answer = controller.http.post(f"{STREAM}/acks", json=body)
        assert answer.status_code == 422
        assert "spark_ui begins neither with http:// nor with https://" in answer.text
    with pytest.raises(ValueError, match="spark_ui"):
        replace(ACK, spark_ui="javascript:alert(1)")


# -- needs ---------------------------------------------------------------------------------------------------------


def test_rows_that_met_a_filter_which_knew_nothing_are_early_and_not_unknown(controller: Controller) -> None:
    controller.report_all(REPORTS)
    evidence = controller.status()["evidence"]
    assert (evidence["rows"], evidence["early_rows"], evidence["unknown_rows"]) == (160, 80, 0)
    assert controller.status()["completeness"]["rows"] == 240


@pytest.mark.slow
def test_rows_whose_base_nobody_knows_are_unknown(controller: Controller) -> None:
    # The first report of a restarted job whose earlier batches were never reported: the watermark was in Spark's log.
    report = report_of(
        [("0", START_US)],
        tumbling("10 seconds"),
        late_watermark_ms=START_US // 1_000 - 60_000,
        granule_us=SECOND,
        batch_id=50,
        started_us=START_US,
    )
    controller.report(report)
    status = controller.status()
    assert (status["evidence"]["rows"], status["evidence"]["unknown_rows"]) == (0, 1)
    assert "NeedsUnknown" in {condition["type"] for condition in status["conditions"]}


def test_a_drivers_clock_that_runs_ahead_does_not_hide_later_batches(controller: Controller) -> None:
    ahead = [replace(report, started_us=report.started_us + 10**15) for report in REPORTS[:3]]
    controller.report_all([*ahead, *REPORTS[3:]])
    assert controller.status()["evidence"]["batches"] == 6


def test_a_report_equals_what_is_stored_for_audit(controller: Controller) -> None:
    controller.report_all(REPORTS)
    with controller.service.database.read() as session:
        bodies = session.scalars(select(ReportBodyRow.body).order_by(ReportBodyRow.report_id)).all()
    stored: list[Report] = [stored_report(body) for body in bodies]
    assert stored == REPORTS
