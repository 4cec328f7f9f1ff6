"""The example's loop around a real Spark job: it ends for a new bound, and its next start runs with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tidemark.spark_jobs.demo.controller_process import ControllerProcess
from tidemark.spark_jobs.spark.java import ensure_java

from support.patience import PATIENCE_S, until
from support.policies import at_once
from support.tree import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.soak]

START_S = 1_767_225_600


def write_batch(folder: Path, number: int) -> None:
    """Write a second's rows, up to 9 s late, of four partitions."""
    rows = [
        {
            "event_time": datetime.fromtimestamp(START_S + number - n % 10 + n / 1_000, UTC).isoformat(),
            "partition": str(n % 4),
        }
        for n in range(120)
    ]
    hidden = folder / f".{number}"
    hidden.write_text("".join(json.dumps(row) + "\n" for row in rows))
    hidden.rename(folder / f"{number:04}.json")


def test_a_new_bound_ends_the_job_with_75_and_the_loop_starts_it_with_that_bound(tmp_path: Path) -> None:
    java = ensure_java()
    rows = tmp_path / "rows"
    rows.mkdir()
    (tmp_path / "controller").mkdir()
    controller = ControllerProcess(tmp_path / "controller", "shop", "events")
    controller.wait_until_ready()
    log = tmp_path / "log"
    written = 0

    def feed_until(true: Callable[[], object], what: str) -> None:
        def fed() -> object:
            nonlocal written
            assert process.poll() is None, log_text()
            write_batch(rows, written)
            written += 1
            return true()

        until(fed, what, seen=log_text, pause_s=0.5)

    def log_text() -> str:
        return log.read_text(errors="replace")[-4_000:]

    conf = {
        "spark.tidemark.job": "shop",
        "spark.tidemark.controller.url": controller.url,
        "spark.tidemark.cache.dir": str(tmp_path / "bounds"),
        "spark.tidemark.watch.seconds": "2",
        "spark.tidemark.timeout.ms": "60000",
        "spark.tidemark.restart.marker": str(tmp_path / "marker.json"),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
    }
    command = [
        str(ROOT / "deploy" / "examples" / "spark-submit" / "keep-running.sh"),
        *("spark-submit", "--master", "local[2]", "--driver-memory", "1g"),
        *(word for key, value in conf.items() for word in ("--conf", f"{key}={value}")),
        str(ROOT / "spark_jobs" / "demo" / "examples" / "windowed_counts.py"),
        *("--files", str(rows), "--window", "5 seconds", "--bound", "1 second", "--trigger", "0 seconds"),
        *("--checkpoint", str(tmp_path / "checkpoint"), "--exit-on-new-bound", "--cooldown", "1 second"),
    ]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            stdout=output,
            stderr=output,
            env={
                **os.environ,
                "PATH": path,
                "JAVA_HOME": str(java.home),
                "PYSPARK_PYTHON": sys.executable,
                "SPARK_LOCAL_IP": "127.0.0.1",
            },
            start_new_session=True,
        )
    try:
        controller.put("slo", {"target_ppm": 900_000})
        feed_until(lambda: (controller.get().get("evidence") or {}).get("rows", 0) > 300, "300 rows")
        controller.put("policy", at_once("Restart"))
        feed_until(
            lambda: (controller.get().get("applied") or {}).get("source") == "controller",
            "an acknowledgement",
        )
        status = controller.get()
        process.terminate()
        process.wait(PATIENCE_S)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        controller.stop()
    text = log.read_text(errors="replace")
    assert "keep-running: a new bound; starting again" in text
    assert "keep-running: failed" not in text
    marker = json.loads((tmp_path / "marker.json").read_text())
    assert marker["bound_ms"] == status["applied"]["bound_ms"] > marker["before_ms"] == 1_000
