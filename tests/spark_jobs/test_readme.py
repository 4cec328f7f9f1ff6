"""What the README says of plain Spark, run on it."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.spark


def test_of_a_hundred_late_rows_sparks_own_metric_counts_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(.+?)```", readme, re.DOTALL)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    names: dict[str, Any] = {"spark": spark}
    exec(program, names)
    query = names["query"]
    query.stop()

    (dropped,) = [state["numRowsDroppedByWatermark"] for state in query.lastProgress["stateOperators"]]
    assert (query.lastProgress["numInputRows"], dropped) == (100, 1)
    assert re.search(r'\["numRowsDroppedByWatermark"\]  # 1,', program)
