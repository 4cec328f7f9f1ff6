"""Replicas over one PostgreSQL: each a process of its own at a fixed address, of this release or of a next one."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import httpx

from support.next_migration import add_migration
from support.patience import PATIENCE_S, until_ready
from support.postgres import free_port
from support.tree import FOLDERS, ROOT

__all__ = ["Replica", "next_release"]


class Replica:
    """``tidemark serve`` in a process of its own, always at the same address.

    Args:
        folder: where its log is.
        name: its name.
        database_url: the store.
        release: a folder as ``next_release`` returns it; None for this release.
        environment: more variables of its environment.
    """

    def __init__(
        self, folder: Path, name: str, database_url: str, release: Path | None = None, **environment: str
    ) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.kills = 0
        self.log = folder / f"{name}.log"
        self._environment = {
            **os.environ,
            "TIDEMARK_DATABASE_URL": database_url,
            "TIDEMARK_TICK_SECONDS": "0.2",
            "TIDEMARK_REPORTS_PER_SECOND": "0",
            "TIDEMARK_LOG_LEVEL": "warning",
            "PYTHONFAULTHANDLER": "1",
            "TIDEMARK_REQUESTS_PER_SECOND": "0",
            **environment,
        }
        self.process = self._start(release)

    def _start(self, release: Path | None) -> subprocess.Popen[bytes]:
        environment = self._environment | ({} if release is None else {"PYTHONPATH": str(release)})
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tidemark.controller", "serve", "--port", str(self.port)],
                stdout=log,
                stderr=log,
                env=environment,
            )

    def wait_ready(self) -> None:
        """Wait until it is ready."""
        try:
            until_ready(f"{self.url}/readyz", self.process, self.log)
        except AssertionError as error:
            # It says where each of its threads is.
            self.process.send_signal(signal.SIGABRT)
            self.process.wait()
            raise AssertionError(self.log.read_text()[-8_000:]) from error

    def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        self.process.wait()
        self.kills += 1

    def stop(self) -> None:
        """Stop it as an operator does."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(PATIENCE_S) == 0, self.log.read_text()[-8_000:]

    def start_again(self, release: Path | None = None) -> None:
        """Start it at its address."""
        self.process = self._start(release)

    def metric(self, name: str) -> float:
        """Return a metric without labels."""
        for line in httpx.get(f"{self.url}/metrics", timeout=PATIENCE_S).text.splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        raise AssertionError(name)

    def end(self) -> None:
        """End it, whatever it does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


def next_release(folder: Path) -> Path:
    """Copy this release with one more migration; with the returned folder on PYTHONPATH, it comes before this one."""
    package = folder / "tidemark"
    for name in FOLDERS:
        shutil.copytree(ROOT / name, package / name)
    add_migration(package / "controller/base/db/migrations")
    return folder
