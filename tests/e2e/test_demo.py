"""``tidemark demo`` as a user runs it: a process of its own, on a small trace, with nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tidemark.spark_jobs.demo.generator import generate
from tidemark.spark_jobs.demo.kafka_jars import broker_jars, connector_jars
from tidemark.spark_jobs.demo.plan import write_trace

from support.kafka import or_skip
from support.patience import PATIENCE_S, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return a minute of the fleet, a few rows a second, in which one partition is slow all the time."""
    path = tmp_path / "fleet.parquet"
    write_trace(path, generate(60, 40, 5, slow_seconds=(0, 60)))
    return path


def _demo(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "TMPDIR": str(folder), "COLUMNS": "200"}
    command = [sys.executable, "-m", "tidemark.controller", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)


def _column(body: str, row: str) -> list[str]:
    (line,) = [line for line in body.splitlines() if row in line and "│" in line]
    return [cell.strip() for cell in line.strip("│").split("│")][1:]


def _lost(body: str, row: str) -> list[int]:
    return [int(cell.replace(",", "")) for cell in _column(body, row)]


def _assert_gone(body: str) -> None:
    """The controller whose page was named must not answer any more."""
    (url,) = re.findall(r"watch it here: (http://[^/\s]+)", body)
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/livez", timeout=PATIENCE_S)


@pytest.mark.soak
@pytest.mark.parametrize("whole_group", [False, True], ids=["the process", "its group"])
def test_a_demo_that_is_terminated_in_the_middle_takes_its_controller_along_and_says_no_more(
    tmp_path: Path, trace: Path, whole_group: bool
) -> None:
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "tidemark.controller", "demo", "--trace", str(trace), "--window", "5s"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "COLUMNS": "200"},
        start_new_session=True,
    ) as running:
        assert running.stdout is not None
        body = ""
        for line in running.stdout:
            body += line
            if "guessed bound: batch" in line:
                break
        (os.killpg if whole_group else os.kill)(running.pid, signal.SIGTERM)
        body += running.stdout.read()

    assert running.returncode == 128 + signal.SIGTERM, body
    assert "Traceback" not in body
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
        "--safe",
        "50s",
        "--target",
        "0.99",
        "--slots",
        "12",
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "coarsened to" in done.stdout
    assert _column(done.stdout, "how") == ["replayed", "replayed", "on Spark", "replayed"]
    lost, later = _lost(done.stdout, "rows lost"), _lost(done.stdout, "in the second half")
    assert later[0] < lost[0]
    # The empty batch at the end of a run brings the watermark on, so that the next rows are judged a batch earlier.
    assert lost[2] - later[2] >= lost[0] - later[0]
    assert re.search(r"[\d,]+ rows of windows that closed, target 99 %:", done.stdout)
    guessed, safe, _, _ = _column(done.stdout, "completeness")
    bounds = _column(done.stdout, "bound")
    assert (bounds[0], bounds[1], bounds[3]) == ("0 s", "50 s", "varies")
    assert re.fullmatch(r"0 s, then [1-9].*", bounds[2])
    assert float(guessed.removesuffix(" %")) < 98
    assert later[2] < later[0]
    assert safe == "100.00 %"
    assert "tidemark: " not in done.stdout + done.stderr, (
        "what the job logs names commands that come too late"
    )
    # The page's address comes before the first batch, and what to do next at the end.
    first, _, rest = done.stdout.partition("guessed bound: ")
    assert re.search(r"watch it here: http://\S+/#/streams/demo/fleet", first)
    assert [line[:4] for line in rest.partition("next:")[2].split("\n")[1:4]] == ["  1.", "  2.", "  3."]
    assert not list((tmp_path / "tmp").glob("tidemark-demo-*"))
    _assert_gone(done.stdout)


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
    lost = _lost(done.stdout, "in the second half")
    assert lost[2] < lost[0], "how much depends on the machine"
    assert not list((tmp_path / "tmp").glob("tidemark-kafka-*"))
    assert not list((tmp_path / "tmp").glob("tidemark-demo-*"))
    _assert_gone(done.stdout)


@pytest.mark.soak
def test_keep_goes_on_with_rows_of_now_until_it_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, "-m", "tidemark.controller", "demo", "--keep"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp"), "COLUMNS": "200", "PYTHONUNBUFFERED": "1"},
    ) as running:
        assert running.stdout is not None
        body = ""
        for line in running.stdout:
            body += line
            if "goes on in real time" in line:
                break
        (url,) = re.findall(r"goes on in real time: (http://\S+?)/#", body)
        stream = f"{url}/v1/jobs/demo/streams/fleet"

        def status() -> dict[str, Any]:
            found: dict[str, Any] = httpx.get(stream, timeout=PATIENCE_S).json()
            return found

        before = status()["evidence"]["batches"]
        until(lambda: status()["evidence"]["batches"] > before + 3, "batches of the job that goes on")
        reports = httpx.get(f"{stream}/reports", timeout=PATIENCE_S).json()["reports"]
        # Batches without rows are among them.
        newest_us = max(report["max_event_time_us"] or 0 for report in reports)
        running.send_signal(signal.SIGINT)
        body += running.stdout.read()

    assert running.returncode == 0, body
    assert abs(time.time_ns() // 1_000 - newest_us) < 600 * 1_000_000
    assert "next:" in body
    with pytest.raises(httpx.ConnectError):
        httpx.get(f"{url}/livez", timeout=PATIENCE_S)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--trace", "nowhere.parquet"), "there is no file nowhere.parquet"),
        (("--target", "1.5"), "must lie between 0 and 1"),
        (("--window", "soon"), "'soon'"),
        (("--guess=-3s",), "at least 0"),
        (("--safe=-3s",), "at least 0"),
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
