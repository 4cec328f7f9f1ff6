"""A controller in a process of its own, to be stopped and killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from support.patience import PATIENCE_S, until_ready

__all__ = ["serving"]


@contextmanager
def serving(folder: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """A controller in ``folder``, and a client at the address it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tidemark.controller", "serve", "--port", "0", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        # Nobody reads its log: a pipe would fill up, and stop it.
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TIDEMARK_TICK_SECONDS": "0.2", "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("tidemark: listening on http://"), line
        url = line.split()[3].rstrip(",")
        until_ready(f"{url}/readyz", process)
        with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
            yield process, client
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
