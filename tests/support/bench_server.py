"""A server process of its own for benches, on a core of its own, and what the kernel says of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.patience import until_ready

__all__ = ["on_core", "percentile", "serving"]


@contextmanager
def on_core(core: int) -> Iterator[None]:
    """Start processes, and go on, on one core; all cores again afterwards."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextmanager
def serving(database_url: str, folder: Path) -> Iterator[tuple[str, int]]:
    """One server on the first core; its address and process id."""
    environment = {
        **os.environ,
        "TIDEMARK_DATABASE_URL": database_url,
        "TIDEMARK_LOG_LEVEL": "warning",
        "TIDEMARK_REPORTS_PER_SECOND": "0",
        "TIDEMARK_REQUESTS_PER_SECOND": "0",
        "PYTHONUNBUFFERED": "1",
    }
    with (folder / "server.log").open("wb") as log, on_core(min(os.sched_getaffinity(0))):
        process = subprocess.Popen(
            [sys.executable, "-m", "tidemark.controller", "serve", "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=log,
            env=environment,
            text=True,
        )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[3].rstrip(",")
        until_ready(f"{url}/readyz", process, folder / "server.log")
        yield url, process.pid
    finally:
        process.terminate()
        process.communicate()


def percentile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(share * len(values)), len(values) - 1)]
