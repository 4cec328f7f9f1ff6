"""What became of the rows and the verdicts under each fault, as the long tests found it.

    make soak

runs the tests that are long or bring a fault about. What those of the faults found is kept in ``faults.json`` beside
this file, from which `make docs` makes the table of docs/explanation/proof.md.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from xml.etree import ElementTree as ET

from support.tree import ROOT

__all__ = ["FAULTS", "Survived", "faults_found", "recorder"]

FAULTS = Path(__file__).with_name("faults.json")
_REPORT = ROOT / "build" / "soak.xml"
_PROPERTY = "fault"
_NUMBERS = ("times", "rows", "lost", "verdicts", "wrong")


class Survived(Protocol):
    """Records what a test found of a fault; before its assertions, so that a failure is in the table, too."""

    def __call__(self, fault: str, *, times: int, rows: int, lost: int, verdicts: int, wrong: int) -> None:
        """Record a fault.

        Args:
            fault: what it is, as the table says it; what several tests find of one fault is added up.
            times: how often it came.
            rows: rows that the stream had.
            lost: those that are neither in the sink or store nor counted as late.
            verdicts: how many counts of a ledger were compared with the truth.
            wrong: how many of them differ.
        """


def recorder(record_property: Callable[[str, object], None]) -> Survived:
    """Return what writes into pytest's XML report."""

    def survived(fault: str, **numbers: int) -> None:
        record_property(_PROPERTY, json.dumps({"fault": fault, **numbers}))

    return survived


def faults_found(report: Path) -> dict[str, Any]:
    """Return, from pytest's XML report, how many tests passed and failed, and each fault with its numbers."""
    root = ET.parse(report).getroot()
    cases = [case for case in root.iter("testcase") if case.find("skipped") is None]
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    faults: dict[str, dict[str, int]] = {}
    for found in root.iter("property"):
        if found.attrib["name"] == _PROPERTY:
            numbers = json.loads(found.attrib["value"])
            sums = faults.setdefault(numbers.pop("fault"), dict.fromkeys(_NUMBERS, 0))
            for name, number in numbers.items():
                sums[name] += number
    return {"passed": len(cases) - len(failed), "failed": len(failed), "faults": faults}


def main(arguments: Sequence[str]) -> int:
    """Keep what a report of pytest says."""
    report = Path(arguments[0]) if arguments else _REPORT
    by = f"a report of pytest, {report.name}" if arguments else "make soak"
    record = {"date": datetime.now(UTC).date().isoformat(), "by": by, **faults_found(report)}
    FAULTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
