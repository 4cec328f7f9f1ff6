"""A job that something outside starts again: exit code and marker, through ``spark-submit`` as users run it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

import pytest

from tidemark.spark_jobs.spark.java import ensure_java

from support.bound_server import BoundServer
from support.patience import PATIENCE_S, until
from support.tree import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow]

EXAMPLE = ROOT / "spark_jobs" / "demo" / "examples" / "windowed_counts.py"


def _submit(folder: Path, url: str, *arguments: str) -> subprocess.Popen[bytes]:
    ensure_java()
    confs = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.tidemark.job": "example",
        "spark.tidemark.controller.url": url,
        "spark.tidemark.cache.dir": str(folder / "bounds"),
        "spark.tidemark.watch.seconds": "2",
        "spark.tidemark.restart.marker": str(folder / "run" / "marker.json"),
    }
    command = [str(Path(sysconfig.get_path("scripts")) / "spark-submit"), "--master", "local[2]"]
    for key, value in confs.items():
        command += ["--conf", f"{key}={value}"]
    command += [str(EXAMPLE), "--files", str(folder / "in"), "--checkpoint", str(folder / "checkpoint")]
    with (folder / "log").open("w") as log:
        return subprocess.Popen(
            [*command, "--bound", "60 seconds", *arguments],
            cwd=folder,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable},
            stdout=log,
            stderr=log,
        )


def _said(folder: Path) -> str:
    return (folder / "log").read_text()


def _write(folder: Path, number: int) -> None:
    (folder / "in").mkdir(exist_ok=True)
    line = {"event_time": f"2026-01-01T00:00:{number:02d}Z", "partition": "a"}
    (folder / "in" / f"{number}.json").write_text(json.dumps(line))


@pytest.mark.soak
def test_the_job_exits_with_75_and_a_marker_and_takes_the_bound_when_it_is_started_again(
    tmp_path: Path,
) -> None:
    """The contract with Airflow and Kubernetes; 75 is EX_TEMPFAIL of sysexits."""
    with BoundServer("example", "events") as server:
        server.publish(5_000)
        _write(tmp_path, 1)
        first = _submit(tmp_path, server.url, "--exit-on-new-bound", "--cooldown", "1 second")
        try:
            until(
                lambda: server.generations() == [1] or first.poll() is not None,
                "an acknowledgement",
                seen=lambda: _said(tmp_path)[-4_000:],
            )
            assert first.poll() is None, _said(tmp_path)[-4_000:]
            before_us = time.time_ns() // 1_000
            server.publish(9_000)
            first.wait(PATIENCE_S)
        finally:
            first.kill()

        assert first.returncode == 75, _said(tmp_path)[-4_000:]
        marker = json.loads((tmp_path / "run" / "marker.json").read_text())
        assert before_us < marker.pop("ended_us") <= time.time_ns() // 1_000
        assert marker == {
            "job": "example",
            "stream": "events",
            "generation": 2,
            "bound_ms": 9_000,
            "before_ms": 5_000,
        }

        _write(tmp_path, 2)
        second = _submit(tmp_path, server.url, "--exit-on-new-bound", "--trigger", "available-now")
        try:
            second.wait(PATIENCE_S)
        finally:
            second.kill()

        assert second.returncode == 0, _said(tmp_path)[-4_000:]
        assert server.generations() == [1, 2]
        assert "bound=9 s source=controller generation=2" in _said(tmp_path)
