"""Spark's classes as Java keeps them in memory, in a file that every JVM of the tests maps instead of loading them.

It halves the CPU time until a session's first query (7.0 s to 3.5 s). A JVM of another kind does without it.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tidemark.spark_jobs.spark.java import ensure_java

from support.tree import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["CLASS_ARCHIVE", "options"]

CLASS_ARCHIVE = ROOT / ".venv" / "spark.jsa"
"""The file; ``make test`` makes it."""


def options() -> str:
    """Return what to start a JVM of Spark with so that it uses the file, if that is there."""
    # Java would warn on its output where the file is another installation's.
    return f" -XX:SharedArchiveFile={CLASS_ARCHIVE} -Xlog:disable" if CLASS_ARCHIVE.exists() else ""


def make(path: Path) -> None:
    """Make the file: start Spark, run a query of windows as the tests do, and let the JVM write what it has loaded."""
    ensure_java()
    os.environ["SPARK_SUBMIT_OPTS"] = f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={path} -Xlog:disable"
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    with tempfile.TemporaryDirectory() as folder:
        spark = (
            SparkSession.builder.master("local[1]")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "1")
            .config("spark.sql.warehouse.dir", folder)
            .getOrCreate()
        )
        spark.sparkContext.setLogLevel("ERROR")
        spark.range(10).selectExpr("timestamp_seconds(id) AS ts").write.json(f"{folder}/in")
        rows = spark.readStream.schema("ts timestamp").json(f"{folder}/in").withWatermark("ts", "1 second")
        counted = rows.groupBy(F.window("ts", "5 seconds")).count()
        writer = counted.writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        writer.foreachBatch(_collect).trigger(availableNow=True).start().awaitTermination()
        java = spark.sparkContext._gateway.proc  # type: ignore[union-attr]
        spark.stop()
        java.stdin.close()
        java.wait()


def _collect(df: DataFrame, _: int) -> None:
    df.collect()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
