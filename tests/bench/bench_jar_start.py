"""Seconds until a job's queries run, with Tidemark's jar and without: each start is a driver of its own."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from support.jars import built_jar, submit
from support.plain_jobs import confs_of, java_job, python_job, submitted, write_rows
from support.process_usage import memory_mb
from support.report_server import ReportServer

pytestmark = [pytest.mark.bench, pytest.mark.timeout(7200)]

RUNS = 7
SHOWN = {"plan_s": "adaptive_watermark", "start_s": "start()", "both_s": "both"}


def test_what_the_jar_saves_when_a_job_starts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jar = built_jar(tmp_path / "jar")
    found: dict[str, list[dict[str, Any]]] = {"with the jar": [], "without": []}
    for number in range(RUNS):  # side by side, so that both have the same neighbours
        for name, options in zip(found, (["--jars", str(jar)], []), strict=True):
            folder = tmp_path / f"{number}, {name}"
            folder.mkdir()
            result = submit(folder, "local[2]", *options)
            found[name].append({**result, "both_s": result["plan_s"] + result["start_s"]})

    with capsys.disabled():
        print(f"\nseconds, the median of {RUNS} drivers each, and their range")
        for key, what in SHOWN.items():
            seconds = {name: [result[key] for result in results] for name, results in found.items()}
            ratio = median(seconds["without"]) / median(seconds["with the jar"])
            print(f"{what}: {_beside(seconds)}: {ratio:.1f} times")
    assert {result["classes"] for result in found["with the jar"]} == {"tidemark"}


@pytest.mark.parametrize("job", [java_job, lambda _: python_job()], ids=["Java", "PySpark"])
def test_what_the_jar_costs_a_job_that_nobody_edited(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], job: Callable[[Path], list[str]]
) -> None:
    """Two queries, one after the other: the first one's start waits for Python, unless the plugin began with it."""
    rows, jars = write_rows(tmp_path / "rows"), ["--jars", str(built_jar(tmp_path / "jar"))]
    ways = {
        "without": [],
        "with the jar": jars,
        "with its plugin": [*jars, "--conf", "spark.plugins=tidemark.attach.TidemarkPlugin"],
    }
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with ReportServer() as controller:
        for number in range(RUNS):
            for way, options in ways.items():
                folder = tmp_path / f"{number}, {way}"
                folder.mkdir()
                program, name = job(folder), f"{number} {way}".replace(" ", "-")
                for what, figure in _one_driver(folder, controller, name, [*options, *program], rows).items():
                    found[what][way].append(figure)
        assert len({job for job, _ in controller.reports}) == 2 * RUNS, "each but those without the jar"

    with capsys.disabled():
        print(f"\nmedians of {RUNS} drivers each, and their range")
        for what, figures in found.items():
            print(f"{what}: {_beside(figures)}")


def _one_driver(
    folder: Path, controller: ReportServer, name: str, program: list[str], rows: Path
) -> dict[str, float]:
    """Run two queries in a driver of their own; return what it took, in seconds, and its side process, in MB."""
    began = time.monotonic()
    found: dict[str, float] = {}
    with submitted(folder, confs_of(controller, name), *program) as job:
        for query in ("first", "second"):
            found[f"start() of the {query} query, s"] = job.do(
                "start", query, "tumbling", rows, folder / query, folder / "checkpoints" / query
            )
            job.do("process")
            if query == "first":
                found["until all rows of the first query are out, s"] = time.monotonic() - began
            job.do("stop")
        for side in re.findall(r"side process (\d+) started", job.text()):
            found["resident memory of the side (RSS), MB"], found["its proportional share (PSS), MB"] = (
                memory_mb(int(side))
            )
        ending = time.monotonic()
        job.end()
        found["end of the driver, s"] = time.monotonic() - ending
        found["whole driver, s"] = time.monotonic() - began
    return found


def _beside(found: Mapping[str, list[float]]) -> str:
    return ", ".join(
        f"{name} {median(each):.2f} ({min(each):.2f} to {max(each):.2f})" for name, each in found.items()
    )
