"""The document of the proof, and the records that it comes from."""

from __future__ import annotations

import json
from pathlib import Path

from support.faults import FAULTS, faults_found, recorder, week_recorder
from support.proof import PROOF, fault_table, proof_document

NUMBERS = {"times": 2, "rows": 1_200, "lost": 0, "verdicts": 40, "wrong": 0}


def test_the_document_is_what_the_records_say() -> None:
    assert PROOF.read_text(encoding="utf-8") == proof_document(), "the records have changed: run `make docs`"


def test_no_row_was_lost_and_no_verdict_was_wrong_under_a_recorded_fault() -> None:
    record = json.loads(FAULTS.read_text(encoding="utf-8"))
    assert record["failed"] == 0
    week = record.get("week") or {"verdicts": {}}
    assert all(compared > 0 == wrong for compared, wrong in week["verdicts"].values())
    assert all(found["lost"] == found["wrong"] == 0 < found["rows"] for found in record["faults"].values())


def _case(name: str, recorded: tuple[str, object] | None = None, outcome: str = "") -> str:
    """Return a test of a report, with what it recorded."""
    found = "" if recorded is None else f"<property name={recorded[0]!r} value='{recorded[1]}'/>"
    return f"<testcase name={name!r}><properties>{found}</properties>{outcome}</testcase>"


def test_what_several_tests_record_is_added_up_and_failures_are_counted(tmp_path: Path) -> None:
    recorded: list[tuple[str, object]] = []
    survived = recorder(lambda name, value: recorded.append((name, value)))
    survived("a disk is full", **NUMBERS)
    survived("a disk is full", **NUMBERS | {"lost": 3})
    week_recorder(lambda name, value: recorded.append((name, value)))({"SLO met or missed": (7, 0)}, days=7)
    report = tmp_path / "soak.xml"
    cases = _case("one", recorded[0]), _case("other", recorded[1], "<failure/>"), _case("week", recorded[2])
    report.write_text(f"<testsuites>{''.join(cases)}{_case('none', outcome='<skipped/>')}</testsuites>")
    found = faults_found(report)

    assert (found["passed"], found["failed"]) == (2, 1)
    assert found["week"] == {"verdicts": {"SLO met or missed": [7, 0]}, "days": 7}
    assert found["faults"] == {
        "a disk is full": {"times": 4, "rows": 2_400, "lost": 3, "verdicts": 80, "wrong": 0}
    }


def test_of_a_test_that_was_run_again_in_a_later_part_the_later_one_counts(tmp_path: Path) -> None:
    reports = tmp_path / "soak.xml", tmp_path / "again.xml"
    reports[0].write_text(f"<testsuites>{_case('one')}{_case('other', outcome='<failure/>')}</testsuites>")
    reports[1].write_text(f"<testsuites>{_case('other')}</testsuites>")
    found = faults_found(*reports)

    assert (found["passed"], found["failed"]) == (2, 0)


def test_each_fault_has_a_line_with_its_numbers() -> None:
    assert (
        fault_table({"a disk is full": NUMBERS}).splitlines()[2]
        == "| a disk is full | 2 | 1,200 | 0 | 40 | 0 |"
    )
