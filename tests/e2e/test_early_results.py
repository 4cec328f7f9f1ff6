"""Early results of a real query in real tables, with what a real controller says of their windows."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest

from tidemark.spark_jobs.demo.controller_process import ControllerProcess
from tidemark.spark_jobs.demo.kafka_jars import Artifact, resolve_jars
from tidemark.spark_jobs.spark.jar import JarsNotFound, spark_jars, spark_version

from support.jars import submit

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1_800), pytest.mark.long]

LINES = {"delta": {"4.0", "4.1", "4.2"}, "iceberg": {"4.1"}}
"""By format the releases of Spark that its connector has been tried with; Iceberg 1.12 has none for 4.2."""

_EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
}


def jars_or_skip(kind: str) -> str:
    """Return the jars of a format's connector; where there are none for this Spark, or anywhere, tests are skipped."""
    line = pyspark.__version__.rpartition(".")[0]
    if line not in LINES[kind]:
        pytest.skip(f"there is no connector of {kind} for Spark {line}")
    scala, _ = spark_version(spark_jars())
    artifact = {
        "delta": Artifact("io.delta", f"delta-spark_{line}_{scala}", "4.4.0"),
        "iceberg": Artifact("org.apache.iceberg", f"iceberg-spark-runtime-{line}_{scala}", "1.12.0"),
    }[kind]
    try:
        return ",".join(map(str, resolve_jars(kind, [artifact], without=["slf4j-api"])))
    except JarsNotFound as error:
        missing = str(error)
    assert os.environ.get("CI") != "true", f"CI must have it: {missing}"
    pytest.skip(missing)


def confs(kind: str, folder: Path) -> dict[str, str]:
    """Return the conf of a session with a format."""
    own = {
        "delta": {"spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog"},
        "iceberg": {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "hadoop",
            "spark.sql.catalog.lake.warehouse": str(folder / "lake"),
        },
    }[kind]
    return {
        **own,
        "spark.sql.extensions": _EXTENSIONS[kind],
        "spark.databricks.delta.snapshotPartitions": "1",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    }


def commits(kind: str, folder: Path) -> list[dict[str, Any]]:
    """Return what each commit says, as the table's own files have it: the properties, in order."""
    if kind == "delta":
        logs = sorted((folder / "job" / "table" / "_delta_log").glob("*[0-9].json"))
        actions = [json.loads(line) for log in logs for line in log.read_text().splitlines()]
        infos = [action["commitInfo"] for action in actions if "commitInfo" in action]
        return [json.loads(info["userMetadata"])["tidemark"] for info in infos]
    metadata = (folder / "lake" / "shop" / "counts" / "metadata").glob("v*.metadata.json")
    newest = max(metadata, key=lambda path: int(path.name[1:].partition(".")[0]))
    snapshots = json.loads(newest.read_text())["snapshots"]
    return [json.loads(snapshot["summary"]["tidemark"]) for snapshot in snapshots]


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run a controller; yield its address."""
    folder.mkdir()
    controller = ControllerProcess(folder, "jar", "early")
    try:
        controller.wait_until_ready()
        yield controller.url
    finally:
        controller.stop()


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_early_rows_were_right_and_each_commit_says_its_windows(kind: str, tmp_path: Path) -> None:
    jars = jars_or_skip(kind)
    options = [part for pair in confs(kind, tmp_path).items() for part in ("--conf", "=".join(pair))]
    (tmp_path / "job").mkdir()
    with running(tmp_path / "controller") as url:
        done = submit(
            tmp_path / "job",
            "local[2]",
            *("--jars", jars, *options),
            job="early_results_job.py",
            arguments=(kind, url),
        )
    data = tmp_path / ("job/table" if kind == "delta" else "lake/shop/counts/data")
    rows = pa.concat_tables(
        [pq.read_table(path) for path in data.rglob("part-*.parquet" if kind == "delta" else "*.parquet")]
    ).to_pylist()

    # Of each window the counts after each batch, by partition.
    so_far: dict[Any, dict[int, dict[int, int]]] = defaultdict(lambda: defaultdict(dict))
    for row in sorted(rows, key=lambda row: int(row["batch"])):
        so_far[row["window"]["end"]][row["partition"]][row["batch"]] = row["count"]

    def came(end: Any, until: float) -> int:
        return sum(
            max((count for batch, count in counts.items() if batch <= until), default=0)
            for counts in so_far[end].values()
        )

    assert sum(came(end, 10**9) for end in so_far) == done["sink"]
    said = {(row["window"]["end"], row["batch"]): row for row in rows if row["share"] is not None}
    assert len(said) > 20
    right = [row["share_low"] * came(end, 10**9) <= came(end, batch) for (end, batch), row in said.items()]
    assert sum(right) >= 0.9 * len(right)
    off = [abs(row["rows_expected"] - came(end, 10**9)) / came(end, 10**9) for (end, _), row in said.items()]
    assert sum(off) / len(off) < 0.2

    by_batch: dict[int, dict[str, float | None]] = defaultdict(dict)
    for row in rows:
        by_batch[row["batch"]][row["window"]["end"].strftime("%Y-%m-%dT%H:%M:%SZ")] = row["share"]
    found = commits(kind, tmp_path)
    assert [{one["end"]: one["share"] for one in commit["windows"]} for commit in found] == [
        by_batch[batch] for batch in sorted(by_batch)
    ]
    assert {(commit["job"], commit["stream"], commit["left_out"]) for commit in found} == {
        ("jar", "early", 0)
    }
