"""The document of the proof, and the records that it comes from."""

from __future__ import annotations

import json
from pathlib import Path

from support.faults import FAULTS, faults_found, recorder
from support.proof import PROOF, fault_table, proof_document

NUMBERS = {"times": 2, "rows": 1_200, "lost": 0, "verdicts": 40, "wrong": 0}


def test_the_document_is_what_the_records_say() -> None:
    assert PROOF.read_text(encoding="utf-8") == proof_document(), "the records have changed: run `make docs`"


def test_no_row_was_lost_and_no_verdict_was_wrong_under_a_recorded_fault() -> None:
    record = json.loads(FAULTS.read_text(encoding="utf-8"))
    assert record["failed"] == 0
    assert all(found["lost"] == found["wrong"] == 0 < found["rows"] for found in record["faults"].values())


def test_what_several_tests_record_of_a_fault_is_added_up_and_failures_are_counted(tmp_path: Path) -> None:
    recorded: list[tuple[str, object]] = []
    survived = recorder(lambda name, value: recorded.append((name, value)))
    survived("a disk is full", **NUMBERS)
    survived("a disk is full", **NUMBERS | {"lost": 3})
    cases = "".join(
        f"<testcase><properties><property name={name!r} value='{value}'/></properties>{inner}</testcase>"
        for (name, value), inner in zip(recorded, ("", "<failure/>"), strict=True)
    )
    report = tmp_path / "soak.xml"
    report.write_text(f"<testsuites>{cases}<testcase><skipped/></testcase></testsuites>")
    found = faults_found(report)

    assert (found["passed"], found["failed"]) == (1, 1)
    assert found["faults"] == {
        "a disk is full": {"times": 4, "rows": 2_400, "lost": 3, "verdicts": 80, "wrong": 0}
    }


def test_each_fault_has_a_line_with_its_numbers() -> None:
    assert (
        fault_table({"a disk is full": NUMBERS}).splitlines()[2]
        == "| a disk is full | 2 | 1,200 | 0 | 40 | 0 |"
    )
