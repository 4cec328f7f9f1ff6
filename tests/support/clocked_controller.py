"""Replicas in processes of their own, which can be killed, on a clock that a test moves: a week passes in minutes.

Run as a module it is such a process: ``python -m support.clocked_controller CLOCK DATABASE_URL PORT``.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http import HTTPStatus
from itertools import cycle
from pathlib import Path
from struct import Struct
from typing import Any

import httpx
import uvicorn
from starlette.responses import JSONResponse

from tidemark.controller.base.db.leases import SHARDS
from tidemark.controller.base.settings import Settings
from tidemark.controller.reports import group_commit
from tidemark.controller.server.app import create_app

from support.patience import PATIENCE_S, until, until_ready
from support.postgres import free_port
from support.tree import ROOT

__all__ = ["ClockedReplicas", "FileClock"]

_LEASE_SECONDS = 10.0
"""Real time: how long a new process waits for the streams of one that was killed. A replica that gets no turn for that
long loses its streams in the middle of a tick, and their snapshots stay old."""


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


class ClockedReplicas:
    """The replicas; their loops tick when they are asked to.

    Args:
        folder: where their logs are.
        clock: what all of them have for a clock.
        database_url: the store.
        count: how many there are.
    """

    def __init__(self, folder: Path, clock: FileClock, database_url: str, *, count: int) -> None:
        self._arguments = [str(clock.file), database_url]
        self._logs = {free_port(): folder / f"controller{number}.log" for number in range(count)}
        self.ports = list(self._logs)
        """Where they listen."""
        self._turns = cycle(self.ports)
        self._processes = {port: self._start(port) for port in self.ports}

    def _start(self, port: int) -> subprocess.Popen[bytes]:
        with self._logs[port].open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "support.clocked_controller", *self._arguments, str(port)],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": str(ROOT / "tests")},
            )
        until_ready(f"{_address(port)}/readyz", process, self._logs[port])
        return process

    def log(self) -> str:
        """Return the ends of what they have logged."""
        return "\n".join(log.read_text()[-4_000:] for log in self._logs.values())

    def kill(self) -> None:
        """Kill all of them, whatever they are doing."""
        for process in self._processes.values():
            process.kill()
            process.wait()

    def kill_and_start_one(self) -> None:
        """Kill one of them, each time another, and start it again at its address."""
        port = next(self._turns)
        self._processes[port].kill()
        self._processes[port].wait()
        self._processes[port] = self._start(port)

    def any_ready(self) -> bool:
        """Whether one of them says that it is ready."""
        return any(self._ask("GET", "/readyz", port).is_success for port in self.ports)

    def tick(self) -> None:
        """Let every loop tick: decisions, upkeep and snapshots of all streams."""
        until(self._ticks_for_all, "every stream to be decided by one of the replicas", seen=self.log)

    def _ticks_for_all(self) -> bool:
        # Of hundreds of streams it takes as long as the machine needs.
        with ThreadPoolExecutor(len(self.ports)) as pool:
            held = pool.map(partial(self._ask, "POST", "/tick", timeout=None), self.ports)
            shards: int = sum(answer.json() for answer in held)
            return shards == SHARDS

    def get(self, path: str, **query: Any) -> Any:
        """Return what a resource says, by one of them each time."""
        return self._answer("GET", path, params=query).json()

    def put(self, path: str, body: Any) -> None:
        """Set what nobody has set yet."""
        self._answer("PUT", path, json=body)

    def _answer(self, method: str, path: str, **request: Any) -> httpx.Response:
        # After a failover the first who uses a connection that is gone is asked to come again.
        def answer() -> httpx.Response | None:
            said = self._ask(method, path, next(self._turns), **request)
            return None if said.status_code == HTTPStatus.SERVICE_UNAVAILABLE else said

        said = until(answer, f"an answer to {method} {path}", seen=self.log)
        assert said is not None
        assert said.is_success, said.text
        return said

    def _ask(
        self, method: str, path: str, port: int, timeout: float | None = PATIENCE_S, **request: Any
    ) -> httpx.Response:
        # Each time by a connection of its own: one that is kept may have ended with a process that was killed.
        return httpx.request(method, _address(port) + path, timeout=timeout, **request)


def _address(port: int) -> str:
    return f"http://127.0.0.1:{port}"


def _serve(clock_file: str, database_url: str, port: str) -> None:
    clock = FileClock(Path(clock_file))
    # How long a report waits is taken off its driver's clock, and while this one stands still nothing waits.
    vars(group_commit)["perf_counter"] = lambda: clock() / 1e6
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
