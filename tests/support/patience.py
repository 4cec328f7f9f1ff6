"""Waiting for events: one limit for all, far beyond what a machine that is busy with other things needs.

A limit only ends what hangs. No test's verdict rests on how long something took.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import httpx

__all__ = ["PATIENCE_S", "until", "until_async", "until_ready"]

T = TypeVar("T")

PATIENCE_S = 300.0
"""Longest wait for one event, in seconds."""


def until(
    probe: Callable[[], T],
    what: str,
    *,
    seen: Callable[[], object] = lambda: None,
    pause_s: float = 0.02,
    patience_s: float = PATIENCE_S,
) -> T:
    """Wait until ``probe()`` returns something true, and return that.

    Args:
        probe: called again and again.
        what: what is waited for, in words, for the error.
        seen: returns more of the present state, for the error.
        pause_s: time between two calls, in seconds.
        patience_s: longest wait, in seconds.

    Raises:
        AssertionError: when it does not come; the message says what was waited for and what was seen last.
    """
    deadline = time.monotonic() + patience_s
    while not (found := probe()):
        assert time.monotonic() < deadline, (
            f"waited {patience_s:g} s for {what}; seen last: {found!r} {seen() or ''}"
        )
        time.sleep(pause_s)
    return found


async def until_async(probe: Callable[[], T], what: str) -> T:
    """Wait as ``until`` does, and let the event loop go on."""
    deadline = time.monotonic() + PATIENCE_S
    while not (found := probe()):
        assert time.monotonic() < deadline, f"waited {PATIENCE_S:g} s for {what}; seen last: {found!r}"
        await asyncio.sleep(0.01)
    return found


def until_ready(
    url: str, process: subprocess.Popen[bytes] | subprocess.Popen[str], log: Path | None = None
) -> None:
    """Wait until the server that ``process`` runs answers ``url`` with success.

    Raises:
        AssertionError: when it ends before, or does not answer; the message shows the log.
    """

    def tail() -> str:
        return "" if log is None else log.read_text(encoding="utf-8", errors="replace")[-8_000:]

    def answers() -> bool:
        assert process.poll() is None, f"it ended with {process.returncode}; {tail()}"
        try:
            return httpx.get(url, timeout=PATIENCE_S).is_success
        except httpx.TransportError:
            return False

    until(answers, f"an answer of {url}", seen=tail)
