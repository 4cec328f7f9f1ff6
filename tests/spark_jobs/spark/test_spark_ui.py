"""The address of a run's page in Spark's own UI, as the job reports it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tidemark.spark_jobs.spark.running_query import RunningQuery


@pytest.mark.long
@pytest.mark.slow
def test_a_job_reports_the_page_of_its_run_in_spark_s_ui(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "support.ui_job"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        timeout=240,
        check=True,
    )
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["address"].endswith(f"/StreamingQuery/statistics?id={said['run_id']}")
    assert said["query_id"] in said["page"]


@pytest.mark.parametrize(
    ("address", "conf", "found"),
    [
        ("http://driver:4040", {}, "http://driver:4040/StreamingQuery/statistics?id=run"),
        (None, {}, None),
        ("driver:4040", {}, None),
        (
            "http://driver:4040",
            {"spark.ui.reverseProxy": "true", "spark.ui.reverseProxyUrl": "https://spark.example.com/ui/"},
            "https://spark.example.com/ui/proxy/app-1/StreamingQuery/statistics?id=run",
        ),
        (
            "http://driver:4040",
            {"spark.ui.reverseProxyUrl": "https://spark.example.com"},
            "http://driver:4040/StreamingQuery/statistics?id=run",
        ),
    ],
)
def test_the_address_is_the_one_that_spark_s_conf_says(
    address: str | None, conf: dict[str, str], found: str | None
) -> None:
    context = SimpleNamespace(
        uiWebUrl=address, applicationId="app-1", getConf=lambda: SimpleNamespace(get=conf.get)
    )
    query: Any = object.__new__(RunningQuery)
    query.spark, query._execution = SimpleNamespace(sparkContext=context), object()
    assert query.page_url("run") == found
