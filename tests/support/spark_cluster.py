"""A standalone Spark cluster on this machine: a master, workers and executors, each in a process of its own.

PYTHONPATH=tests .venv/bin/python -m support.spark_cluster [--mode NAME ...] [--fault NAME ...]

prints what became of the rows of a query in which a fault comes about, by mode and fault. The job is in Java. State is
in RocksDB with a changelog; checkpoints, input and output are in a folder that all can reach.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from support.front_ends import MODES, Cell
from support.jar_build import build_jar
from support.patience import until
from support.plain_jobs import (
    SPARK_HOME,
    confs_of,
    java_job,
    submitted,
    write_rows,
)
from support.report_server import ReportServer

__all__ = ["FAULTS", "verdicts"]

_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CONFS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.sql.streaming.stateStore.providerClass": _ROCKS,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.decommission.enabled": "true",
    "spark.storage.decommission.enabled": "true",
    "spark.storage.decommission.shuffleBlocks.enabled": "true",
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.task.duration.threshold": "2s",
    "spark.network.timeout": "120s",
    "spark.task.maxFailures": "8",
}
"""What the conf of a job says there."""
_FAULTY_FILE = 3
"""During the batch of this file the fault comes about."""


class Cluster:
    """A running cluster.

    Args:
        folder: for logs and what the workers keep.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._workers: list[subprocess.Popen[bytes]] = []
        self._master = self._start("master", "org.apache.spark.deploy.master.Master", "--port", "0")
        found = until(
            lambda: re.search(r"Starting Spark master at (spark://\S+)", self._log("master")), "the master"
        )
        assert found is not None
        self.url = found[1]
        """Its address."""

    def add_worker(self) -> None:
        """Start a worker and wait until the master has it."""
        name = f"worker{len(self._workers)}"
        before = self._log("master").count("Registering worker")
        kept = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name))
        worker = self._start(name, "org.apache.spark.deploy.worker.Worker", *kept, self.url)
        self._workers.append(worker)
        until(lambda: self._log("master").count("Registering worker") > before, f"{name} at the master")

    def executors(self, worker: int | None = None) -> list[int]:
        """Return the processes of executors: of a worker, or of all that live."""
        workers = self._workers if worker is None else [self._workers[worker]]
        return [child for one in workers if one.poll() is None for child in _children(one.pid)]

    def signal_worker(self, worker: int, number: signal.Signals) -> None:
        """Send a signal to a worker."""
        self._workers[worker].send_signal(number)

    def stop(self) -> None:
        """End every process."""
        for executor in self.executors():
            _kill(executor, signal.SIGKILL)
        for process in (*self._workers, self._master):
            process.kill()
            process.wait()

    def _start(self, name: str, main: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [str(SPARK_HOME / "bin" / "spark-class"), main, "--host", "127.0.0.1", "--webui-port", "0"]
        variables = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": "-Dspark.decommission.enabled=true",
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*command, *arguments], env=os.environ | variables, cwd=self._folder, stdout=log, stderr=log
            )

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [
        child
        for child in children
        if b"CoarseGrainedExecutorBackend" in Path(f"/proc/{child}/cmdline").read_bytes()
    ]


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


@contextmanager
def running_cluster(folder: Path, workers: int = 2) -> Iterator[Cluster]:
    """Run a cluster with some workers as long as the context lasts."""
    folder.mkdir()
    cluster = Cluster(folder)
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.stop()


# -- faults ---------------------------------------------------------------------------------------------------------

Work = Callable[[], object]
"""Has the job read the file that was written, and returns when it has."""


def _stopped(cluster: Cluster, work: Work, fault: Callable[[list[int]], None]) -> None:
    """Let the fault come about while every executor has tasks: all stand still from before the batch."""
    executors = cluster.executors()
    for executor in executors:
        _kill(executor, signal.SIGSTOP)
    working = _in_background(work)
    # The driver gives its tasks to executors that say nothing; how far it is cannot be seen from outside.
    time.sleep(2)
    fault(executors)
    for executor in executors:
        _kill(executor, signal.SIGCONT)
    working()


def _in_background(work: Work) -> Work:
    failures: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised where the thread is joined
            failures.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()

    def join() -> None:
        thread.join()
        if failures:
            raise failures[0]

    return join


def _executor_killed(cluster: Cluster, work: Work) -> None:
    _stopped(cluster, work, lambda executors: _kill(executors[0], signal.SIGKILL))


def _worker_gone(cluster: Cluster, work: Work) -> None:
    def fault(_: list[int]) -> None:
        lost = cluster.executors(0)
        cluster.signal_worker(0, signal.SIGKILL)
        for executor in lost:
            _kill(executor, signal.SIGKILL)

    _stopped(cluster, work, fault)


def _worker_decommissioned(cluster: Cluster, work: Work) -> None:
    cluster.add_worker()
    working = _in_background(work)
    cluster.signal_worker(0, signal.SIGPWR)
    working()


def _slow_worker(cluster: Cluster, work: Work) -> None:
    """Tasks of the executor that stands still are run again by speculation on the other."""
    slow, *_ = cluster.executors()
    _kill(slow, signal.SIGSTOP)
    try:
        work()
    finally:
        _kill(slow, signal.SIGCONT)


def _executors_come_and_go(cluster: Cluster, work: Work) -> None:
    until(lambda: len(cluster.executors()) <= 1, "executors to go")
    work()


FAULTS: dict[str, Callable[[Cluster, Work], object]] = {
    "none": lambda _, work: work(),
    "an executor is killed": _executor_killed,
    "a worker is gone": _worker_gone,
    "a worker is decommissioned": _worker_decommissioned,
    "a slow worker, with speculation": _slow_worker,
    "executors come and go": _executors_come_and_go,
}
"""By name what happens in the cluster while a batch is worked off."""
_DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "2s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
}


# -- jobs -----------------------------------------------------------------------------------------------------------


def verdicts(folder: Path, jar: Path, mode: str, faults: list[str]) -> Iterator[tuple[str, str]]:
    """Yield each fault with what became of the rows: late by the ledger and missing in the sink, or what is wrong."""
    for number, fault in enumerate(faults):
        place = folder / str(number)
        place.mkdir()
        try:
            yield fault, _verdict(place, jar, mode, fault)
        except AssertionError as error:
            yield fault, str(error)[:2_000]


def _verdict(folder: Path, jar: Path, mode: str, fault: str) -> str:
    with ReportServer() as controller, running_cluster(folder / "cluster") as cluster:
        cell = Cell(controller, folder, "tumbling", mode)
        confs = {**confs_of(controller), **CONFS, **cell.confs}
        if FAULTS[fault] is _executors_come_and_go:
            confs |= _DYNAMIC
        program = ("--jars", str(jar), *java_job(folder))
        with submitted(folder / "job", confs, *program, master=cluster.url) as job:
            rows = write_rows(folder / "rows", 0, 1)
            job.do("start", cell.name, cell.kind, rows, cell.out, cell.checkpoint)
            job.do("process")
            for file in range(1, 8):
                write_rows(rows, file, file + 1)
                if file == _FAULTY_FILE:
                    FAULTS[fault](cluster, partial(job.do, "process"))
                else:
                    job.do("process")
            return cell.verdict()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mode", nargs="*", default=list(MODES))
    parser.add_argument("--fault", nargs="*", default=[*FAULTS])
    asked = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="tidemark-cluster-"))
    jar = build_jar(place)
    for mode in asked.mode:
        folder = place / mode
        folder.mkdir()
        for fault, said in verdicts(folder, jar, mode, asked.fault):
            print(f"{mode}, {fault}: {said}", flush=True)


if __name__ == "__main__":
    main()
