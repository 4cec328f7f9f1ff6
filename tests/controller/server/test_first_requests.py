"""The first requests of a fresh controller: nothing is built for them, so they may come from many threads at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.first_requests import ask_at_once
from support.processes import serving
from support.tree import ROOT

pytestmark = pytest.mark.slow

THREADS = 8


def test_every_schema_is_built_before_the_first_request() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "support.first_requests"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []


def failed_in(folder: Path) -> list[tuple[str, int]]:
    """Start a controller and return which of the first requests failed."""
    folder.mkdir()
    with serving(folder, wait_ready=False) as (_, client):
        answers = ask_at_once(str(client.base_url), THREADS)
    return [each for each in answers if each[1] >= 500]


def test_a_fresh_controller_answers_first_requests_from_many_threads(tmp_path: Path) -> None:
    assert failed_in(tmp_path / "controller") == []


@contextmanager
def busy(loops: int) -> Iterator[None]:
    """Keep the processor busy."""
    endless = "import time\nend = time.monotonic() + 7_200\nwhile time.monotonic() < end: pass"
    running = [subprocess.Popen([sys.executable, "-c", endless]) for _ in range(loops)]
    try:
        yield
    finally:
        for process in running:
            process.kill()
            process.wait()


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_two_hundred_fresh_controllers_on_a_busy_machine_answer_first_requests_from_many_threads(
    tmp_path: Path,
) -> None:
    with busy(4):
        failed = {number: failed_in(tmp_path / str(number)) for number in range(200)}
    assert {number: each for number, each in failed.items() if each} == {}
