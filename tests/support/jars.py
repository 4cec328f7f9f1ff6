"""Tidemark's jar, built for the installed Spark, and jobs that run with it or without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tidemark.spark_jobs.spark.checkpoint import LOCAL_SPARK
from tidemark.spark_jobs.spark.jar import JarsNotFound
from tidemark.spark_jobs.spark.java import ensure_java

from support.jar_build import build_jar, javac
from support.tree import ROOT

__all__ = ["ROWS_OF_JOB", "built_jar", "submit"]

ROWS_OF_JOB = 300
"""Rows of ``jar_job.py``, without the one that closes its windows."""


def built_jar(folder: Path) -> Path:
    """Build the jar into a folder. Without a JDK the test is skipped, but never in CI."""
    try:
        javac()
    except JarsNotFound as error:
        missing = str(error)
    else:
        return build_jar(folder)
    assert os.environ.get("CI") != "true", f"CI must have a JDK, `make services` installs one: {missing}"
    pytest.skip(missing)


def submit(
    folder: Path, master: str, *options: str, job: str = "jar_job.py", arguments: Sequence[str] = ()
) -> dict[str, Any]:
    """Run a job of this folder by ``spark-submit``; return what it prints, with its ``log``.

    Args:
        folder: for its files; it must be empty.
        master: where it runs.
        options: more options of ``spark-submit``.
        job: the program; what it prints is one object of JSON that begins with ``sink``.
        arguments: its arguments after the folder.
    """
    ensure_java()
    home = Path(pyspark.__file__).parent
    confs = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.metricsEnabled": "true",
        "spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""),
        "spark.tidemark.job": "jar",
        **LOCAL_SPARK,
    }
    settings = [part for key, value in confs.items() for part in ("--conf", f"{key}={value}")]
    command = [str(home / "bin" / "spark-submit"), "--master", master, *settings, *options]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "tests"),
    }
    program = [str(ROOT / "tests" / "support" / job), str(folder), *arguments]
    done = subprocess.run([*command, *program], env=environment, capture_output=True, text=True, check=False)
    log = done.stdout + done.stderr
    assert done.returncode == 0, log[-20_000:]
    printed = [line for line in done.stdout.splitlines() if line.startswith('{"sink"')]
    return {**json.loads(printed[0]), "log": log}
