"""``adaptive_watermark`` in a Declarative Pipeline: a real server, and ``spark-pipelines run``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

from tidemark.spark_jobs.spark.jvm import is_since

from support.connect_server import running_connect_server
from support.patience import PATIENCE_S
from support.spark_streams import EPOCH_US, SCHEMA, Row, write_batch

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(not is_since(4, 1), reason="Spark has Declarative Pipelines from 4.1 on"),
]

PIPELINE = """
    from pyspark import pipelines as dp
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as F

    from tidemark.spark_jobs import adaptive_watermark, tumbling

    class Sink:
        dropped = 0

        def report(self, report):
            print("reported", report.batch_id, report.rows, report.watermark_ms // 1_000 - {epoch_s}, flush=True)

        def acknowledge(self, job, stream, acknowledgement):
            print("bound", acknowledgement.bound_ms, flush=True)

    def rows():
        return SparkSession.active().readStream.schema({schema!r}).option("maxFilesPerTrigger", 1).json({folder!r})

    line = adaptive_watermark("ts", "10 seconds", tumbling("20 seconds"), stream="rows", job="job", sink=Sink())
    watched = rows().transform(line)

    dp.create_streaming_table("counts")

    @dp.append_flow(target="counts")
    def counted():
        return watched.groupBy(F.window("ts", "20 seconds")).count()

    try:
        @dp.append_flow(target="counts")
        def refused():
            return rows().transform(line).groupBy(F.window("ts", "20 seconds")).count()
    except ValueError as error:
        print("refused:", error, flush=True)
"""


def test_a_stream_before_the_query_function_is_watched_and_within_it_the_line_says_where_to_put_it(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "rows"
    for number, first in enumerate((0, 30)):
        write_batch(
            folder, number, [Row(first + i, 0, EPOCH_US + (first + i) * 1_000_000) for i in range(10)]
        )
    text = dedent(PIPELINE).format(folder=str(folder), schema=SCHEMA, epoch_s=EPOCH_US // 1_000_000)
    (tmp_path / "definitions").mkdir()
    (tmp_path / "definitions" / "rows.py").write_text(text)
    spec = tmp_path / "spark-pipeline.yml"
    spec.write_text(
        f"name: pipeline\nstorage: file://{tmp_path}/storage\nlibraries:\n  - glob:\n      include: definitions/**\n"
    )

    with running_connect_server(tmp_path) as url:
        ended = subprocess.run(
            [sys.executable, "-m", "pyspark.pipelines.cli", "run", "--spec", str(spec)],
            env={**os.environ, "SPARK_REMOTE": url},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )

    assert ended.returncode == 0, ended.stderr
    said = ended.stdout.splitlines()
    assert [line for line in said if line.startswith(("bound", "reported"))][:3] == [
        "bound 10000",
        f"reported 0 10 {-EPOCH_US // 1_000_000}",
        "reported 1 10 -1",
    ]
    (refused,) = (line for line in said if line.startswith("refused"))
    assert "put the stream with this line before the function" in refused
