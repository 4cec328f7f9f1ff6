"""A controller in a process of its own, which can be killed, on a clock that a test moves: a week passes in minutes.

Run as a module it is that process: ``python -m support.clocked_controller CLOCK DATABASE_URL PORT``.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from pathlib import Path
from struct import Struct
from typing import Any

import httpx
import uvicorn
from starlette.responses import JSONResponse

from tidemark.controller.base.db.leases import SHARDS
from tidemark.controller.base.settings import Settings
from tidemark.controller.server.app import create_app

from support.patience import PATIENCE_S, until, until_ready
from support.postgres import free_port
from support.tree import ROOT

__all__ = ["ClockedController", "FileClock"]

_LEASE_SECONDS = 2.0
"""Real time: how long a new process waits for the streams of one that was killed."""


class FileClock:
    """A clock in a file, so that other processes have the same time, in microseconds since the epoch."""

    _TIME = Struct("<q")

    def __init__(self, file: Path) -> None:
        self.file = file
        if not file.exists():
            file.write_bytes(bytes(self._TIME.size))
        with file.open("r+b") as opened:
            self._content = mmap.mmap(opened.fileno(), self._TIME.size)

    def __call__(self) -> int:
        """Return the time."""
        now_us: int = self._TIME.unpack_from(self._content)[0]
        return now_us

    def set(self, now_us: int) -> None:
        """Move it."""
        self._TIME.pack_into(self._content, 0, now_us)


class ClockedController:
    """The process; its loop ticks when it is asked to."""

    def __init__(self, folder: Path, clock: FileClock, database_url: str) -> None:
        self.port = free_port()
        # Each request by a connection of its own: one that is kept may have ended with a process that was killed.
        self.http = httpx.Client(
            base_url=f"http://127.0.0.1:{self.port}",
            timeout=PATIENCE_S,
            limits=httpx.Limits(max_keepalive_connections=0),
        )
        self.log = folder / "controller.log"
        self._arguments = [str(clock.file), database_url, str(self.port)]
        self._process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "support.clocked_controller", *self._arguments],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
            )
        until_ready(f"{self.http.base_url}/readyz", process, self.log)
        return process

    def kill(self) -> None:
        """Kill it, whatever it is doing."""
        self._process.kill()
        self._process.wait()

    def kill_and_start(self) -> None:
        """Kill it, and start it again at its address."""
        self.kill()
        self._process = self._start()

    def ready(self) -> bool:
        """Whether it says that it is."""
        return self.http.get("/readyz").is_success

    def tick(self) -> None:
        """Let the loop tick: decisions, upkeep and snapshots of all streams."""
        until(self._ticks_for_all, "the leases of one that was killed to end")

    def _ticks_for_all(self) -> bool:
        # Of hundreds of streams it takes as long as the machine needs.
        held: int = self.http.post("/tick", timeout=None).json()
        return held == SHARDS

    def get(self, path: str, **query: Any) -> Any:
        """Return what a resource says."""
        answer = self.http.get(path, params=query)
        assert answer.is_success, answer.text
        return answer.json()

    def put(self, path: str, body: Any) -> None:
        """Set what nobody has set yet."""
        answer = self.http.put(path, json=body)
        assert answer.is_success, answer.text


def _serve(clock_file: str, database_url: str, port: str) -> None:
    clock = FileClock(Path(clock_file))
    settings = Settings(
        database_url=database_url,
        tick_seconds=3_600,
        lease_seconds=_LEASE_SECONDS,
        reports_per_second=0,
        requests_per_second=0,
        log_level="warning",
    )
    app = create_app(settings, clock, lambda: clock() / 1e6)

    def tick(_request: Any) -> JSONResponse:
        service = app.state.service
        service.ticker._tick()
        return JSONResponse(service.decider.leases.held)

    app.add_route("/tick", tick, ["POST"])
    uvicorn.run(app, host="127.0.0.1", port=int(port), log_level="warning")


if __name__ == "__main__":
    _serve(*sys.argv[1:])
