"""A job loads what it uses."""

from __future__ import annotations

import subprocess
import sys

import pytest

MOST_MODULES = 50
LOADED = "import sys; print(*(name for name in sys.modules if name.split('.')[0] == 'tidemark'))"
THE_CALL = "from tidemark.spark_jobs import adaptive_watermark\n"
A_QUERY_IN_MODE_OFF = f"""
{THE_CALL}
from pyspark.sql import SparkSession, functions as F
conf = {{"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}}
spark = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
counts = rows.transform(adaptive_watermark("timestamp", "1 minute")).groupBy(F.window("timestamp", "1 minute")).count()
counts.writeStream.format("noop").trigger(once=True).start().awaitTermination()
"""


def loaded_by(program: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", program + LOADED], capture_output=True, text=True, check=True, timeout=300
    )
    return done.stdout.splitlines()[-1].split()


def of_folder(modules: list[str], *folders: str) -> list[str]:
    names = [f"tidemark.{folder}" for folder in folders]
    return [name for name in modules if any(name == each or name.startswith(f"{each}.") for each in names)]


def test_the_call_loads_no_more_than_it_needs() -> None:
    modules = loaded_by(THE_CALL)
    assert len(modules) <= MOST_MODULES, sorted(modules)


@pytest.mark.slow
@pytest.mark.spark
def test_a_query_in_mode_off_loads_neither_the_live_policy_nor_late_rows() -> None:
    modules = loaded_by(A_QUERY_IN_MODE_OFF)
    assert of_folder(modules, "spark_jobs.plans")
    assert of_folder(modules, "models.live", "models.recommend", "spark_jobs.live", "spark_jobs.late") == []
