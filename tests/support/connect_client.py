"""A client of Spark Connect in a process without a JVM: it runs jobs and writes down what their listener reported.

    python -m support.connect_client ORDERS RESULTS

Both are pickles: a list of ``Order``, and of what came of each a ``Result``. It never stops its session, as few scripts
do, and has to end all the same.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from tidemark.models.wire import Acknowledgement, Report

from support.bound_server import BoundServer
from support.connect_sink import BegunBatches, Going, file_sink
from support.live_operators import KINDS, stream_of
from support.live_streams import Batches
from support.patience import PATIENCE_S
from support.restarts import (
    Controllers,
    RestartedJob,
    restarted_batches,
    restarted_between_batches,
    restarted_job,
    runs_of,
    started_anew,
)
from support.tree import ROOT

__all__ = ["ConnectJob", "Order", "Result", "batches_of", "run_client"]

JOB = "tidemark-tests"


@dataclass(frozen=True, kw_only=True)
class Order:
    """Which runs of one kind of query to make, and in which way."""

    kind: str
    folder: Path
    runs: tuple[int, ...]
    by_runner: bool = False


@dataclass(kw_only=True)
class Result:
    """What a client has of the runs of one kind of query."""

    reports: list[Report]
    acknowledgements: list[Acknowledgement]
    bounds_ms: dict[str, tuple[int, ...]]
    log: list[str] = field(default_factory=list)
    """What the whole process logged until then."""


class ConnectJob(RestartedJob):
    """Its sink runs in the server."""

    def __post_init__(self) -> None:
        self.begun, self.going = BegunBatches(self._out), Going(self._out)

    def sink(self) -> partial[None]:
        """Return a function that the server can unpickle."""
        return file_sink(self._out)

    @property
    def _out(self) -> Path:
        return self.folder / "out"


def batches_of(kind: str) -> tuple[Batches, Batches]:
    """Return the batches of a kind of query, and those that close its windows."""
    seed = f"{kind}, restarts"
    return stream_of(KINDS[kind], seed, restarted_batches(seed))


def job_of(spark: SparkSession | None, order: Order, controllers: Controllers) -> ConnectJob:
    """Return the job of an order."""
    kind = KINDS[order.kind]
    made = restarted_job(spark, order.folder, controllers, kind.operator, kind.plan, kind.output_mode)
    return ConnectJob(
        **{
            name: getattr(made, name)
            for name in ("spark", "folder", "inputs", "plan", "output_mode", "mode", "controllers")
        }
    )


def run_client(url: str, orders: Sequence[Order], folder: Path) -> list[Result]:
    """Let a client work off orders in a process that can start no Java; return what came of each.

    Raises:
        AssertionError: when it fails, or does not end; the message shows what it said.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted, found, log = (folder / name for name in ("orders", "results", "log"))
    wanted.write_bytes(pickle.dumps(list(orders)))
    hidden = ("JAVA_HOME", "SPARK_HOME", "PATH")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    with log.open("w") as output:
        code = subprocess.run(
            [sys.executable, "-m", "support.connect_client", str(wanted), str(found)],
            env={
                **environment,
                "SPARK_REMOTE": url,
                "PATH": str(folder),
                "PYTHONPATH": str(ROOT / "tests"),
            },
            stdout=output,
            stderr=output,
            check=False,
            timeout=PATIENCE_S,
        ).returncode
    assert code == 0, log.read_text()[-6_000:]
    results: list[Result] = pickle.loads(found.read_bytes())
    return results


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def _main(wanted: Path, found: Path) -> None:
    heard = _Lines()
    logging.getLogger("tidemark.spark").addHandler(heard)
    logging.getLogger("tidemark.spark").setLevel(logging.INFO)
    spark = (
        SparkSession.builder.appName(JOB)
        .config("spark.tidemark.cache.dir", str(found.parent / "bounds"))
        .config("spark.tidemark.timeout.ms", str(round(PATIENCE_S * 1_000)))
        .config("spark.tidemark.watch.seconds", "2")
        .getOrCreate()
    )
    results = []
    for order in pickle.loads(wanted.read_bytes()):
        batches, closing = batches_of(order.kind)
        runs = runs_of([batches], [closing])
        with BoundServer(JOB, "in") as server:
            controllers = Controllers({"in": server})
            job = job_of(spark, order, controllers)
            drive = restarted_between_batches if order.by_runner else started_anew
            drive(job, controllers, [(number, runs[number]) for number in order.runs])
        recorded = job.recorded["in"]
        results.append(
            Result(
                reports=recorded.reports,
                acknowledgements=recorded.acknowledgements,
                bounds_ms=job.bounds_ms,
                log=[*heard.lines],
            )
        )
    assert SparkContext._gateway is None, "there is a JVM"
    found.write_bytes(pickle.dumps(results))


if __name__ == "__main__":
    # What it pickles must have the names that others unpickle.
    from support.connect_client import _main as main

    main(*map(Path, sys.argv[1:]))
