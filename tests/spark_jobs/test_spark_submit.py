"""The example job as users run it: ``spark-submit --py-files``, where Tidemark is not installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.dataset as ds
import pytest
from numpy.typing import NDArray

from tidemark.models.base.operators import Int64s
from tidemark.spark_jobs.spark.checkpoint import LOCAL_SPARK
from tidemark.spark_jobs.spark.java import ensure_java

from support.archive import write_archive
from support.spark_streams import iso
from support.tree import ROOT

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.long]

EXAMPLE = ROOT / "spark_jobs" / "demo" / "examples" / "windowed_counts.py"
START_US = 1_767_225_600_000_000


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return the environment of a machine that has the dependencies, but not Tidemark."""
    folder = tmp_path_factory.mktemp("stranger")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    (site,) = (folder / "venv").glob("lib/python*/site-packages")
    # A folder named in a .pth file is searched, but the .pth files in it are not read: no editable install.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = folder / "venv" / "bin" / "python"
    probe = subprocess.run(
        [python, "-c", "import pyspark, httpx\nimport tidemark.models"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert "No module named 'tidemark" in probe.stderr, probe.stderr
    ensure_java()
    return {
        **{key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
    }


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the archive."""
    path = tmp_path_factory.mktemp("archive") / "tidemark-pyfiles.zip"
    write_archive(path)
    return path


def _submit(environment: dict[str, str], archive: Path, *arguments: str) -> str:
    submit = Path(sysconfig.get_path("scripts")) / "spark-submit"
    command = [sys.executable, str(submit)] if submit.suffix == ".py" else [str(submit)]
    command += [
        "--master",
        "local-cluster[1,1,1024]",
        "--py-files",
        str(archive),
        "--conf",
        "spark.ui.enabled=false",
    ]
    # The executor's JVM starts as fast as the driver's, and no program is started for each file of a checkpoint.
    quick = {"spark.executor.extraJavaOptions": os.environ.get("SPARK_SUBMIT_OPTS", ""), **LOCAL_SPARK}
    for key, value in quick.items():
        command += ["--conf", f"{key}={value}"]
    command += ["--conf", "spark.sql.shuffle.partitions=1", "--conf", "spark.sql.session.timeZone=UTC"]
    command += ["--conf", "spark.tidemark.job=example", str(EXAMPLE), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-40_000:]
    return done.stdout + done.stderr


def _windows(times_us: list[int]) -> Counter[int]:
    return Counter((time_us // 10_000_000 + 1) * 10_000_000 for time_us in times_us)


def test_rows_are_counted_by_windows_on_a_cluster(
    stranger: dict[str, str], archive: Path, tmp_path: Path
) -> None:
    """Executors of a cluster see neither the driver's folder nor an installed Tidemark."""
    rng = np.random.default_rng(3)
    event_us = np.sort(START_US + rng.integers(0, 120_000_000, 500))
    partition = rng.integers(0, 4, 500).astype(str)
    body = _submit(
        stranger,
        archive,
        *("--files", str(_write_files(tmp_path, event_us, partition)), "--trigger", "available-now"),
        *(
            "--bound",
            "0 seconds",
            "--output",
            str(tmp_path / "out"),
            "--checkpoint",
            str(tmp_path / "checkpoint"),
        ),
    )
    rows = ds.dataset(tmp_path / "out", format="parquet").to_table().to_pylist()
    counted = {round(row["end"].timestamp() * 1_000_000): row["rows"] for row in rows}
    truth = _windows(event_us.tolist())
    truth.pop(max(truth))  # its end is never reached

    assert "tidemark: job=example stream=events bound=0 s source=job" in body
    assert "running without" not in body, "the executors have the row counter's classes"
    assert truth == counted


def _write_files(folder: Path, event_us: Int64s, partition: NDArray[np.str_]) -> Path:
    rows = [
        json.dumps({"event_time": iso(each), "partition": name})
        for each, name in zip(event_us.tolist(), partition.tolist(), strict=True)
    ]
    (folder / "in").mkdir()
    for number, some in enumerate((rows[:200], rows[200:])):
        path = folder / "in" / f"{number}.json"
        path.write_text("\n".join(some) + "\n")
        os.utime(path, (1_000_000_000 + number, 1_000_000_000 + number))
    return folder / "in"
