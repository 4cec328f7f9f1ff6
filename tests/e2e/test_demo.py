"""``tidemark demo`` as a user runs it: a process of its own, on a small trace, with nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from tidemark.spark_jobs.demo.generator import generate
from tidemark.spark_jobs.demo.plan import write_trace
from tidemark.spark_jobs.kafka.jars import broker_jars, connector_jars

from support.kafka import or_skip
from support.patience import PATIENCE_S

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a minute of the fleet, a few rows a second."""
    path = tmp_path / "fleet.parquet"
    write_trace(path, generate(60, 40, 5))
    return path


def _demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(folder), "COLUMNS": "200"}
    command = [sys.executable, "-m", "tidemark.controller", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def _column(body: str, row: str) -> list[str]:
    (line,) = [line for line in body.splitlines() if row in line and "│" in line]
    return [cell.strip() for cell in line.strip("│").split("│")][1:]


def _assert_gone(body: str) -> None:
    """The controller that the driver's line names must not answer any more."""
    (url,) = set(re.findall(r"controller=(http://\S+)", body))
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/livez", timeout=PATIENCE_S)


@pytest.mark.soak
def test_a_demo_that_is_terminated_in_the_middle_takes_its_controller_along(
    tmp_path: Path, trace: Path
) -> None:
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "tidemark.controller", "demo", "--trace", str(trace), "--window", "5s"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "COLUMNS": "200"},
    ) as running:
        assert running.stdout is not None
        body = ""
        for line in running.stdout:
            body += line
            if "controller=http" in line:
                break
        running.terminate()
        body += running.stdout.read()

    assert running.returncode == 128 + signal.SIGTERM, body
    _assert_gone(body)
    assert not list((tmp_path / "tmp").glob("tidemark-demo-*"))


def test_it_compares_two_bounds_and_leaves_nothing_running(tmp_path: Path, trace: Path) -> None:
    (tmp_path / "tmp").mkdir()
    done = _demo(
        tmp_path / "tmp",
        "--trace",
        str(trace),
        "--window",
        "5s",
        "--guess",
        "0s",
        "--target",
        "0.99",
        "--slots",
        "24",
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "coarsened to" in done.stdout
    guessed, recommended = _column(done.stdout, "completeness")
    bounds = _column(done.stdout, "bound")
    assert bounds[0] == "0 s"
    assert bounds[1] != "0 s"
    assert float(guessed.removesuffix(" %")) < 98 < float(recommended.removesuffix(" %"))
    assert not list((tmp_path / "tmp").glob("tidemark-demo-*"))
    _assert_gone(done.stderr)


@pytest.mark.soak
def test_through_kafka_it_compares_two_bounds_and_leaves_nothing_running(tmp_path: Path, trace: Path) -> None:
    or_skip(broker_jars)
    or_skip(connector_jars)
    (tmp_path / "tmp").mkdir()
    arguments = ("--kafka", "--trace", str(trace), "--window", "5s", "--guess", "0s", "--target", "0.99")
    done = _demo(tmp_path / "tmp", *arguments, "--slots", "24")

    assert done.returncode == 0, done.stdout + done.stderr
    assert "the trace is sent through Kafka" in done.stdout
    assert "batches differ from run to run" in done.stdout
    guessed, recommended = _column(done.stdout, "completeness")
    lost = [int(cell.split()[0].replace(",", "")) for cell in _column(done.stdout, "rows lost")]
    assert lost[1] < lost[0], "how much depends on the machine"
    assert float(guessed.removesuffix(" %")) < float(recommended.removesuffix(" %"))
    assert not list((tmp_path / "tmp").glob("tidemark-kafka-*"))
    assert not list((tmp_path / "tmp").glob("tidemark-demo-*"))
    _assert_gone(done.stderr)


@pytest.mark.soak
def test_keep_leaves_the_controller_up_and_says_how_to_end_it(tmp_path: Path, trace: Path) -> None:
    (tmp_path / "tmp").mkdir()
    done = _demo(tmp_path / "tmp", "--keep", "--trace", str(trace), "--window", "5s", "--slots", "8")
    assert done.returncode == 0, done.stdout + done.stderr
    (url,) = re.findall(r"runs on at (\S+)", done.stdout)
    (pid,) = re.findall(r"end it with: kill (\d+)", done.stdout)
    try:
        status = httpx.get(f"{url}/v1/jobs/demo/streams/fleet", timeout=PATIENCE_S).json()

        assert status["evidence"]["rows"] > 0
        assert status["completeness"]["exact"]
    finally:
        os.kill(int(pid), signal.SIGTERM)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--trace", "nowhere.parquet"), "there is no file nowhere.parquet"),
        (("--target", "1.5"), "must lie between 0 and 1"),
        (("--window", "soon"), "'soon'"),
        (("--guess=-3s",), "at least 0"),
        (("--slots", "1"), "at least 2"),
    ],
)
def test_a_wrong_argument_is_one_line_and_starts_nothing(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = _demo(tmp_path, *arguments)

    assert done.returncode == 2
    assert message in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
