"""What became of the rows and the verdicts under each fault, as the long tests found it.

    make soak

runs the tests that are long or bring a fault about. What those of the faults and of the simulated week found is kept in
``faults.json`` beside this file, from which `make docs` makes tables of docs/explanation/proof.md. Where the tests are
run in parts, this module takes the reports of all, such as ``build/soak.xml build/week.xml``, in their order.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol
from xml.etree import ElementTree as ET

from support.tree import ROOT

__all__ = ["FAULTS", "Compared", "Survived", "faults_found", "recorder", "week_recorder"]

FAULTS = Path(__file__).with_name("faults.json")
_REPORT = ROOT / "build" / "soak.xml"
_PROPERTY, _WEEK = "fault", "week"
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


class Compared(Protocol):
    """Records what a simulated week compared; before its assertions."""

    def __call__(self, verdicts: Mapping[str, tuple[int, int]], **facts: object) -> None:
        """Record it.

        Args:
            verdicts: by what was compared with the truth, how often, and how often it was wrong.
            facts: what the week was like.
        """


def week_recorder(record_property: Callable[[str, object], None]) -> Compared:
    """Return what writes a week into pytest's XML report."""

    def compared(verdicts: Mapping[str, tuple[int, int]], **facts: object) -> None:
        record_property(_WEEK, json.dumps({"verdicts": verdicts, **facts}))

    return compared


def faults_found(*reports: Path) -> dict[str, Any]:
    """Return from pytest's XML reports how many tests passed and failed, each fault with its numbers, and the week.

    Of a test that is in several reports the last one counts.
    """
    every = (case for report in reports for case in ET.parse(report).getroot().iter("testcase"))
    cases = {
        (case.get("classname"), case.get("name")): case for case in every if case.find("skipped") is None
    }
    failed = sum(
        case.find("failure") is not None or case.find("error") is not None for case in cases.values()
    )
    faults: dict[str, dict[str, int]] = {}
    week: dict[str, Any] | None = None
    for found in (found for case in cases.values() for found in case.iter("property")):
        if found.attrib["name"] == _WEEK:
            week = json.loads(found.attrib["value"])
        if found.attrib["name"] == _PROPERTY:
            numbers = json.loads(found.attrib["value"])
            sums = faults.setdefault(numbers.pop("fault"), dict.fromkeys(_NUMBERS, 0))
            for name, number in numbers.items():
                sums[name] += number
    return {"passed": len(cases) - failed, "failed": failed, "faults": faults, "week": week}


def main(arguments: Sequence[str]) -> int:
    """Keep what the reports of a run say, in one part or in several."""
    reports = [Path(argument) for argument in arguments] or [_REPORT]
    by = "`make soak`" if len(reports) == 1 else f"`make soak`, in {len(reports)} parts"
    record = {"date": datetime.now(UTC).date().isoformat(), "by": by, **faults_found(*reports)}
    FAULTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
