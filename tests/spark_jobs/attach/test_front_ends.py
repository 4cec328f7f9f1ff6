"""Jobs that were never edited, by the ways in which people write them: ``support.front_ends`` has the whole table."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tidemark.spark_jobs.spark.jvm import is_since

from support.front_ends import verdicts
from support.jars import built_jar
from support.soak import with_soak

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

CONNECT, SHELL = "Connect client", "Scala in spark-shell"


@pytest.mark.parametrize("front", with_soak(["PySpark", CONNECT, SHELL], [SHELL]))
def test_the_ledger_of_a_plain_job_equals_its_sink(front: str, tmp_path: Path) -> None:
    """All queries of Connect have job tags."""
    if front == CONNECT and not is_since(4, 0):
        pytest.skip("PySpark 3.5 brings no Connect server")
    cells = [("Off", "tumbling"), ("OnRestart", "join"), ("Live", "deduplication")]
    found = {kind: said for _, kind, said in verdicts(front, tmp_path, built_jar(tmp_path), cells)}
    assert len(found) == len(cells)
    assert [said for said in found.values() if not re.fullmatch(r"(\d+ to )?\d+ = \d+", said)] == []
