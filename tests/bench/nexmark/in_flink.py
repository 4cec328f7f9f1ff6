"""Runs the query in Flink: one job in one JVM, with a source, a watermark and a topic for each setting."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tidemark.models.backtest.flink import Flink
from tidemark.spark_jobs.demo.kafka_jars import Artifact, resolve_jars
from tidemark.spark_jobs.spark.java import ensure_java

from bench.nexmark.bids import WINDOW_S
from support.tree import ROOT

__all__ = ["FLINK_TICK_MS", "flink_python", "flink_version", "running_flink"]

FLINK_TICK_MS = 200
"""Flink's ``pipeline.auto-watermark-interval``, as it is unless set."""

_CONNECTOR = Artifact("org.apache.flink", "flink-sql-connector-kafka", "5.0.0-2.2")


def flink_python() -> Path | None:
    """Return the interpreter with PyFlink that `make benchmark` installs, None where it could not."""
    folder = ROOT / "build" / "flink"
    return folder / "bin" / "python" if (folder / ".ready").exists() else None


def flink_version() -> str:
    """Return the version that the benchmark names."""
    return (
        Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8").strip().rpartition("==")[2]
    )


@contextmanager
def running_flink(
    python: Path, folder: Path, servers: str, topic: str, settings: Mapping[str, Flink]
) -> Iterator[None]:
    """Run the query with each setting; its results go into the topic of that name.

    Raises:
        RuntimeError: when Flink ends before the context does; the message holds its output.
        JarsNotFound: when Flink's Kafka connector is not to be had.
    """
    folder.mkdir()
    jars = resolve_jars("flink-kafka", [_CONNECTOR], without=[])
    given = {
        "configuration": {
            "parallelism.default": "1",
            "pipeline.auto-watermark-interval": f"{FLINK_TICK_MS} ms",
            "pipeline.jars": ";".join(jar.as_uri() for jar in jars),
            "table.local-time-zone": "UTC",
        },
        "shared": {"servers": servers, "topic": topic, "window_s": WINDOW_S},
        "settings": [
            {"results": name, "bound_s": flink.bound_us / 1e6, "idle_ms": (flink.idle_us or 0) // 1_000}
            for name, flink in settings.items()
        ],
    }
    command = [str(python), str(Path(__file__).with_name("flink_job.py")), json.dumps(given)]
    environment = {**os.environ, "JAVA_HOME": str(ensure_java().home)}
    log = folder / "flink.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )
    try:
        yield
        if process.poll() is not None:
            raise RuntimeError(f"Flink ended: {log.read_text(errors='replace')[-4_000:]}")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
