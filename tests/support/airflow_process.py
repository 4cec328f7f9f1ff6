"""Airflow in an environment of its own, and a process that runs the DAGs of ``airflow_dags.py`` there, one by one.

An environment is ``build/airflow/VERSION``: the lowest Airflow that the sensor is for, and a newest one.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.patience import until
from support.tree import ROOT

__all__ = ["VERSIONS", "AirflowProcess", "running_airflow"]

VERSIONS = ("2.10.5", "3.3.2")
MARK = "OUTCOME "
DAGS = Path(__file__).with_name("airflow_dags.py")


class AirflowProcess:
    """Airflow's process.

    Args:
        log: file with all that it prints.
    """

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self._log = log
        self._asked = 0
        self._begins = 0
        self._wait()

    def start(self, dag: str, window: str, url: str, token: str = "") -> None:
        """Start a run of a DAG, which waits for the window that ends then."""
        assert self._process.stdin is not None
        self._begins = len(self._text())
        connection = json.dumps({"conn_type": "http", "host": url, "password": token})
        self._process.stdin.write(f"{json.dumps([dag, window, connection])}\n")
        self._process.stdin.flush()

    def log(self) -> str:
        """Return what was printed since the run started."""
        return self._text()[self._begins :]

    def outcome(self) -> dict[str, str]:
        """Wait for the end of the run; return the state of each task by name."""
        self._asked += 1
        self._wait()
        line = [line for line in self._text().splitlines() if line.startswith(MARK)][-1]
        states: dict[str, str] = json.loads(line.removeprefix(MARK))
        return states

    def _wait(self) -> None:
        def done() -> bool:
            assert self._process.poll() is None, self._text()[-8_000:]
            return self._text().count(f"\n{MARK}") > self._asked

        until(done, "the end of the run", seen=lambda: self._text()[-8_000:], pause_s=0.1)

    def _text(self) -> str:
        return f"\n{self._log.read_text(encoding='utf-8')}"


@contextmanager
def running_airflow(version: str, folder: Path) -> Iterator[AirflowProcess]:
    """Start Airflow in ``folder``; it ends with the context. Skipped where it cannot be had, but never in CI."""
    python = _python_with(version)
    (folder / "dags").mkdir()
    # Without its settings, which say where the store is.
    shutil.copy(python.parent.parent / "home" / "airflow.db", folder)
    shutil.copy(DAGS, folder / "dags")
    log = folder / "log"
    with log.open("w", encoding="utf-8") as written:
        command = [str(python), str(folder / "dags" / DAGS.name)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=written, stderr=written, text=True, env=_in(folder)
        )
        try:
            yield AirflowProcess(process, log)
        finally:
            process.kill()
            process.communicate()


def _in(home: Path) -> dict[str, str]:
    others = {
        name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEMARK"))
    }
    settings = {"CORE__LOAD_EXAMPLES": "False", "CORE__DAGS_FOLDER": str(home / "dags")}
    ours = {f"AIRFLOW__{name}": value for name, value in settings.items()}
    return {**others, **ours, "AIRFLOW_HOME": str(home), "PYTHONUNBUFFERED": "1"}


def _python_with(version: str) -> Path:
    """Return the interpreter of an environment with an Airflow, an empty store, and this tree's extra ``airflow``."""
    folder = ROOT / "build" / "airflow" / version
    python, ready = folder / "bin" / "python", folder / ".ready"
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Tests run in more than one process.
    with (folder.parent / f"{version}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not ready.exists():
            try:
                _make(folder, python, version)
            except subprocess.CalledProcessError as error:
                why = f"Airflow {version} cannot be had: {error.stderr[-500:]}"
                assert os.environ.get("CI") != "true", why
                pytest.skip(why)
            ready.touch()
    return python


def _make(folder: Path, python: Path, version: str) -> None:
    venv.create(folder, clear=True)
    uv = [str(Path(sys.prefix, "bin", "uv")), "pip", "install", "--quiet", "--python", str(python)]
    _run([*uv, f"apache-airflow=={version}", "--editable", f"{ROOT}[airflow]"], dict(os.environ))
    _run([str(python), "-m", "airflow", "db", "migrate"], _in(folder / "home"))


def _run(command: list[str], environment: dict[str, str]) -> None:
    subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True)
