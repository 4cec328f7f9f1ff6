"""Jobs on a standalone cluster (``support.spark_nodes``) in which something goes wrong, by front end, mode and fault.

PYTHONPATH=tests .venv/bin/python -m support.spark_cluster [--front NAME ...] [--fault NAME ...]

prints what became of the rows of a query, and keeps it in `spark_cluster.json` beside this file, from which `make docs`
makes its table. Each worker has a loopback address of its own. State is in RocksDB with a changelog; checkpoints, input
and output are in a folder that all can reach. The queries of all modes run at once, so that a fault comes upon all.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.front_ends import FRONT_ENDS, MODES, Cell, Site
from support.jar_build import build_jar
from support.patience import until
from support.plain_jobs import Job, confs_of, java_job, submitted, write_rows
from support.report_server import ReportServer
from support.spark_nodes import SHORT_LIVED, Cluster, kill, running_cluster

__all__ = ["FOUND", "SUPERVISED", "verdicts"]

FOUND = Path(__file__).with_name("spark_cluster.json")
"""By front end, fault and mode the late rows by the ledger and those missing in the sink, or what is wrong."""

_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
CONFS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.executor.extraJavaOptions": SHORT_LIVED,
    "spark.executor.heartbeat.maxFailures": "60",
    "spark.driver.extraJavaOptions": SHORT_LIVED,
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
_DYNAMIC = {
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "2s",
    "spark.dynamicAllocation.cachedExecutorIdleTimeout": "2s",
    "spark.dynamicAllocation.shuffleTracking.timeout": "2s",
}
_FILES, _FAULTY_FILE = 8, 3
"""During the batch of one of the files the fault comes about."""


@dataclass(frozen=True, slots=True)
class Work:
    """Queries over the same rows: called, they read what was written, and it returns when they have.

    Attributes:
        job: runs them.
        rows: their input.
        cells: the queries.
    """

    job: Job
    rows: Path
    cells: list[Cell]

    def __call__(self) -> object:
        return self.job.do("process")

    def start(self) -> None:
        """Start them, from their checkpoints if there are any."""
        for cell in self.cells:
            for key, value in cell.confs.items():
                self.job.do("conf", key, value)
            self.job.do("start", cell.name, cell.kind, self.rows, cell.out, cell.checkpoint)


# -- faults ---------------------------------------------------------------------------------------------------------


def _none(_: Cluster, work: Work) -> None:
    work()


@contextmanager
def _standing_still(executors: Iterable[int]) -> Iterator[None]:
    """Stop executors; how far the driver is, which gives its tasks to them all the same, is not seen from outside."""
    executors = list(executors)
    for executor in executors:
        kill(executor, signal.SIGSTOP)
    try:
        yield
    finally:
        for executor in executors:
            kill(executor, signal.SIGCONT)


def _in_background(work: Work) -> Callable[[], None]:
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


def _amid_tasks(cluster: Cluster, work: Work, fault: Callable[[], object]) -> None:
    """Let the fault come about while every executor has tasks."""
    with _standing_still(cluster.executors()):
        working = _in_background(work)
        time.sleep(2)
        fault()
    working()


def _executor_killed(cluster: Cluster, work: Work) -> None:
    _amid_tasks(cluster, work, lambda: kill(cluster.executors()[0]))


def _worker_gone(cluster: Cluster, work: Work) -> None:
    _amid_tasks(cluster, work, lambda: cluster.lose(cluster.busy_worker()))
    cluster.add_worker()


def _worker_decommissioned(cluster: Cluster, work: Work) -> None:
    worker = cluster.busy_worker()
    cluster.add_worker()
    working = _in_background(work)
    cluster.signal_worker(worker, signal.SIGPWR)
    working()


def _slow_worker(cluster: Cluster, work: Work) -> None:
    """Tasks of the executor that stands still are run again by speculation on the other."""
    with _standing_still(cluster.executors()[:1]):
        work()


def _executors_come_and_go(cluster: Cluster, work: Work) -> None:
    until(lambda: len(cluster.executors()) <= 1, "executors to go")
    work()


def _stage_again(cluster: Cluster, work: Work) -> None:
    """What the first try of a stage puts down is gone before the next stage reads it."""
    gone, before = set[str](), cluster.shuffle_files()
    running = threading.Event()

    def delete() -> None:
        while not running.wait(0.001):
            for path in cluster.shuffle_files() - before:
                shuffle = path.name.split("_")[1]
                if shuffle not in gone:
                    gone.add(shuffle)
                    path.unlink(missing_ok=True)

    thread = threading.Thread(target=delete, daemon=True)
    thread.start()
    try:
        work()
    finally:
        running.set()
        thread.join()
    tried = set(re.findall(r"FetchFailed\(.*?shuffleId=(\d+)", work.job.text()))
    assert len(gone & tried) >= len(work.cells), f"of {gone} only {tried} were tried again"


def _driver_killed(cluster: Cluster, work: Work) -> None:
    _next_driver(cluster, work, lambda _, driver: kill(driver))


def _driver_moved(cluster: Cluster, work: Work) -> None:
    _next_driver(cluster, work, lambda worker, _: cluster.lose(worker))
    cluster.add_worker()


def _next_driver(cluster: Cluster, work: Work, fault: Callable[[int, int], object]) -> None:
    found = cluster.driver()
    assert found is not None
    with _standing_still(cluster.executors()):
        work.job.order("process")
        time.sleep(2)
        fault(*found)
    work.start()
    work()


Fault = Callable[[Cluster, Work], None]
"""Has the queries read the file that was written, while something goes wrong."""
FAULTS: dict[str, Fault] = {
    "none": _none,
    "an executor is killed": _executor_killed,
    "a stage is tried again": _stage_again,
    "a slow worker, with speculation": _slow_worker,
    "a worker is decommissioned": _worker_decommissioned,
    "a worker is gone": _worker_gone,
}
DYNAMIC: dict[str, Fault] = {"executors come and go": _executors_come_and_go}
"""With dynamic allocation."""
DRIVERS: dict[str, Fault] = {
    "none": _none,
    "the driver is killed": _driver_killed,
    "the driver's host is gone": _driver_moved,
}
"""With the driver on a worker."""


# -- jobs -----------------------------------------------------------------------------------------------------------

SUPERVISED = "Java, supervised"
"""The job in Java with its driver on a worker, by ``--deploy-mode cluster --supervise``."""


def verdicts(folder: Path, jar: Path, front: str, faults: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """Yield fault, mode and what became of the rows: late by the ledger and missing in the sink, or what is wrong.

    Args:
        folder: for all files; it must be empty.
        jar: Tidemark's.
        front: the front end.
        faults: their names, in the order in which they come upon the cluster.
    """
    supervised = front == SUPERVISED
    orders = {"PLAIN_JOB_INPUT": str(folder / "job" / "orders"), "PLAIN_JOB_OUTPUT": str(folder / "answers")}
    with (
        ReportServer() as controller,
        running_cluster(folder / "cluster", 2 + supervised, orders if supervised else {}) as cluster,
    ):
        dynamic = _DYNAMIC if DYNAMIC.keys() >= set(faults) else {}
        site = Site(folder / "job", jar, {**confs_of(controller), **CONFS, **dynamic}, cluster.url)
        with (_supervised if supervised else FRONT_ENDS[front])(site) as job:
            for number, fault in enumerate(faults):
                place = folder / str(number)
                cells = [Cell(controller, place, "tumbling", mode, prefix=f"{number}-") for mode in MODES]
                work = Work(job, write_rows(place / "rows", 0, 1), cells)
                problem = _problem(cluster, work, (FAULTS | DYNAMIC | DRIVERS)[fault])
                for cell in cells:
                    yield fault, cell.mode, problem or _verdict(cell)


def _problem(cluster: Cluster, work: Work, fault: Fault) -> str | None:
    try:
        work.start()
        work()
        for file in range(1, _FILES):
            write_rows(work.rows, file, file + 1)
            until(lambda: len(cluster.executors()) > 1 or fault is _executors_come_and_go, "executors")
            (fault if file == _FAULTY_FILE else _none)(cluster, work)
        work.job.do("stop")
    except AssertionError as error:
        return str(error)[:2_000]
    return None


def _verdict(cell: Cell) -> str:
    try:
        return cell.verdict()
    except AssertionError as error:
        return str(error)[:2_000]


@contextmanager
def _supervised(site: Site) -> Iterator[Job]:
    answers = site.folder.parent / "answers"
    os.mkfifo(answers)
    site.folder.mkdir()
    confs = {**site.confs, "spark.standalone.submit.waitAppCompletion": "true"}
    program = ("--deploy-mode", "cluster", "--supervise", "--jars", str(site.jar), *java_job(site.folder))
    with submitted(site.folder, confs, *program, master=site.master, answers=answers) as job:
        yield job


_TRIED = {"Java": len(FAULTS), SUPERVISED: len(DRIVERS), "PySpark, with the line": 3}
"""How many of the faults come upon a front end, where it is more than two. That with the line has no jar, so that the
classes which count rows come to the executors in another way."""


def _applications(asked: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Return each application of the table: its front end, and the faults that come upon it."""
    for front in asked:
        every = DRIVERS if front == SUPERVISED else FAULTS
        yield front, list(every)[: _TRIED.get(front, 2)]
        if front == "Java":
            yield front, list(DYNAMIC)


def main() -> None:
    """Print the table, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--front", nargs="*", default=[*FRONT_ENDS, SUPERVISED])
    parser.add_argument("--fault", nargs="*", help="those of the table, if none is named")
    asked = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="tidemark-cluster-"))
    jar = build_jar(place)
    found = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else {}
    applications = (
        [(front, asked.fault) for front in asked.front] if asked.fault else _applications(asked.front)
    )
    for number, (front, faults) in enumerate(applications):
        folder = place / str(number)
        folder.mkdir()
        for fault, mode, said in verdicts(folder, jar, front, faults):
            print(f"{front}, {fault}, {mode}: {said}", flush=True)
            found.setdefault(front, {}).setdefault(fault, {})[mode] = said
        FOUND.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
