"""Jobs on a standalone cluster in which something goes wrong: ``support.spark_cluster`` has the whole table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.faults import Survived
from support.jars import built_jar
from support.plain_jobs import clicks
from support.spark_cluster import SUPERVISED, verdicts

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]

CASES = [
    ("PySpark, with the line", "an executor is killed", "a stage is tried again"),
    ("Connect client", "a worker is gone"),
    ("Java", "a slow worker, with speculation", "a worker is decommissioned"),
    ("Java", "executors come and go"),
    (SUPERVISED, "the driver's host is gone"),
]
"""Front ends, each with what goes wrong in its cluster while queries of all modes run in it."""


@pytest.mark.parametrize(
    ("front", "faults"), [(front, faults) for front, *faults in CASES], ids=map(", ".join, CASES)
)
def test_whatever_happens_in_the_cluster_the_ledger_equals_the_sink(
    front: str, faults: list[str], tmp_path: Path, survived: Survived
) -> None:
    wrong = []
    for fault, mode, verdict in verdicts(tmp_path, built_jar(tmp_path), front, faults):
        same = re.fullmatch(r"(\d+) . (\d+)", verdict)
        late, missing = (int(same[1]), int(same[2])) if same else (0, clicks())
        survived(
            f"in a standalone cluster {fault}",
            times=1,
            rows=clicks(),
            lost=missing - late,
            verdicts=1,
            wrong=int(late != missing),
        )
        wrong += [] if late == missing else [f"{fault}, {mode}: {verdict}"]
    assert wrong == []
