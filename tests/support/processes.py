"""A controller in a process of its own, to be stopped and killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx

from support.patience import PATIENCE_S, until_ready

__all__ = ["serving"]


@contextmanager
def serving(
    folder: Path,
    *arguments: str,
    under: Sequence[str] = (),
    tick_seconds: float = 0.2,
    wait_ready: bool = True,
    **environment: str,
) -> Iterator[tuple[subprocess.Popen[str], httpx.Client]]:
    """A controller in ``folder``, and a client at the address it printed; its log is printed when the block fails.

    Args:
        folder: its working directory, where its store and its log are.
        arguments: of `tidemark serve`.
        under: a command that runs it, such as one that limits it.
        tick_seconds: time between two ticks.
        wait_ready: whether to wait until it is ready; else the first request is the caller's.
        environment: variables of its environment.
    """
    log = folder / "controller.log"
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [*under, sys.executable, "-m", "tidemark.controller", "serve", "--port", "0", *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            # Not a pipe, which would fill up and stop it.
            stderr=errors,
            text=True,
            env={
                **os.environ,
                "TIDEMARK_TICK_SECONDS": str(tick_seconds),
                "PYTHONUNBUFFERED": "1",
                **environment,
            },
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("tidemark: listening on http://"), line + log.read_text()
        url = line.split()[3].rstrip(",")
        if wait_ready:
            until_ready(f"{url}/readyz", process, log)
        with httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
            yield process, client
    except BaseException:
        # What failed on the server left its traceback there.
        print(log.read_text(encoding="utf-8", errors="replace")[-30_000:])
        raise
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()
