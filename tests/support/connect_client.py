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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from tidemark.models.protocol.messages import Acknowledgement, Report
from tidemark.spark_jobs import flush
from tidemark.spark_jobs.connect.explained import Explained, read_explained
from tidemark.spark_jobs.late.side import side
from tidemark.spark_jobs.spark.jvm import SparkContext

from support.bound_server import BoundServer
from support.connect_sink import CONFS, BegunBatches, Going, function_sink, json_sink
from support.live_operators import KINDS, stream_of
from support.live_streams import Batches
from support.patience import PATIENCE_S, until
from support.restarts import (
    OWN_BOUND,
    Controllers,
    RestartedJob,
    Run,
    restarted_batches,
    restarted_between_batches,
    restarted_job,
    runs_of,
    started_anew,
)
from support.spark_streams import RecordingSink
from support.tree import ROOT

__all__ = [
    "JOB",
    "ConnectJob",
    "Order",
    "Result",
    "batches_of",
    "client",
    "job_of",
    "numbered_runs",
    "results_in",
    "run_client",
]

JOB = "tidemark-tests"

_THIN = "SPARK_SKIP_CONNECT_COMPAT_TESTS"
"""PySpark's own: with it ``pyspark.util.is_remote_only()`` is true, and what needs a JVM is not imported."""


@dataclass(frozen=True, kw_only=True)
class Order:
    """Which runs of one kind of query to make, and in which way."""

    kind: str
    folder: Path
    runs: tuple[int, ...]
    by_runner: bool = False
    bound: str = OWN_BOUND
    """The job's own bound."""
    declared: bool = True
    """Whether the call names the operator."""
    hidden: bool = False
    """Whether the checkpoint is out of the client's reach."""
    breaks: bool = False
    """Whether the connection breaks over which the client gets its events, in the midst of the first run."""
    controller: str | None = None
    """Address of a controller that gets the reports; without it they are recorded, and a stand-in answers."""
    refused: bool = False
    """Whether only the plan is built, with all that a client cannot have."""
    stays: bool = False
    """Whether the query, of the first run, goes on until somebody ends the client."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """What a client has of the runs of one kind of query."""

    reports: list[Report]
    acknowledgements: list[Acknowledgement]
    bounds_ms: dict[str, tuple[int, ...]]
    log: list[str]


@dataclass
class ConnectJob(RestartedJob):
    """Its sink runs in the server."""

    by_function: bool = False
    """Whether the sink is a function, whose batches can be made to wait; the server starts a Python for each query."""

    def __post_init__(self) -> None:
        self.begun, self.going = BegunBatches(self.folder), Going(self.folder)

    def into_sink(self, writer: DataStreamWriter) -> DataStreamWriter:
        """Let a writer write into the sink."""
        if self.by_function:
            return writer.foreachBatch(function_sink(self.folder))
        return writer.format("json").option("path", str(json_sink(self.folder)))


def batches_of(kind: str) -> tuple[Batches, Batches]:
    """Return the batches of a kind of query, and those that close its windows."""
    seed = f"{kind}, restarts"
    return stream_of(KINDS[kind], seed, restarted_batches(seed))


def numbered_runs(order: Order) -> list[tuple[int, Run]]:
    """Return the runs of an order."""
    batches, closing = batches_of(order.kind)
    runs = runs_of([batches], [closing])
    return [(number, runs[number]) for number in order.runs]


def job_of(spark: Any, order: Order, controllers: Controllers) -> ConnectJob:
    """Return the job of an order; without a session it can be compared, but not run."""
    kind = KINDS[order.kind]
    make = partial(ConnectJob, by_function=order.by_runner)
    job = restarted_job(spark, order.folder, controllers, kind.operator, kind.plan, kind.output_mode, make)
    assert isinstance(job, ConnectJob)
    job.inputs = [replace(entry, bound=order.bound, declared=order.declared) for entry in job.inputs]
    return job


@contextmanager
def client(
    url: str, orders: Sequence[Order], folder: Path, *, thin: bool = False
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a client of a server that works off orders, in a process that can start no Java; kill it in the end.

    Args:
        url: the server.
        orders: the orders.
        folder: for its files.
        thin: whether PySpark behaves as ``pyspark-client`` does, which has no Py4J.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "orders").write_bytes(pickle.dumps(list(orders)))
    hidden = ("JAVA_HOME", "SPARK_HOME", "PATH")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    with (folder / "log").open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "support.connect_client", str(folder / "orders"), str(folder / "results")],
            env={
                **environment,
                **({_THIN: "1"} if thin else {}),
                "SPARK_REMOTE": url,
                "PATH": str(folder),
                "PYTHONPATH": str(ROOT / "tests"),
            },
            stdout=output,
            stderr=output,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def results_in(folder: Path) -> list[Result]:
    """Return what a client has written down."""
    found: list[Result] = pickle.loads((folder / "results").read_bytes())
    return found


def run_client(url: str, orders: Sequence[Order], folder: Path, *, thin: bool = False) -> list[Result]:
    """Let a client work off orders; return what came of each.

    Raises:
        AssertionError: when it fails; the message shows what it said.
        subprocess.TimeoutExpired: when it does not end.
    """
    with client(url, orders, folder, thin=thin) as process:
        assert process.wait(PATIENCE_S) == 0, (folder / "log").read_text()[-6_000:]
    return results_in(folder)


# -- the client's process -------------------------------------------------------------------------------------


class _Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def _hidden_checkpoints() -> Iterator[None]:
    """Let the client look for checkpoints where none are, as one that has no rights to them."""
    import pytest

    def read(text: str) -> Explained | None:
        found = read_explained(text)
        return found and replace(found, checkpoint="file:/not/there")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tidemark.spark_jobs.connect.query.read_explained", read)
        yield


def _work_off(spark: SparkSession, order: Order, heard: _Lines) -> tuple[ConnectJob, Result]:
    heard.lines.clear()
    with BoundServer(JOB, "in") as server:
        controllers = Controllers({"in": server})
        job = job_of(spark, order, controllers)
        if order.controller is not None:
            job.controllers, job.sends = {"in": order.controller}, True
            for _, groups in numbered_runs(order):
                job.run(groups)
        elif order.refused:
            _build_what_is_refused(job, controllers, heard)
        elif order.breaks:
            _break(spark, job, controllers, *numbered_runs(order))
        elif order.stays:
            _stay(job, controllers, *numbered_runs(order))
        elif order.by_runner:
            restarted_between_batches(job, controllers, numbered_runs(order))
        else:
            started_anew(job, controllers, numbered_runs(order))
    recorded = job.recorded.setdefault("in", RecordingSink())
    return job, Result(
        reports=[*recorded.reports],
        acknowledgements=[*recorded.acknowledgements],
        bounds_ms=job.bounds_ms,
        log=[*heard.lines],
    )


def _stay(job: ConnectJob, controllers: Controllers, run: tuple[int, Run]) -> None:
    """Run the query of a job, report all that is there, and leave it running."""
    number, groups = run
    controllers.publish(number, "OnRestart")
    for group in groups:
        job.publish(group)
    job.start().processAllAvailable()
    until(lambda: len(job.recorded["in"].reports) == len(job.log()), "the reports of all batches")


def _build_what_is_refused(job: ConnectJob, controllers: Controllers, heard: _Lines) -> None:
    controllers.publish(0, "Live")
    job.inputs = [replace(entry, ceiling="10 minutes") for entry in job.inputs]
    job.frame()
    job.late = side(str(job.folder / "late"), parse=lambda df: df)
    try:
        job.frame()
    except NotImplementedError as error:
        heard.lines.append(str(error))


def _break(spark: Any, job: ConnectJob, controllers: Controllers, run: tuple[int, Run]) -> None:
    """Run the query of a job, and break off its events between two groups: Spark then drops all listeners."""
    import pytest

    from tidemark.spark_jobs.connect import listening

    def fail(event: object) -> None:
        raise ConnectionError("the connection broke")

    number, (first, second) = run
    controllers.publish(number, "OnRestart")
    job.publish(first)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(listening, "CHECK_S", 0.1)
        query = job.start()
        query.processAllAvailable()
        with pytest.MonkeyPatch.context() as broken:
            broken.setattr(spark.streams._sqlb, "deserialize", fail)
            job.publish(second)
            query.processAllAvailable()
        until(lambda: len(job.recorded["in"].reports) == len(job.log()), "the reports of all batches")
        query.stop()
        assert flush(PATIENCE_S), "the listener was not added again"


def _main(wanted: Path, found: Path) -> None:
    heard = _Lines()
    logging.getLogger("tidemark.spark").addHandler(heard)
    logging.getLogger("tidemark.spark").setLevel(logging.INFO)
    spark = (
        SparkSession.builder.appName(JOB)
        .config("spark.tidemark.cache.dir", str(found.parent / "bounds"))
        .config("spark.tidemark.timeout.ms", str(round(PATIENCE_S * 1_000)))
        .config("spark.tidemark.watch.seconds", "2")
        .config("spark.sql.streaming.metricsEnabled", "true")
        .config(map=CONFS)
        .getOrCreate()
    )
    results, staying = [], list[StreamingQuery]()
    for order in pickle.loads(wanted.read_bytes()):
        with _hidden_checkpoints() if order.hidden else nullcontext():
            job, result = _work_off(spark, order, heard)
        results.append(result)
        if order.stays and job.query is not None:
            staying.append(job.query)
    assert SparkContext._gateway is None, "there is a JVM"
    assert _THIN not in os.environ or "py4j" not in sys.modules, "there is Py4J"
    hidden = found.with_suffix(".hidden")
    hidden.write_bytes(pickle.dumps(results))
    hidden.rename(found)
    for query in staying:
        query.awaitTermination()


if __name__ == "__main__":
    # What it pickles must have the names that others unpickle.
    from support.connect_client import _main as main

    main(*map(Path, sys.argv[1:]))
