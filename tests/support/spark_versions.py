"""The tests of every version of Spark, each in an environment of its own, and what came of them.

    make test-spark SPARK=3.5.9
    make smoke
    make matrix
    make operators
    make jar SPARK=3.5.9

An environment is `.venv` with another PySpark in front of it, in `build/spark-VERSION`. The matrix is kept in
`spark_versions.json` beside this file, and what Spark did at each stateful operator in `spark_operators.json`: from
them `make docs` makes its tables.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.etree import ElementTree as ET

from support.private_names import TRIED
from support.tree import ROOT

__all__ = ["MATRIX", "MODES", "OBSERVED", "OPERATORS"]

MATRIX = Path(__file__).with_name("spark_versions.json")
"""By version, operator and mode what came of it: ``exact``, ``refused`` or ``failed``."""

OBSERVED = Path(__file__).with_name("spark_operators.json")
"""By version and row of the table of stateful operators what Spark did, in words, each query."""

OPERATORS = ("tumbling, append", "sliding", "session", "deduplication")
MODES = {
    "Off": "test_in_mode_off_the_watermark_is_spark_s_own_and_the_ledger_equals_the_sink",
    "OnRestart": "test_the_watermark_follows_the_bound_of_each_run_and_the_ledger_equals_the_sink",
    "Restart": "test_the_watermark_follows_the_bound_of_each_run_and_the_ledger_equals_the_sink",
    "Live": "test_live_moves_the_watermark_as_required_and_the_ledger_equals_the_sink",
}
"""Each mode with its test; one test has both kinds of restart."""

_REFUSAL = "test_where_live_is_not_possible_the_job_runs_with_its_own_watermark_and_says_why"
_RULES = "tests/spark_jobs/spark/test_operator_rules.py"
_FILES = tuple(
    f"tests/spark_jobs/{name}.py"
    for name in (
        "test_versions",
        "core/test_row_counter",
        "connect/test_connect",
        "core/test_driver_metrics",
        "core/test_plan_check",
        "core/test_missed_starts",
        "core/test_repeated_rows",
        "spark/test_event_time",
        "spark/test_jar",
        "core/test_rows_behind_the_call",
        "core/test_real_time_mode",
        "restart/test_operators_over_restarts",
        "live/test_operators",
        "spark/test_operator_rules",
    )
)
BRIEF = ("3.5.9", "4.0.5", "4.3.0")
"""Versions of the brief run: the oldest, the first with Live, the newest. `make test` has the one between them."""

_BRIEF_TESTS = (
    "test_versions or test_row_counter or rows_behind or test_jar or (tumbling and not test_connect)"
)
"""Of the brief run: four operators in Off, and one over restarts and in Live."""

_UNOBTAINABLE = 75
"""Exit code when a version cannot be had, which says nothing about the code."""

_VERSION = re.compile(r"\d+\.\d+\.\d+")


def python_with(version: str) -> Path:
    """Return the interpreter of an environment that has PySpark of a version; it is made if it is not there.

    Raises:
        SystemExit: when that PySpark cannot be had.
    """
    folder = ROOT / "build" / f"spark-{version}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    if ready.exists():
        return python
    print(f"making {folder.relative_to(ROOT)} with PySpark {version} (a minute or two)", file=sys.stderr)
    venv.create(folder, clear=True)
    here = next(folder.glob("lib/python*/site-packages"))
    others = Path(sys.prefix, *here.relative_to(folder).parts)
    # What is installed here goes before what is installed there.
    (here / "others.pth").write_text(f"import site; site.addsitedir({str(others)!r})\n", encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    install = ["install", "--ignore-installed", "--no-build-isolation", f"pyspark=={version}"]
    if subprocess.run([*pip, *install], check=False).returncode:
        print(
            f"PySpark {version} cannot be had; `pip index versions pyspark` lists those that can",
            file=sys.stderr,
        )
        sys.exit(_UNOBTAINABLE)
    ready.touch()
    return python


def run(version: str, arguments: Sequence[str] = (), files: Sequence[str] = _FILES) -> tuple[int, Path]:
    """Run the tests on a version; return pytest's exit code and where its XML report is."""
    report = ROOT / "build" / f"spark-{version}.xml"
    command = [str(python_with(version)), "-m", "pytest", *files, "-m", "versions", f"--junitxml={report}"]
    # It would name an installation of another version.
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_HOME"}
    return subprocess.run([*command, *arguments], cwd=ROOT, env=environment, check=False).returncode, report


def outcome(report: Path) -> dict[str, dict[str, str]]:
    """Return by operator and mode what came of the tests of a version."""
    found: dict[str, str] = {}
    for case in ET.parse(report).iter("testcase"):
        kinds = {child.tag for child in case}
        state = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "exact"
        found[case.attrib["name"]] = state
    refusal = "refused" if found.get(_REFUSAL) == "exact" else "failed"
    return {
        operator: {
            mode: refusal if state == "skipped" and mode == "Live" else state
            for mode, test in MODES.items()
            for state in [found.get(f"{test}[{operator}]", "failed")]
        }
        for operator in OPERATORS
    }


def _note_operators(reports: Mapping[str, Path]) -> None:
    """Write down what Spark did at each stateful operator, from the reports by version."""
    seen: dict[str, dict[str, list[str]]] = {}
    for version, report in reports.items():
        rules = seen.setdefault(version, {})
        for found in ET.parse(report).iter("property"):
            if found.attrib["name"] == "observed":
                rule, _, text = found.attrib["value"].rpartition("|")
                rules[rule] = sorted({*rules.get(rule, []), text})
    OBSERVED.write_text(json.dumps(seen, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _main(arguments: Sequence[str]) -> int:
    if arguments == ["--brief"]:
        return max(run(version, ["-k", _BRIEF_TESTS])[0] for version in BRIEF)
    if arguments == ["--operators"]:
        runs = {version: run(version, files=[_RULES]) for version in TRIED}
        worst = max(code for code, _ in runs.values())
        # A run that failed saw less than Spark does.
        if not worst:
            _note_operators({version: report for version, (_, report) in runs.items()})
        return worst
    if arguments:
        only_python = arguments[0] == "--python"
        version, *more = arguments[only_python:]
        if not _VERSION.fullmatch(version):
            sys.exit(f"{version!r} is no version of PySpark; write, for example, SPARK={TRIED[0]}")
        if only_python:
            print(python_with(version))
            return 0
        return run(version, more)[0]
    runs = {version: run(version) for version in TRIED}
    reports = {version: report for version, (_, report) in runs.items()}
    matrix = {version: outcome(report) for version, report in reports.items()}
    MATRIX.write_text(json.dumps(matrix, indent=1) + "\n", encoding="utf-8")
    worst = max(code for code, _ in runs.values())
    if not worst:
        _note_operators(reports)
    return worst


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
