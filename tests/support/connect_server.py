"""A Spark Connect server in a process of its own, from the installed PySpark."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark

from tidemark.spark_jobs.spark.checkpoint import LOCAL_SPARK
from tidemark.spark_jobs.spark.java import ensure_java

from support.patience import PATIENCE_S, until
from support.tree import ROOT

__all__ = ["running_connect_server"]

_READY = re.compile(r"Spark Connect server started at: \S*?:(\d+)")


@contextmanager
def running_connect_server(
    folder: Path, more: Mapping[str, str] | None = None, jar: Path | None = None, master: str = "local[2]"
) -> Iterator[str]:
    """Run a server with its log in ``folder``, and perhaps more conf and a jar; give its address.

    The functions that its clients send are unpickled beside it, so it is started where ``support`` can be imported.
    """
    ensure_java()
    confs = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.memory": "1g",
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.python.authenticate.socketTimeout": f"{round(PATIENCE_S)}s",
        **LOCAL_SPARK,
        **(more or {}),
    }
    command = [str(Path(sysconfig.get_path("scripts")) / "spark-submit"), "--master", master]
    for key, value in confs.items():
        command += ["--conf", f"{key}={value}"]
    if jar is not None:
        command += ["--jars", str(jar)]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    log = folder / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env={
                **os.environ,
                "SPARK_HOME": str(Path(pyspark.__file__).parent),
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONPATH": str(ROOT / "tests"),
            },
            stdout=output,
            stderr=output,
        )

    def port() -> str | None:
        text = log.read_text(encoding="utf-8", errors="replace")
        assert process.poll() is None, text[-4_000:]
        found = _READY.search(text)
        return found and found[1]

    try:
        yield f"sc://127.0.0.1:{until(port, 'the start of a Spark Connect server')}"
    finally:
        process.kill()
        process.wait()
