"""The demonstration's controller: a process of its own on SQLite, spoken to over HTTP like any other."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

_START_SECONDS = 180
_ANSWER_SECONDS = 60
_STOP_SECONDS = 60


class DemoError(RuntimeError):
    """The demonstration cannot go on; the message says why, for a person."""


class ControllerProcess:
    """Starts ``tidemark serve`` and asks it things."""

    def __init__(self, folder: Path, job: str, stream: str, port: int | None = None) -> None:
        self.log = folder / "controller.log"
        self.port = _free_port() if port is None else port
        self.url = f"http://127.0.0.1:{self.port}"
        self._stream = f"/v1/jobs/{job}/streams/{stream}"
        environment = {
            **os.environ,
            "TIDEMARK_DATABASE_URL": f"sqlite:///{folder / 'tidemark.db'}",
            "TIDEMARK_TICK_SECONDS": "1",
        }
        command = [
            sys.executable,
            "-m",
            "tidemark.controller",
            "serve",
            "--host",
            "127.0.0.1",
            "--port",
            str(self.port),
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self._http = httpx.Client(base_url=self.url, timeout=_ANSWER_SECONDS)

    @property
    def pid(self) -> int:
        """Process id of the controller."""
        return self._process.pid

    def wait_until_ready(self) -> None:
        """Wait until the controller answers.

        Raises:
            DemoError: when it ends or does not answer in time.
        """
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            try:
                if self._http.get("/readyz").is_success:
                    return
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise DemoError(
            f"the controller did not start; it said:\n{self.log.read_text(errors='replace')[-2_000:]}"
        )

    def put(self, what: str, body: dict[str, Any]) -> None:
        """Write the SLO or the policy of the stream, in place of the one that is there."""
        path = f"{self._stream}/{what}"
        etag = self._http.get(path).headers.get("etag")
        self._asked("PUT", path, json=body, headers={} if etag is None else {"If-Match": etag})

    def get(self, what: str = "") -> dict[str, Any]:
        """Return the stream's status, or one of its parts."""
        answer: dict[str, Any] = self._asked("GET", self._stream + (f"/{what}" if what else "")).json()
        return answer

    def kill(self) -> None:
        """End the controller without a word, as a crash would."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End the controller and wait for it."""
        self._http.close()
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.kill()

    def _asked(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **options)
        except httpx.HTTPError as error:
            raise DemoError(f"the controller does not answer ({error}); see {self.log}") from None
        if not response.is_success:
            raise DemoError(f"the controller answered {response.status_code}: {response.text}")
        return response


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
