"""Jobs on a standalone cluster in which something goes wrong: ``support.spark_cluster`` has the whole table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.faults import Survived
from support.jars import built_jar
from support.plain_jobs import clicks
from support.spark_cluster import FAULTS, verdicts

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak]


@pytest.mark.parametrize("fault", [fault for fault in FAULTS if fault != "none"])
def test_whatever_happens_in_the_cluster_the_ledger_equals_the_sink(
    fault: str, tmp_path: Path, survived: Survived
) -> None:
    ((_, verdict),) = verdicts(tmp_path, built_jar(tmp_path), "Off", [fault])
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
    assert same, verdict
    assert late == missing
