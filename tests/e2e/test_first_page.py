"""The first page of the documents: its job is run and watched, and its commands answer, as they stand there."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from tidemark.controller.tools.cli import app
from tidemark.spark_jobs.attach.pyspark_run import run

from support.docs import DOCS, code_blocks, commands
from support.patience import until
from support.processes import serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

TEXT = (DOCS / "index.md").read_text(encoding="utf-8")
ADDRESS = "http://127.0.0.1:8642"


@pytest.fixture
def conf(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The conf that `tidemark run` gives the session on that page."""
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    (line,) = (line for line, _ in commands(TEXT) if line.startswith("tidemark run"))
    partitions = spark.conf.get("spark.sql.shuffle.partitions")
    assert partitions is not None
    given = dict(word.split("=", 1) for word in line.split() if word.startswith("spark."))
    yield given
    for key in given:
        spark.conf.unset(key)
    spark.conf.set("spark.sql.shuffle.partitions", partitions)


def test_the_job_of_the_first_page_is_watched_and_a_bound_is_recommended(
    spark: SparkSession, conf: dict[str, str], tmp_path: Path
) -> None:
    (job,) = (content for language, content in code_blocks(TEXT) if language == "python")
    (tmp_path / "job.py").write_text(job, encoding="utf-8")
    *_, (_, asked) = code_blocks(TEXT)
    with serving(tmp_path) as (_, controller):
        url = str(controller.base_url)
        for key, value in conf.items():
            spark.conf.set(key, value.replace(ADDRESS, url))
        running = threading.Thread(target=run, args=(str(tmp_path / "job.py"), []))
        running.start()
        try:
            path = "/v1/jobs/shop/streams/clicks.rate.ts"
            until(lambda: controller.get(path).is_success, "the first report")
            for line in asked.splitlines():
                told = CliRunner().invoke(app, line.split()[1:], env={"TIDEMARK_URL": url})
                assert told.exit_code == 0, (line, told.output)
                if line.startswith("tidemark slo"):
                    until(
                        lambda: (
                            (controller.get(path).json()["recommended"] or {}).get("bound_ms") is not None
                        ),
                        "a recommended bound",
                    )
        finally:
            while running.is_alive():
                for query in spark.streams.active:
                    query.stop()
                running.join(0.1)
