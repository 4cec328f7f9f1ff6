"""Seconds until a job's first query runs, with Tidemark's jar and without: each start is a driver of its own."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import pytest

from support.jars import built_jar, submit

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
            texts = [
                f"{name} {median(each):.2f} ({min(each):.2f} to {max(each):.2f})"
                for name, each in seconds.items()
            ]
            ratio = median(seconds["without"]) / median(seconds["with the jar"])
            print(f"{what}: {', '.join(texts)}: {ratio:.1f} times")
    assert {result["classes"] for result in found["with the jar"]} == {"tidemark"}
