"""A standalone Spark cluster on this machine: master, workers, drivers and executors, each a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from support.patience import until
from support.plain_jobs import SPARK_HOME

__all__ = ["SHORT_LIVED", "Cluster", "kill", "running_cluster"]

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a JVM that ends after minutes."""
_DRIVER, _EXECUTOR = b"org.apache.spark.deploy.worker.DriverWrapper", b"CoarseGrainedExecutorBackend"


class Cluster:
    """A running cluster.

    Args:
        folder: for logs and what the workers keep.
        variables: more of the workers' environment, and so of the drivers' that run on them.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self._folder, self._variables = folder, variables
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
        number = len(self._workers)
        name, host = f"worker{number}", f"127.0.0.{2 + number}"
        before = self._log("master").count("Registering worker")
        kept = ("--cores", "1", "--memory", "1g", "--work-dir", str(self._folder / name))
        worker = self._start(name, "org.apache.spark.deploy.worker.Worker", *kept, self.url, host=host)
        self._workers.append(worker)
        until(lambda: self._log("master").count("Registering worker") > before, f"{name} at the master")

    def executors(self, worker: int | None = None) -> list[int]:
        """Return the processes of executors: of a worker, or of all that live."""
        return self._processes(_EXECUTOR, worker)

    def driver(self) -> tuple[int, int] | None:
        """Return the worker that runs the driver, and the driver's process; None where none runs."""
        found = [
            (number, one) for number in range(len(self._workers)) for one in self._processes(_DRIVER, number)
        ]
        return found[0] if found else None

    def busy_worker(self) -> int:
        """Return a worker that has an executor."""
        return next(number for number in range(len(self._workers)) if self.executors(number))

    def lose(self, worker: int) -> None:
        """End a worker and all that runs on it, as when its host is gone."""
        started = [self._workers[worker].pid]
        for process in started:
            started += children(process)
        for process in started:
            kill(process)

    def shuffle_files(self) -> set[Path]:
        """Return what the executors keep of shuffles."""
        return set(self._folder.glob("worker*-local/*/*/blockmgr-*/*/shuffle_*.data"))

    def signal_worker(self, worker: int, number: signal.Signals) -> None:
        """Send a signal to a worker."""
        self._workers[worker].send_signal(number)

    def stop(self) -> None:
        """End every process."""
        started = [*self.executors(), *self._processes(_DRIVER)]
        for process in (*self._workers, self._master):
            process.kill()
            process.wait()
        for one in started:
            kill(one, signal.SIGKILL)

    def _processes(self, kind: bytes, worker: int | None = None) -> list[int]:
        workers = self._workers if worker is None else [self._workers[worker]]
        return [
            child
            for one in workers
            if one.poll() is None
            for child in children(one.pid)
            if kind in _command(child)
        ]

    def _start(
        self, name: str, main: str, *arguments: str, host: str = "127.0.0.1"
    ) -> subprocess.Popen[bytes]:
        command = [str(SPARK_HOME / "bin" / "spark-class"), main, "--host", host, "--webui-port", "0"]
        variables = {
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": host,
            "SPARK_LOCAL_DIRS": str(self._folder / f"{name}-local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": f"-Dspark.decommission.enabled=true {SHORT_LIVED}",
            **self._variables,
        }
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [*command, *arguments], env=os.environ | variables, cwd=self._folder, stdout=log, stderr=log
            )

    def _log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")


def children(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def _command(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> None:
    """Send a signal to a process, if it lives."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


@contextmanager
def running_cluster(
    folder: Path, workers: int = 2, variables: Mapping[str, str] | None = None
) -> Iterator[Cluster]:
    """Run a cluster with some workers as long as the context lasts."""
    folder.mkdir()
    cluster = Cluster(folder, variables or {})
    try:
        for _ in range(workers):
            cluster.add_worker()
        yield cluster
    finally:
        cluster.stop()
