"""Whether the ledger of a job equals its sink, by front end, mode and kind of query. All but the first are unedited.

PYTHONPATH=tests .venv/bin/python -m support.front_ends [--front NAME ...] [--mode NAME ...] [--kind NAME ...]

What comes of it is kept in `front_ends.json` beside this file, from which `make docs` makes its table.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tidemark.models.evidence.ledger import Tally, judge
from tidemark.spark_jobs.attach import pyspark_run

from support.connect_server import running_connect_server
from support.jar_build import build_jar
from support.patience import until
from support.plain_jobs import (
    KINDS,
    SPARK_HOME,
    SUPPORT,
    Job,
    came_out,
    clicks,
    confs_of,
    java_job,
    python_job,
    running,
    submitted,
    write_rows,
)
from support.report_server import ReportServer

__all__ = ["FOUND", "FRONT_ENDS", "MODES", "Cell", "Site", "verdicts"]

FOUND = Path(__file__).with_name("front_ends.json")
"""By front end, mode and kind of query the late rows by the ledger and by the sink, or what is wrong."""

MODES = ("Off", "OnRestart", "Live")
_BOUND_MS = {"OnRestart": 15_000, "Live": 2_000}


class Cell:
    """One query in one mode.

    Args:
        controller: what its reports go to.
        folder: where it puts out.
        kind: its kind.
        mode: its mode.
        prefix: what its name begins with.
    """

    def __init__(
        self, controller: ReportServer, folder: Path, kind: str, mode: str, prefix: str = ""
    ) -> None:
        self.controller, self.kind, self.mode = controller, kind, mode
        self.name = f"{prefix}{kind}-{mode}".lower()
        self.out = folder / self.name
        self.checkpoint = folder / "checkpoints" / self.name
        if mode in _BOUND_MS:
            controller.publish(self.name, mode, _BOUND_MS[mode])  # type: ignore[arg-type]

    @property
    def confs(self) -> dict[str, str]:
        """What the conf says of it."""
        live = self.mode == "Live"
        return {
            "spark.tidemark.job": self.name,
            "spark.tidemark.mode": self.mode,
            **({"spark.tidemark.ceiling": "60s"} if live else {}),
        }

    def verdict(self) -> str:
        """Return the late rows by the ledger and by the sink, or what is wrong."""
        found = [
            reports
            for (job, stream), reports in self.controller.reports.items()
            if job == self.name and stream.endswith("ts")
        ]
        if not found:
            return "not watched"
        (reports,) = found
        until(lambda: sum(each.rows for each in reports) >= clicks() + 2, f"the reports of {self.name}")
        judged = [judge(report) for report in reports]
        late = sum((each.total for each in judged), Tally())
        if any(each.unjudged_rows for each in judged):
            return f"not judged: {next(each.contradiction for each in reports if each.contradiction)}"
        lost = clicks() - came_out(self.out)
        # Keys that are no windows are counted by the second, so that some of a second's rows are uncertain.
        ledger = (
            f"{late.late_min}" if late.late_min == late.late_max else f"{late.late_min} to {late.late_max}"
        )
        same = "=" if late.late_min <= lost <= late.late_max else "≠"
        bounds = {report.bound_ms for report in reports if report.live is None}
        wrong = (
            []
            if self.mode == "Live" or bounds == {_BOUND_MS.get(self.mode, 10_000)}
            else [f"bounds {bounds}"]
        )
        if self.mode == "Live" and any(report.live is None for report in reports):
            wrong.append("not live")
        return ", ".join([f"{ledger} {same} {lost}", *wrong])


@dataclass(frozen=True, slots=True)
class Site:
    """Where a job runs: its folder, Tidemark's jar, the master of its Spark, and what its conf says."""

    folder: Path
    jar: Path
    confs: Mapping[str, str]
    master: str = "local[2]"


Front = Callable[[Site], AbstractContextManager[Job]]
"""Runs the job of a front end."""


@contextmanager
def _by_submit(
    site: Site, *, jars: bool, program: Callable[[Path], list[str]], by: str = "spark-submit"
) -> Iterator[Job]:
    options = ["--jars", str(site.jar)] if jars else []
    arguments = [*options, *program(site.folder)]
    with submitted(site.folder, site.confs, *arguments, master=site.master, by=by) as job:
        yield job


@contextmanager
def _over_connect(site: Site) -> Iterator[Job]:
    site.folder.mkdir(exist_ok=True)
    with running_connect_server(site.folder, site.confs, site.jar, site.master) as url:
        command = [sys.executable, str(SUPPORT / "plain_job.py")]
        with running(site.folder / "client", command, {"SPARK_REMOTE": url}) as job:
            yield job


PIPELINE = "Declarative Pipeline"
FRONT_ENDS: dict[str, Front] = {
    "PySpark, with the line": partial(
        _by_submit, jars=False, program=lambda _: python_job("--with-the-line")
    ),
    "PySpark": partial(_by_submit, jars=True, program=lambda _: python_job()),
    "`tidemark run`": partial(
        _by_submit, jars=False, program=lambda _: [str(pyspark_run.__file__), *python_job()]
    ),
    "Java": partial(_by_submit, jars=True, program=java_job),
    "Scala in spark-shell": partial(
        _by_submit, jars=True, program=lambda _: ["-I", str(SUPPORT / "plain_job.scala")], by="spark-shell"
    ),
    "Connect client": _over_connect,
}


Cells = Iterable[tuple[str, str]]
"""Modes and kinds."""


def verdicts(front: str, folder: Path, jar: Path, cells: Cells) -> Iterator[tuple[str, str, str]]:
    """Yield mode, kind and verdict of what a front end runs, one after the other."""
    rows = write_rows(folder / "rows")
    with ReportServer() as controller:
        if front == PIPELINE:
            yield from _pipelines(folder, controller, jar, rows, cells)
            return
        with FRONT_ENDS[front](Site(folder, jar, confs_of(controller))) as job:
            for mode, kind in cells:
                cell = Cell(controller, folder, kind, mode)
                try:
                    for key, value in cell.confs.items():
                        job.do("conf", key, value)
                    job.do("run", cell.name, kind, rows, cell.out, cell.checkpoint)
                    yield mode, kind, cell.verdict()
                except AssertionError as error:
                    yield mode, kind, str(error)[:300]


def _pipelines(
    folder: Path, controller: ReportServer, jar: Path, rows: Path, cells: Cells
) -> Iterator[tuple[str, str, str]]:
    for mode, kind in cells:
        cell = Cell(controller, folder, kind, mode)
        cell.out = folder / "warehouse" / cell.name.replace("-", "_")
        yield mode, kind, _pipeline(folder / f"{cell.name}-pipeline", rows, cell, jar)


def _pipeline(folder: Path, rows: Path, cell: Cell, jar: Path) -> str:
    """Run a pipeline with one table, and return the verdict."""
    folder.mkdir(parents=True)
    table = cell.out.name
    (folder / "table.py").write_text((SUPPORT / "plain_pipeline.py").read_text())
    (folder / "spark-pipeline.yml").write_text(
        f"name: {cell.name}\nstorage: file://{folder}/storage\nlibraries:\n  - glob:\n      include: table.py\n"
        f"configuration:\n  spark.plain.rows: {rows}\n  spark.plain.table: {table}\n  spark.plain.kind: {cell.kind}\n"
    )
    # What --conf says is the conf of a client's session; the server that runs the pipeline reads this file.
    confs = {
        **confs_of(cell.controller),
        **cell.confs,
        "spark.jars": str(jar),
        "spark.sql.warehouse.dir": str(cell.out.parent),
        "spark.sql.sources.default": "json",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
    }
    (folder / "spark-defaults.conf").write_text("".join(f"{key} {value}\n" for key, value in confs.items()))
    command = [str(SPARK_HOME / "bin" / "spark-pipelines"), "run"]
    environment = os.environ | {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_CONF_DIR": str(folder),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(SUPPORT.parent),
    }
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    (folder / "log").write_text(done.stdout + done.stderr)
    return cell.verdict() if done.returncode == 0 else f"ended with {done.returncode}: see {folder}/log"


def main() -> None:
    """Print the table, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--front", nargs="*", default=[*FRONT_ENDS, PIPELINE])
    parser.add_argument("--mode", nargs="*", default=list(MODES))
    parser.add_argument("--kind", nargs="*", default=list(KINDS))
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp(prefix="tidemark-front-ends-"))
    jar = build_jar(place)
    found = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else {}
    for number, front in enumerate(given.front):
        folder = place / str(number)
        folder.mkdir()
        began = time.monotonic()
        every = [(mode, kind) for mode in given.mode for kind in given.kind]
        for mode, kind, said in verdicts(front, folder, jar, every):
            print(f"{front}, {mode}, {kind}: {said}", flush=True)
            found.setdefault(front, {}).setdefault(mode, {})[kind] = said
        print(f"{front}: {time.monotonic() - began:.0f} s", flush=True)
        FOUND.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
