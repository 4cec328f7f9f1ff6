"""Jobs that were never edited, in processes of their own: by which front end they run, and what comes out.

Each reads clicks of which some are late, and views of the same ids that are not. The last two files have one row each,
an hour later, so that every window closes and every row that was not dropped comes out.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from queue import Queue
from typing import IO, Any

import pyspark

from tidemark.spark_jobs.spark.checkpoint import LOCAL_SPARK
from tidemark.spark_jobs.spark.java import ensure_java

from support.archive import write_zip
from support.jar_build import javac
from support.patience import PATIENCE_S, until
from support.report_server import ReportServer
from support.tree import ROOT

__all__ = [
    "KINDS",
    "Job",
    "came_out",
    "clicks",
    "confs_of",
    "java_job",
    "python_job",
    "write_rows",
]

KINDS = ("tumbling", "session", "deduplication", "join")
SUPPORT = ROOT / "tests" / "support"
_FIRST_S = 1_700_000_000
_FILES, _ROWS, _LAST = 6, 40, 3_600
_CLOSING = -1
SPARK_HOME = Path(pyspark.__file__).parent


def write_rows(folder: Path, first: int = 0, end: int = _FILES + 2) -> Path:
    """Write some of the files of clicks and views; return their folder. A click in five is up to 40 seconds late."""
    for number in range(first, end):
        draw = random.Random(number)
        closing = number >= _FILES
        views, clicks = [], []
        for row in range(1 if closing else _ROWS):
            at = _FIRST_S + 10 * number + (_LAST if closing else draw.random() * 10)
            late = draw.uniform(8, 40) if row % 5 == 0 and not closing else 0
            identity = _CLOSING - number if closing else number * _ROWS + row
            clicks.append({"ts": _iso(at - late), "user": f"u{identity % 7}", "id": identity})
            views.append({"ts": _iso(at), "user": f"u{identity % 7}", "id": identity})
        for name, rows in (("clicks", clicks), ("views", views)):
            (folder / name).mkdir(parents=True, exist_ok=True)
            path = folder / name / f"{number:04}.json"
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
            os.utime(path, (_FIRST_S + number, _FIRST_S + number))  # in which order Spark reads them
    return folder


def clicks() -> int:
    """Return how many clicks there are, without those that close the windows."""
    return _FILES * _ROWS


def came_out(out: Path) -> int:
    """Return how many clicks have come out of a query, counted or themselves, without those that close the windows."""
    rows = (json.loads(line) for path in out.glob("*.json") for line in path.read_text().splitlines())
    return sum(row.get("count", 1) for row in rows if not _is_closing(row))


def _is_closing(row: dict[str, Any]) -> bool:
    if "id" in row:
        return bool(row["id"] < 0)
    return datetime.fromisoformat(row["start"]).timestamp() >= _FIRST_S + _LAST


def _iso(second: float) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat(timespec="milliseconds")


def confs_of(controller: ReportServer | None, job: str = "shop") -> dict[str, str]:
    """Return the conf lines of a job that is watched."""
    return {
        **({} if controller is None else {"spark.tidemark.controller.url": controller.url}),
        "spark.tidemark.python": sys.executable,
        "spark.tidemark.job": job,
        # On a loaded machine a Python that is well may need longer than the 20 s that a query waits for it by default.
        "spark.tidemark.start.timeout": "60s",
    }


@dataclass(slots=True)
class Job:
    """A job that does what it is told."""

    process: subprocess.Popen[str]
    log: Path
    said: Queue[str]
    orders: IO[str]

    def order(self, *words: object) -> None:
        """Tell the job what to do next."""
        self.orders.write(" ".join(map(str, words)) + "\n")
        self.orders.flush()

    def do(self, *words: object) -> float:
        """Let the job do something; return how long that took, in seconds."""
        self.order(*words)
        until(
            lambda: not self.said.empty() or self.process.poll() is not None,
            f"{words}",
            seen=lambda: self.text()[-4_000:],
        )
        answer = "the job has ended" if self.said.empty() else self.said.get()
        assert answer.startswith("> ok "), (words, answer[:500], self.text()[-4_000:])
        return float(answer.split()[-1])

    def text(self) -> str:
        """Return what the job's driver has logged."""
        return self.log.read_text(encoding="utf-8", errors="replace")

    def lines(self, what: str) -> list[str]:
        """Return the lines of the log that have something in them."""
        return [line for line in self.text().splitlines() if what in line]

    def end(self) -> None:
        """Let the job end as jobs do, and wait for it."""
        self.orders.close()
        assert self.process.wait(PATIENCE_S) == 0, self.text()[-4_000:]


@contextmanager
def submitted(
    folder: Path,
    confs: Mapping[str, str],
    *program: str,
    master: str = "local[2]",
    by: str = "spark-submit",
    answers: Path | None = None,
) -> Iterator[Job]:
    """Run a program by ``spark-submit``, or by another of Spark's, as long as the context lasts."""
    ensure_java()
    every = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **{key: str(value) for key, value in LOCAL_SPARK.items()},
        **confs,
    }
    command = [str(SPARK_HOME / "bin" / by), "--master", master]
    for key, value in every.items():
        command += ["--conf", f"{key}={value}"]
    with running(folder, [*command, *program], {"SPARK_LOCAL_IP": "127.0.0.1"}, answers) as job:
        yield job


@contextmanager
def running(
    folder: Path, command: list[str], variables: Mapping[str, str], answers: Path | None = None
) -> Iterator[Job]:
    """Run a command that reads what it is to do, and answers by its stdout or by a pipe."""
    folder.mkdir(parents=True, exist_ok=True)
    log, said, pipe = folder / "driver.log", Queue[str](), folder / "orders"
    os.mkfifo(pipe)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    environment |= {"SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable, **variables}
    environment["PLAIN_JOB_INPUT"] = str(pipe)
    with log.open("w") as errors:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )

    said_by = process.stdout if answers is None else os.fdopen(os.open(answers, os.O_RDWR))

    def listen() -> None:
        assert said_by is not None
        for line in said_by:
            at = line.find("> ")
            if at >= 0 and line[at + 2 :].startswith(("ok", "failed")):
                said.put(line[at:].strip())

    threading.Thread(target=listen, daemon=True).start()
    try:
        # Both ends: with one alone it would wait here until the job opens the other.
        with os.fdopen(os.open(pipe, os.O_RDWR), "w") as orders:
            yield Job(process, log, said, orders)
    finally:
        process.kill()
        process.wait()


def java_job(folder: Path) -> list[str]:
    """Return the arguments of ``spark-submit`` for the job in Java, which is compiled into ``folder``."""
    classes = folder / "classes"
    jars = SPARK_HOME / "jars"
    command = [javac(), "-nowarn", "-Xlint:none", "-cp", f"{jars}/*", "-d", str(classes)]
    subprocess.run([*command, str(SUPPORT / "PlainJob.java")], check=True)
    jar = folder / "plain-job.jar"
    write_zip(jar, {path.name: path.read_bytes() for path in classes.glob("*.class")})
    return ["--class", "PlainJob", str(jar)]


def python_job(*arguments: str) -> list[str]:
    """Return the arguments of ``spark-submit`` for the job in Python."""
    return [str(SUPPORT / "plain_job.py"), *arguments]
